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
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/sleep"
	"github.com/parley-hq/parley/internal/sse"
)

// streamReader reads the agent's stream and appends the new events. One goroutine reads,
// another one decides and appends; a bounded queue is between them.
type streamReader struct {
	s      *Sidecar
	client *http.Client // without keep-alive and timeout: a stream may be silent for hours
	jobs   chan job

	refused atomic.Int64 // how often the agent's port was closed
	ready   *agentReady  // whether inputs may be delivered
}

// job is what the deciding goroutine handles: a change of the connection, an event or a start.
type job struct {
	closed bool // the connection ended
	opened bool // a new connection
	away   bool // and the port was closed before it: the agent is a new process
	item   agentEvent

	started chan<- int64 // the agent posted session.started; answered with its boot
	name    string       // the key of that post, "" for none
}

const (
	queueSize   = 4096
	maxFrame    = 8 << 20                // bytes of a frame of the agent's stream
	maxID       = 256                    // bytes of an event id; longer ones are ignored
	replayPause = 250 * time.Millisecond // an agent repeats its events without a pause of this length
	replayMax   = 5 * time.Second        // and within this time
)

func newStreamReader(s *Sidecar) *streamReader {
	return &streamReader{
		s: s, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}},
		jobs: make(chan job, queueSize), ready: newAgentReady(),
	}
}

// run reads until ctx ends, or the session and its agent have ended.
func (r *streamReader) run(ctx context.Context) error {
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
			r.ready.reset()
			r.push(ctx, job{closed: true})
		}
		if ctx.Err() != nil {
			return nil
		}
		r.s.log.Info("the agent's stream ended; connecting again", "err", err)
		if sleep.For(ctx, 50*time.Millisecond) != nil {
			return nil
		}
	}
}

// health waits until the agent answers; gone says that its port was closed. It returns
// errEnded if the session has ended.
func (r *streamReader) health(ctx context.Context) (gone bool, err error) {
	began := time.Now()
	warned := false
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := r.s.checkHealth(ctx)
		if err == nil || ctx.Err() != nil {
			return gone, nil
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			gone = true
			r.refused.Add(1)
		}
		ended := false
		r.s.state.view(func(b *state) { ended = b.ended })
		if ended && gone {
			return gone, errEnded
		}
		if !warned && time.Since(began) > 5*time.Second {
			warned = true
			r.s.log.Warn("the agent does not answer; waiting for it", "url", r.s.opt.Stream, "err", err)
		}
		if time.Since(began) > r.s.opt.Wait {
			_, _ = r.s.write.send(ctx, draft{typ: "agent.error", key: fmt.Sprintf("away:%d:%d", r.s.write.epoch, began.UnixNano()), payload: chat.AgentError{
				Message: "The agent process does not answer. New messages wait for it.", Recoverable: true,
			}})
			return gone, chat.Errorf(chat.Unavailable, "the agent at %s did not answer for %s; is it running?", r.s.opt.Stream, r.s.opt.Wait).Because(err)
		}
		if sleep.For(ctx, wait) != nil {
			return gone, nil
		}
	}
}

// errEnded is not a failure: the sidecar has nothing to do any more.
var errEnded = fmt.Errorf("the session has ended: %w", context.Canceled)

// read reads one connection to its end. It counts as open once the request is written:
// some agents send nothing, not even headers, before their first event, which may be the
// answer to an input.
func (r *streamReader) read(ctx context.Context, lastID string, away bool) (opened bool, id string, err error) {
	var open atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		if info.Err == nil && !open.Swap(true) {
			r.push(ctx, job{opened: true, away: away})
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
	frames := sse.NewReader(res.Body, maxFrame)
	for {
		f, err := frames.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return true, lastID, err
		}
		if f.ID != "" && utf8.ValidString(f.ID) && len(f.ID) <= maxID {
			lastID = f.ID
		}
		items, err := parse(lastID, f.Data)
		if err != nil {
			r.s.log.Warn("the agent sent data that is not an event; it is ignored", "err", err)
		}
		for _, item := range items {
			if !r.push(ctx, job{item: item}) {
				return true, lastID, ctx.Err()
			}
		}
	}
}

func (r *streamReader) push(ctx context.Context, j job) bool {
	select {
	case r.jobs <- j:
		return true
	case <-ctx.Done():
		return false
	}
}

// streamState is the state of the deciding goroutine.
type streamState struct {
	replay       replayAligner
	boot         int64
	fresh        bool           // this sidecar saw the boot begin
	posted       bool           // its session.started came on this connection
	early        bool           // or just before it
	open         bool           // connected
	ended        int            // how many connections ended before
	heldStarts   []job          // posted starts that wait for a decision
	storedBefore int            // how many events of this boot were stored before this connection
	userCounts   map[string]int // user events of the stream, by content
	replayEnded  bool
	since        time.Time // start of the connection
}

// work is the deciding goroutine.
func (r *streamReader) work(ctx context.Context) {
	st := &streamState{userCounts: map[string]int{}}
	r.s.state.view(func(b *state) { st.boot, st.replay.stored = b.boot, append([]x1.Digest(nil), b.stream...) })
	st.replay.replay, st.storedBefore = r.s.opt.Replay, len(st.replay.stored)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case p := <-r.jobs:
			switch {
			case p.closed:
				// A start that is posted now belongs to the next connection, and events
				// that are not decided are repeated there.
				st.open, st.posted, st.replay = false, false, replayAligner{}
				st.ended++
				r.s.state.view(func(b *state) { st.storedBefore = len(b.stream) })
				r.answerStarts(ctx, st)
			case p.opened:
				r.open(ctx, st, p.away)
			case p.started != nil:
				r.start(ctx, st, p)
			default:
				r.take(ctx, st, &p.item)
			}
			switch {
			case !st.open && len(st.heldStarts) > 0:
				timer.Reset(startWait)
			case st.replayEnded || !st.open:
			case st.replay.live && len(r.jobs) == 0 && time.Since(st.since) > replayPause:
				// It sends without a pause, and all of it was handled.
				r.settle(ctx, st)
			default:
				timer.Reset(min(replayPause, max(0, time.Until(st.since.Add(replayMax)))))
			}
		case <-timer.C:
			if st.open {
				r.settle(ctx, st)
			} else {
				r.answerStarts(ctx, st)
			}
		case <-ctx.Done():
			return
		}
	}
}

// settle is called when the agent has repeated its buffer.
func (r *streamReader) settle(ctx context.Context, st *streamState) {
	st.replayEnded = true
	r.answerStarts(ctx, st)
	r.append(ctx, st, r.noteGap(ctx, st, st.replay.endReplay()))
	r.ready.set(st.ended)
}

// open begins a new connection: the agent repeats its buffer.
func (r *streamReader) open(ctx context.Context, st *streamState, away bool) {
	if r.s.catchUp(ctx) != nil {
		return // the sidecar is ending
	}
	b := r.s.state
	used := false
	b.view(func(b *state) {
		st.boot = max(st.boot, b.boot)
		used = b.booted || len(b.stream) > 0
	})
	st.posted, st.early, st.open = st.early, false, true
	st.replayEnded, st.userCounts, st.since = false, map[string]int{}, time.Now()
	if st.fresh = away || st.posted; away && used && !st.posted {
		st.boot++
	}
	b.begin(st.boot)
	st.replay = replayAligner{replay: r.s.opt.Replay}
	b.view(func(b *state) { st.replay.stored = append([]x1.Digest(nil), b.stream...) })
	st.storedBefore = len(st.replay.stored)
}

// take handles one event of the stream.
func (r *streamReader) take(ctx context.Context, st *streamState, item *agentEvent) {
	switch {
	case strings.HasPrefix(item.typ, "session.agent_thinking"):
		if st.replayEnded { // a repeated hint is outdated
			r.s.hint(x1.Events, item)
		}
	case strings.HasSuffix(item.typ, ".delta"):
		r.s.hint(x1.Delta, item)
	case item.typ == "user.message" || item.typ == "user.input_response":
		r.echo(ctx, st, item)
	case item.id != "":
		r.append(ctx, st, []agentEvent{*item})
	default:
		r.append(ctx, st, r.noteGap(ctx, st, st.replay.feed(*item)))
	}
}

// noteGap stores a note if events may be missing before the new ones.
func (r *streamReader) noteGap(ctx context.Context, st *streamState, fresh []agentEvent) []agentEvent {
	if st.replay.gap {
		st.replay.gap = false
		r.storeGap(ctx, st)
	}
	return fresh
}

// echo handles a user event in the agent's stream: mostly the echo of an input.
func (r *streamReader) echo(ctx context.Context, st *streamState, item *agentEvent) {
	key, _ := inputKey(item.typ, item.payload)
	nth := 1
	if item.id == "" {
		st.userCounts[key]++
		nth = st.userCounts[key]
	}
	known, pending := r.s.state.echo(key, nth)
	if pending != nil {
		// It was delivered just before a crash, and that was not stored.
		r.s.state.expectEcho(pending)
		r.s.delivered(ctx, pending, st.boot)
	}
	if known {
		return
	}
	d := draft{typ: item.typ, payload: item.payload, key: fmt.Sprintf("%s%d:%d:%s", agentPrompt, st.boot, nth, item.digest)}
	if _, err := r.s.write.send(ctx, d); err != nil && ctx.Err() == nil {
		r.s.log.Warn("a user event of the agent was refused", "err", err)
	}
}

// append stores events. For a refused one it stores x1.event.refused, so that indexes stay
// without gaps.
func (r *streamReader) append(ctx context.Context, st *streamState, items []agentEvent) {
	for i := range items {
		item := &items[i]
		d := draft{typ: item.typ, payload: item.payload, key: streamKey(st.boot, item)}
		_, err := r.s.write.send(ctx, d)
		if err == nil || ctx.Err() != nil {
			continue
		}
		r.s.log.Warn("an event of the agent was refused", "type", item.typ, "err", err)
		d.typ, d.payload = refusedType, map[string]any{"type": item.typ, "error": chat.Public(err).Msg}
		_, _ = r.s.write.send(ctx, d) // the sidecar is ending, or was replaced
	}
}

// storeGap stores a note that the agent sent more events than it could repeat.
func (r *streamReader) storeGap(ctx context.Context, st *streamState) {
	d := draft{typ: "agent.status", key: fmt.Sprintf("gap:%d:%d:%d", r.s.write.epoch, st.boot, len(st.replay.stored)), payload: map[string]any{
		"message": "Some events that the agent sent while it was not connected may be missing here.", "phase": "reconnected",
	}}
	if _, err := r.s.write.send(ctx, d); err != nil && ctx.Err() == nil {
		r.s.log.Warn("a gap could not be noted", "err", err)
	}
}

// hint publishes a message that is not stored.
func (s *Sidecar) hint(k x1.Kind, item *agentEvent) {
	b, err := json.Marshal(x1.Message{Session: s.opt.Session, Timestamp: time.Now().UTC().Format(time.RFC3339Nano), Type: item.typ, Payload: item.payload})
	if err == nil {
		s.conn.publish(x1.Subject(s.opt.Session, k), b)
	}
}
