package aisdk

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/turnlog"
)

// target is what a response shows.
type target struct {
	session chat.SessionID
	turn    chat.Seq // of turn.started; 0 while the message waits for its turn
	waits   chat.Seq // that message
	run     string   // the id of the segment
	at      segment
	whole   bool // the newest message of the turn, from its start on
	nothing bool // an empty response, because another question that the page has is open
	skip    int  // the client has this many chunks
	legacy  bool
}

// taken sets the turn of a target: that of the event by which a turn takes up its message.
func (t *target) taken(e *chat.Event) {
	t.turn = e.Seq
	if _, ok := e.Body.(chat.TurnInput); ok {
		t.turn, t.at.message = turnlog.Number(e.Turn), e.Seq
	}
}

// await waits until a turn takes up the message of a target. idle is called in times of silence.
func (d *Dialect) await(ctx context.Context, c chat.Caller, t *target, idle func() error) error {
	if t.turn != 0 {
		return nil
	}
	e, err := turnlog.Await(ctx, d.Sessions, c, t.session, t.waits, d.Heartbeat, idle)
	if err == nil {
		t.taken(&e)
	}
	return err
}

// follow calls write with the chunks of a target that the client lacks, and idle in times of silence. It returns nil when the
// response is complete.
func (d *Dialect) follow(ctx context.Context, c chat.Caller, t target, write func([]chunk) error, idle func() error) error {
	if err := d.await(ctx, c, &t, idle); err != nil {
		return err
	}
	s := newSelector(&t)
	return turnlog.Read(ctx, d.Sessions, c, t.session, t.turn-1, d.Heartbeat, idle, func(entries []turnlog.Entry, live bool) (bool, error) {
		if chunks := s.takeAll(entries, live); len(chunks) > 0 {
			return s.done, write(chunks)
		}
		return s.done, nil
	})
}

// selector picks the chunks of a target from those of its turn. It does no I/O.
type selector struct {
	t       *target
	run     *run
	started bool // start was sent
	live    bool // all stored entries were taken
	done    bool
	count   int // chunks so far
	out     []chunk
	ends    []int   // while a whole message is read: how many chunks there were at the end of each segment
	given   []chunk // the last result of ready
}

func newSelector(t *target) *selector { return &selector{t: t, run: newRun(t.legacy)} }

// takeAll takes entries of the turn and returns the chunks that they add.
func (s *selector) takeAll(entries []turnlog.Entry, live bool) []chunk {
	for i := range entries {
		if s.take(&entries[i]); s.done {
			break
		}
	}
	if live {
		s.caughtUp()
	}
	return s.ready()
}

// take takes an entry of the turn.
func (s *selector) take(e *turnlog.Entry) {
	added := s.run.take(e)
	for i := range added {
		if s.done {
			break
		}
		s.add(&added[i])
	}
	if !s.done {
		s.reached()
	}
	if s.run.ended && !s.done {
		s.finish(finishStop) // the segment is empty
	}
}

// add shows an addition if it belongs to the response.
func (s *selector) add(a *addition) {
	if s.t.whole && a.at.message != s.t.at.message {
		s.moved(a.at.message)
	}
	if s.done {
		return
	}
	if s.t.whole && a.at.message != s.t.at.message || !s.t.whole && a.at != s.t.at {
		return
	}
	s.begin()
	s.out = append(s.out, a.chunks...)
	if a.asks && s.t.whole {
		s.ends = append(s.ends, len(s.out))
	}
	if n := len(a.chunks); n > 0 && a.chunks[n-1].Type == chunkFinish {
		s.done = true
	} else if a.asks && (!s.t.whole || s.live) {
		s.finish(finishTools)
	}
}

// moved continues with the next message of the turn. A client that resumes gets only the newest message.
func (s *selector) moved(message chat.Seq) {
	if s.live {
		s.finish(finishStop)
		return
	}
	s.t.at, s.out, s.ends, s.started = segment{message: message}, s.out[:0], nil, false
}

// reached sends start as soon as the run is at the target, and ends the response when the run is beyond it.
func (s *selector) reached() {
	switch at := s.run.at; {
	case s.run.turn == "" || s.t.whole && at.message == s.t.at.message:
	case s.t.whole:
		s.moved(at.message)
	case at == s.t.at:
		s.begin()
		if s.t.nothing {
			s.finish(finishTools)
		}
	case at.message > s.t.at.message || at.message == s.t.at.message && at.index > s.t.at.index:
		s.finish(finishStop)
	}
}

// caughtUp says that all stored entries were taken. When the agent waits for an answer a resumed response ends with the last open
// prompt, which is in the last step then, as the page needs it. What the agent said since is in the response to the answer.
func (s *selector) caughtUp() {
	if s.live || s.done {
		return
	}
	s.live = true
	if !s.t.whole {
		return
	}
	s.begin()
	if last := s.run.waits(); last >= 0 {
		s.out = withoutNewParts(s.out, s.ends[last])
		s.finish(finishTools)
	}
	s.ends = nil
}

// withoutNewParts leaves out what makes a part of a message behind the first n chunks. Data parts have ids, so they may come again.
func withoutNewParts(chunks []chunk, n int) []chunk {
	out, calls := chunks[:n], map[string]bool{}
	for i := range out {
		calls[out[i].Call] = true
	}
	for _, c := range chunks[n:] {
		switch c.Type {
		case chunkToolOutput, chunkToolError, chunkToolDenied:
			if calls[c.Call] {
				out = append(out, c)
			}
		default:
			if isData(c.Type) || c.Type == chunkMetadata {
				out = append(out, c)
			}
		}
	}
	return out
}

// hideExecuted marks calls of the page's tools that have their output, so that a page that resumes does not run them again.
func (s *selector) hideExecuted() {
	for i := range s.out {
		if c := &s.out[i]; c.Type == chunkToolInput && !c.Executed && c.Tool != toolAsk {
			if known := s.run.calls[c.Call]; known != nil && known.done {
				c.Executed = true
			}
		}
	}
}

func (s *selector) begin() {
	if !s.started {
		s.started = true
		s.out = append(s.out, s.run.start(s.t.at.message))
	}
}

// finish ends the response.
func (s *selector) finish(reason string) {
	s.begin()
	s.out = append(s.out, chunk{Type: chunkFinish, Finish: reason})
	s.done = true
}

// maxKept is how many chunks a selector has room for while it waits. A page that resumes gets all chunks of its message at once.
const maxKept = 16

// ready returns the chunks that are to be sent. While a resumed message is read there are none. The result is valid until the next
// call.
func (s *selector) ready() []chunk {
	if s.t.whole && !s.live && !s.done {
		return nil
	}
	if s.t.whole && s.count == 0 {
		s.hideExecuted()
	}
	out := s.out
	if len(out) == 0 {
		return nil
	}
	clear(s.given)
	if s.out, s.given = s.given[:0], out; cap(out) > maxKept {
		s.given = nil
	}
	first := s.count
	s.count += len(out)
	if skip := s.t.skip - first; skip > 0 {
		if skip >= len(out) && s.done {
			return out[len(out)-1:] // the clients ask again until they see the end
		}
		out = out[min(skip, len(out)):]
	}
	return out
}
