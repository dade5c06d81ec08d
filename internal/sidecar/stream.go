package sidecar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/json"
)

// reader reads the agent's stream and appends what is new in it. One goroutine
// reads, another decides and appends; between them is a queue with a bound.
type reader struct {
	s      *Sidecar
	client *http.Client // for streams: each has a connection of its own, and may be silent for ever
	steps  chan step

	refused atomic.Int64 // how often nobody listened where the agent should
	gate    *gate        // for what the agent is told
}

// step is something that happens to the stream.
type step struct {
	closed bool // the connection ended
	opened bool // a new connection
	away   bool // and before it nobody listened there: the agent began anew
	item   said

	started chan<- int64 // the agent says that it has started: which boot is it?
	name    string       // what it calls that start, "" when it does not say
}

const (
	queueSize = 4096
	quietTime = 250 * time.Millisecond // an agent repeats its events in one go
	quietMost = 5 * time.Second        // and does not take longer than that
)

func newReader(s *Sidecar) *reader {
	return &reader{
		s: s, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}},
		steps: make(chan step, queueSize), gate: newGate(),
	}
}

// run reads until ctx ends, or the session and its agent have ended.
func (r *reader) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { r.work(ctx) })
	lastID, away := "", false
	for {
		gone, err := r.health(ctx)
		if err != nil || ctx.Err() != nil {
			return err
		}
		away = away || gone
		if away {
			lastID = "" // ids of another process
		}
		opened, id, err := r.read(ctx, lastID, away)
		if opened {
			away, lastID = false, id
			r.gate.shut()
			r.push(ctx, step{closed: true})
		}
		if ctx.Err() != nil {
			return nil
		}
		r.s.log.Info("the agent's stream ended; coming back", "err", err)
		if !pause(ctx, 50*time.Millisecond) {
			return nil
		}
	}
}

// health waits until the agent answers; gone tells that for a while nobody even
// listened. A session that has ended needs no agent.
func (r *reader) health(ctx context.Context) (gone bool, err error) {
	began := r.s.opt.Now()
	told := false
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := r.s.get(ctx, r.s.opt.Stream+"/health")
		if err == nil || ctx.Err() != nil {
			return gone, nil
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			gone = true
			r.refused.Add(1)
		}
		ended := false
		r.s.book.look(func(b *book) { ended = b.ended })
		if ended && gone {
			return gone, errEnded
		}
		if !told && r.s.opt.Now().Sub(began) > 5*time.Second {
			told = true
			r.s.log.Warn("the agent does not answer; waiting for it", "url", r.s.opt.Stream, "err", err)
		}
		if r.s.opt.Now().Sub(began) > r.s.opt.Wait {
			_, _ = r.s.write.send(ctx, draft{typ: "agent.error", key: fmt.Sprintf("away:%d:%d", r.s.write.epoch, began.UnixNano()), payload: chat.AgentError{
				Message: "The agent process does not answer. What is said here waits for it.", Recoverable: true,
			}})
			return gone, chat.Errorf(chat.Unavailable, "the agent at %s did not answer for %s; is it running?", r.s.opt.Stream, r.s.opt.Wait).Because(err)
		}
		if !pause(ctx, wait) {
			return gone, nil
		}
	}
}

// errEnded is no failure: nothing is left to do.
var errEnded = fmt.Errorf("the session has ended: %w", context.Canceled)

// read reads one connection to its end. It counts as open once the agent has the
// request: some agents send nothing, not even headers, until they have something
// to say, and that may be the answer to what they are told.
func (r *reader) read(ctx context.Context, lastID string, away bool) (opened bool, id string, err error) {
	var open atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		if info.Err == nil && !open.Swap(true) {
			r.push(ctx, step{opened: true, away: away})
		}
	}})
	req, err := http.NewRequestWithContext(traced, http.MethodGet, r.s.opt.Stream+"/stream", nil)
	if err != nil {
		return false, lastID, err
	}
	req.Header.Set("Accept", "text/event-stream")
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	res, err := r.client.Do(req)
	if err != nil {
		return open.Load(), lastID, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return open.Load(), lastID, fmt.Errorf("the agent's stream answers %s", res.Status)
	}
	dec := newDecoder(res.Body)
	dec.id = lastID
	for {
		f, err := dec.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return true, lastID, err
		}
		items, err := parse(f)
		if err != nil {
			r.s.log.Warn("the agent sent something that is no event; it is passed over", "err", err)
		}
		for _, item := range items {
			if !r.push(ctx, step{item: item}) {
				return true, lastID, ctx.Err()
			}
		}
		lastID = dec.id
	}
}

func (r *reader) push(ctx context.Context, st step) bool {
	select {
	case r.steps <- st:
		return true
	case <-ctx.Done():
		return false
	}
}

// stretch is what the deciding goroutine knows of the stream.
type stretch struct {
	tape   tape
	boot   int64
	fresh  bool           // this boot was noticed by this process
	posted bool           // its session.started came, on this very connection
	early  bool           // or just before there was one
	open   bool           // there is a connection
	ended  int            // so many ended before
	held   []step         // starts of the agent that wait for what its stream tells
	had    int            // so much of this boot was stored before it
	counts map[string]int // how often the stream had a user's words
	quiet  bool
	since  time.Time // when the connection began
}

// work decides and appends.
func (r *reader) work(ctx context.Context) {
	st := &stretch{counts: map[string]int{}}
	r.s.book.look(func(b *book) { st.boot, st.tape.have = b.boot, append([]digest(nil), b.stream...) })
	st.tape.replay, st.had = r.s.opt.Replay, len(st.tape.have)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case p := <-r.steps:
			switch {
			case p.closed:
				// What the agent says of itself now is of the connection to come. What
				// was not decided will be repeated there.
				st.open, st.posted, st.tape = false, false, tape{}
				st.ended++
				r.s.book.look(func(b *book) { st.had = len(b.stream) })
				r.release(ctx, st)
			case p.opened:
				r.open(ctx, st, p.away)
			case p.started != nil:
				r.start(ctx, st, p)
			default:
				r.take(ctx, st, &p.item)
			}
			switch {
			case !st.open && len(st.held) > 0:
				timer.Reset(startWait)
			case st.quiet || !st.open:
			case st.tape.live && len(r.steps) == 0 && time.Since(st.since) > quietTime:
				// It talks on without a pause, and we have heard all of it.
				r.settle(ctx, st)
			default:
				timer.Reset(min(quietTime, max(0, time.Until(st.since.Add(quietMost)))))
			}
		case <-timer.C:
			if st.open {
				r.settle(ctx, st)
			} else {
				r.release(ctx, st)
			}
		case <-ctx.Done():
			return
		}
	}
}

// settle says that the agent has repeated what it had to.
func (r *reader) settle(ctx context.Context, st *stretch) {
	st.quiet = true
	r.release(ctx, st)
	r.append(ctx, st, r.lined(ctx, st, st.tape.quiet()))
	r.gate.pass(st.ended)
}

// open begins a new connection: the agent repeats what it remembers.
func (r *reader) open(ctx context.Context, st *stretch, away bool) {
	if r.s.catchUp(ctx) != nil {
		return // the sidecar is ending
	}
	b := r.s.book
	used := false
	b.look(func(b *book) {
		st.boot = max(st.boot, b.boot)
		used = b.booted || len(b.stream) > 0
	})
	st.posted, st.early, st.open = st.early, false, true
	st.quiet, st.counts, st.since = false, map[string]int{}, time.Now()
	if st.fresh = away || st.posted; away && used && !st.posted {
		st.boot++
	}
	b.begin(st.boot)
	st.tape = tape{replay: r.s.opt.Replay}
	b.look(func(b *book) { st.tape.have = append([]digest(nil), b.stream...) })
	st.had = len(st.tape.have)
}

// take decides about one event of the stream.
func (r *reader) take(ctx context.Context, st *stretch, item *said) {
	switch {
	case strings.HasPrefix(item.typ, "session.agent_thinking"):
		if st.quiet { // a hint for the moment; a repeated one is stale
			r.s.hint(x1.Events, item)
		}
	case strings.HasSuffix(item.typ, ".delta"):
		r.s.hint(x1.Delta, item)
	case item.typ == "user.message" || item.typ == "user.input_response":
		r.echo(ctx, st, item)
	case item.id != "":
		r.append(ctx, st, []said{*item})
	default:
		r.append(ctx, st, r.lined(ctx, st, st.tape.feed(*item)))
	}
}

// lined tells first if something is missing before what is new.
func (r *reader) lined(ctx context.Context, st *stretch, fresh []said) []said {
	if st.tape.gap {
		st.tape.gap = false
		r.missing(ctx, st)
	}
	return fresh
}

// echo handles a user's words in the agent's stream: mostly its repetition of
// what it was told.
func (r *reader) echo(ctx context.Context, st *stretch, item *said) {
	key, _ := inputKey(item.typ, item.payload)
	nth := 1
	if item.id == "" {
		st.counts[key]++
		nth = st.counts[key]
	}
	known, pending := r.s.book.echo(key, nth)
	if pending != nil {
		// It was told just before a crash, and nobody wrote that down.
		r.s.book.offered(pending)
		r.s.delivered(ctx, pending, st.boot)
	}
	if known {
		return
	}
	d := draft{typ: item.typ, payload: item.payload, key: fmt.Sprintf("%s%d:%d:%s", ownSpeech, st.boot, nth, item.digest)}
	if _, err := r.s.write.send(ctx, d); err != nil && ctx.Err() == nil {
		r.s.log.Warn("what the agent says that a user said was refused", "err", err)
	}
}

// append stores events; one that is refused leaves a mark, so that places count on.
func (r *reader) append(ctx context.Context, st *stretch, items []said) {
	for i := range items {
		item := &items[i]
		d := draft{typ: item.typ, payload: item.payload, key: streamKey(st.boot, item)}
		_, err := r.s.write.send(ctx, d)
		if err == nil || ctx.Err() != nil {
			continue
		}
		r.s.log.Warn("an event of the agent was refused", "type", item.typ, "err", err)
		d.typ, d.payload = refusedType, map[string]any{"type": item.typ, "error": chat.Public(err).Msg}
		_, _ = r.s.write.send(ctx, d) // the sidecar is ending, or was overtaken
	}
}

// missing tells people that the agent said more than it could repeat.
func (r *reader) missing(ctx context.Context, st *stretch) {
	d := draft{typ: "agent.status", key: fmt.Sprintf("gap:%d:%d:%d", r.s.write.epoch, st.boot, len(st.tape.have)), payload: map[string]any{
		"message": "Some of what the agent said while it was not connected may be missing here.", "phase": "reconnected",
	}}
	if _, err := r.s.write.send(ctx, d); err != nil && ctx.Err() == nil {
		r.s.log.Warn("a gap could not be noted", "err", err)
	}
}

// hint publishes something for the moment that takes no number.
func (s *Sidecar) hint(k x1.Kind, item *said) {
	b, err := json.Marshal(x1.Message{Session: s.opt.Session, Timestamp: s.opt.Now().UTC().Format(time.RFC3339Nano), Type: item.typ, Payload: item.payload})
	if err == nil {
		s.link.tell(x1.Subject(s.opt.Session, k), b)
	}
}
