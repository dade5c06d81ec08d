package client

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

// After disconnects at any byte the reader has one complete stream.
func TestWatchResumesAfterDisconnects(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := randomLog(r, 25)
		var mu sync.Mutex
		moment, cuts := 0, 0
		c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			at, err := cursorOf(req)
			if err != nil {
				refuse(w, 400, chat.Errorf(chat.Invalid, "%s", err))
				return
			}
			moment = min(len(s), max(moment, s.reached(at))+r.IntN(12))
			if r.IntN(3) == 0 {
				// A server may send again what the reader has.
				at = chat.Cursor{Seq: at.Seq - min(at.Seq, chat.Seq(r.IntN(3)))}
			}
			b := s.stream(at, moment)
			w.Header().Set("Content-Type", "text/event-stream")
			n := r.IntN(1500)
			if n >= len(b) {
				w.Write(b)
				return
			}
			cuts++
			w.Write(b[:n])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}))
		err := follows(t.Context(), c, s)
		mu.Lock()
		if err != nil {
			t.Fatalf("seed %d, after %d cuts: %v", seed, cuts, err)
		}
		if cuts == 0 && seed > 3 {
			t.Fatalf("seed %d was not cut at all", seed)
		}
		mu.Unlock()
		c.Close()
	}
}

// follows reads a session from its beginning and reports what is lost, repeated or
// out of order.
func follows(ctx context.Context, c *Client, s sessionLog) error {
	var events []*chat.Event
	for _, e := range s {
		if e.event != nil {
			events = append(events, e.event)
		}
	}
	next, hellos := 0, 0
	shown := map[chat.BlockID]string{}
	for f, err := range c.Watch(ctx, "s-1", WatchOptions{After: "0"}) {
		switch {
		case err != nil:
			return err
		case f.Hello != nil:
			hellos++
		case f.Preview != nil:
			p := f.Preview
			if p.Offset != len(shown[p.Block]) || p.End != p.Offset+len(p.Text) {
				return errors.New("a piece of " + string(p.Block) + " does not continue it")
			}
			shown[p.Block] += p.Text
			if f.Cursor.Bytes(p.Block) != p.End {
				return errors.New("the cursor does not stand behind the piece: " + f.Cursor.String())
			}
		case f.Event != nil:
			want := events[next]
			if string(f.Event.AppendJSON(nil)) != string(want.AppendJSON(nil)) {
				return errors.New("event " + f.Event.Type + " is not the next one")
			}
			if b, ok := f.Event.Body.(chat.AgentText); ok && !strings.HasPrefix(b.Text, shown[b.Block]) {
				return errors.New("what was shown of " + string(b.Block) + " is not its beginning")
			}
			next++
			if next == len(events) {
				if hellos != 1 {
					return errors.New("the reader was greeted more than once")
				}
				return nil
			}
		}
	}
	return errors.New("the stream ended early")
}

// stream answers every request for a stream with the next of some bodies; the
// last one is repeated.
func streams(count *atomic.Int32, bodies ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n := int(count.Add(1))
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, bodies[min(n, len(bodies))-1])
	}
}

const hello = "event: hello\nid: 0\ndata: {\"session_id\":\"s-1\",\"last\":0,\"server_now\":\"2026-11-15T10:00:00Z\"}\n\n"

func lastError(ctx context.Context, c *Client) error {
	var last error
	for _, err := range c.Watch(ctx, "s-1", WatchOptions{}) {
		last = err
	}
	return last
}

func TestWatchEndsOnPermanentErrors(t *testing.T) {
	for name, test := range map[string]struct {
		handler  func(count *atomic.Int32) http.HandlerFunc
		want     chat.Code
		requests int32
	}{
		"erased while watching": {func(n *atomic.Int32) http.HandlerFunc {
			return streams(n, hello+"event: bye\ndata: {\"error\":{\"code\":\"gone\",\"message\":\"erased\"},\"retry\":false}\n\n")
		}, chat.Gone, 1},
		"the credential has ended": {func(n *atomic.Int32) http.HandlerFunc {
			return streams(n, hello+"event: bye\ndata: {\"error\":{\"code\":\"unauthenticated\",\"message\":\"expired\"},\"retry\":false}\n\n")
		}, chat.Unauthenticated, 1},
		"bye with retry, then erased": {func(n *atomic.Int32) http.HandlerFunc {
			return streams(n,
				hello+"event: bye\ndata: {\"error\":{\"code\":\"unavailable\",\"message\":\"restart\"},\"retry\":true}\n\n",
				hello+"event: bye\ndata: {\"error\":{\"code\":\"gone\",\"message\":\"erased\"},\"retry\":false}\n\n")
		}, chat.Gone, 2},
		"bye without retry": {func(n *atomic.Int32) http.HandlerFunc {
			return streams(n, hello+"event: bye\ndata: {\"error\":{\"code\":\"unavailable\",\"message\":\"closed for good\"},\"retry\":false}\n\n")
		}, chat.Gone, 1},
		"not found": {func(n *atomic.Int32) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				n.Add(1)
				refuse(w, 404, chat.Errorf(chat.NotFound, "no"))
			}
		}, chat.NotFound, 1},
		"permanent internal error": {func(n *atomic.Int32) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				n.Add(1)
				refuse(w, 500, chat.Errorf(chat.Internal, "damaged"))
			}
		}, chat.Internal, 5},
		"not a Parley server": {func(n *atomic.Int32) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { n.Add(1); io.WriteString(w, "<html>") }
		}, chat.Invalid, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int32
			c := serve(t, test.handler(&n))
			if err := lastError(t.Context(), c); chat.CodeOf(err) != test.want {
				t.Fatalf("got %v, want %s", err, test.want)
			}
			if n.Load() != test.requests {
				t.Fatalf("asked %d times, want %d", n.Load(), test.requests)
			}
		})
	}
}

func TestWatchReconnectsAfterTheIdleTimeout(t *testing.T) {
	var n atomic.Int32
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, hello)
		if n.Add(1) == 1 {
			w.(http.Flusher).Flush()
			<-r.Context().Done() // connected, but without a frame
			return
		}
		io.WriteString(w, "event: bye\ndata: {\"error\":{\"code\":\"gone\",\"message\":\"erased\"},\"retry\":false}\n\n")
	}), func(o *Options) { o.IdleTimeout = 30 * time.Millisecond })
	// On a busy machine the second connection may also reach the timeout.
	if err := lastError(t.Context(), c); chat.CodeOf(err) != chat.Gone || n.Load() < 2 {
		t.Fatalf("got %v after %d connections", err, n.Load())
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, hello)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	why := errors.New("enough")
	var last error
	for f, err := range c.Watch(ctx, "s-1", WatchOptions{}) {
		if f.Hello != nil {
			cancel(why)
		}
		last = err
	}
	if !errors.Is(last, why) {
		t.Fatalf("ended with %v", last)
	}
}

// A block whose beginning the server does not have is left out; its event has the
// whole text.
func TestWatchLeavesOutBlocksWithoutBeginning(t *testing.T) {
	var n atomic.Int32
	gap := hello +
		"event: preview\nid: 0~b1.9\ndata: {\"block\":\"b1\",\"offset\":5,\"end\":9,\"text\":\"tail\",\"kind\":\"text\"}\n\n" +
		"event: event\nid: 1\ndata: {\"session_id\":\"s-1\",\"sequence\":1,\"timestamp\":\"2026-11-15T10:00:00Z\",\"type\":\"agent.text\",\"payload\":{\"block\":\"b1\",\"text\":\"whole tail\"}}\n\n"
	c := serve(t, streams(&n, gap))
	for f, err := range c.Watch(t.Context(), "s-1", WatchOptions{After: "0"}) {
		if err != nil || f.Preview != nil {
			t.Fatalf("got %+v, %v", f.Preview, err)
		}
		if f.Event != nil {
			break
		}
	}
	if n.Load() != 2 {
		t.Fatalf("it asked %d times for what is missing, want one more time", n.Load()-1)
	}
}

// A cursor of the server without an open block does not change the position of a
// reader that has a part of the block.
func TestWatchKeepsItsOffsetInABlock(t *testing.T) {
	var n atomic.Int32
	c := serve(t, streams(&n, hello+
		"event: preview\nid: 0~b1.4\ndata: {\"block\":\"b1\",\"offset\":0,\"end\":4,\"text\":\"one \",\"kind\":\"text\"}\n\n"+
		"event: event\nid: 1\ndata: {\"session_id\":\"s-1\",\"sequence\":1,\"timestamp\":\"2026-11-15T10:00:00Z\",\"type\":\"turn.resumed\",\"payload\":{}}\n\n"+
		"event: preview\nid: 1~b1.7\ndata: {\"block\":\"b1\",\"offset\":4,\"end\":7,\"text\":\"two\",\"kind\":\"text\"}\n\n"))
	text := ""
	for f, err := range c.Watch(t.Context(), "s-1", WatchOptions{After: "0"}) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Event != nil && f.Cursor.String() != "1~b1.4" {
			t.Fatalf("the cursor behind the event is %s", f.Cursor)
		}
		if f.Preview != nil {
			if text += f.Preview.Text; text == "one two" {
				break
			}
		}
	}
	if n.Load() != 1 {
		t.Fatalf("it came back %d times for what it had", n.Load()-1)
	}
}

func TestWatchReportsTheConnection(t *testing.T) {
	var n atomic.Int32
	c := serve(t, streams(&n, hello, hello+"event: bye\ndata: {\"error\":{\"code\":\"gone\",\"message\":\"\"},\"retry\":false}\n\n"))
	var seen []bool
	for range c.Watch(t.Context(), "s-1", WatchOptions{Link: func(l Link) { seen = append(seen, l.Up) }}) {
	}
	if len(seen) != 3 || !seen[0] || seen[1] || !seen[2] {
		t.Fatalf("the link was %v, want up, down, up", seen)
	}
}
