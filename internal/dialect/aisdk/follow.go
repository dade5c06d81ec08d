package aisdk

import (
	"context"
	"slices"

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
	nothing bool // an empty response, because another question of the page's message is open
	skip    int  // the client has this many chunks
	legacy  bool
}

// await waits until a turn takes up the message of a target.
func (d *Dialect) await(ctx context.Context, c chat.Caller, t *target, idle func() error) error {
	if t.turn != 0 {
		return nil
	}
	from := chat.Start{Cursor: &chat.Cursor{Seq: t.waits}, Idle: d.opt.Heartbeat}
	for batch, err := range d.opt.Sessions.Watch(ctx, c, t.session, from, nil) {
		if err != nil {
			return err
		}
		if batch.Idle {
			if err := idle(); err != nil {
				return err
			}
		}
		for i := range batch.Entries {
			e := &batch.Entries[i]
			if e.Piece != nil || e.Label.Workstream != "" {
				continue
			}
			switch e.Label.Type {
			case chat.TurnStarted{}.Type(), chat.TurnInput{}.Type(), chat.UserMessageWithdrawn{}.Type():
			default:
				continue
			}
			ev, err := e.Fact.Event()
			if err != nil {
				return err
			}
			if found, err := t.taken(&ev); found || err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// taken reports whether the event starts the turn of the message, or gives the message to a running turn. It then sets the
// turn.
func (t *target) taken(e *chat.Event) (bool, error) {
	switch b := e.Body.(type) {
	case chat.TurnStarted:
		if b.Trigger != t.waits {
			return false, nil
		}
		t.turn = e.Seq
		return true, nil
	case chat.TurnInput:
		if !slices.Contains(b.Sequences, t.waits) {
			return false, nil
		}
		t.turn, t.at.message = turnSeq(e.Turn), e.Seq
		return t.turn != 0, nil
	case chat.UserMessageWithdrawn:
		if b.Sequence == t.waits {
			return false, chat.Errorf(chat.Conflict, "The message was withdrawn before the agent read it.")
		}
	}
	return false, nil
}

// turnSeq is the number of the turn.started event of a turn, 0 when the id is none.
func turnSeq(id chat.TurnID) chat.Seq {
	parsed, ok := chat.ParseID(chat.TurnPrefix, string(id))
	if !ok {
		return 0
	}
	_, seq, _ := parsed.Parts()
	return seq
}

// follow calls write with the chunks of a target that the client lacks. It returns nil when the response is complete.
func (d *Dialect) follow(ctx context.Context, c chat.Caller, t target, write func([]chunk) error, idle func() error) error {
	if err := d.await(ctx, c, &t, idle); err != nil {
		return err
	}
	s := newSelector(&t)
	for batch, err := range turnlog.Follow(ctx, d.opt.Sessions, c, t.session, t.turn-1, d.opt.Heartbeat) {
		if err != nil {
			return err
		}
		if batch.Idle {
			if err := idle(); err != nil {
				return err
			}
		}
		for i := range batch.Entries {
			if err := s.take(&batch.Entries[i]); err != nil {
				return err
			}
			if s.done {
				break
			}
		}
		if batch.Live {
			s.caughtUp()
		}
		if chunks := s.ready(); len(chunks) > 0 {
			if err := write(chunks); err != nil {
				return err
			}
		}
		if s.done {
			return nil
		}
	}
	return context.Cause(ctx)
}

// selector picks the chunks of a target from those of its turn. It does no I/O.
type selector struct {
	t       *target
	run     *run
	started bool // start was sent
	live    bool // all stored entries were taken
	done    bool
	count   int // chunks so far
	last    chunk
	out     []chunk
}

func newSelector(t *target) *selector { return &selector{t: t, run: newRun(t.legacy)} }

// take takes an entry of the turn.
func (s *selector) take(e *chat.Entry) error {
	added, err := s.run.take(e)
	if err != nil {
		return err
	}
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
	return nil
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
	if n := len(a.chunks); n > 0 && a.chunks[n-1].typ == chunkFinish {
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
	s.t.at, s.out, s.started = segment{message: message}, s.out[:0], false
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

// caughtUp says that all stored entries were taken. A resumed response ends here when the agent waits for an answer.
func (s *selector) caughtUp() {
	if s.live || s.done {
		return
	}
	s.live = true
	if !s.t.whole {
		return
	}
	s.begin()
	if slices.ContainsFunc(s.run.prompts, func(p *prompt) bool { return p.at.message == s.run.at.message }) {
		s.finish(finishTools)
	}
}

// hideExecuted marks calls of the page's tools that have their output, so that a page that resumes does not run them again.
func (s *selector) hideExecuted() {
	for i := range s.out {
		if c := &s.out[i]; c.typ == chunkToolInput && !c.executed && c.tool != toolAsk {
			if known := s.run.calls[c.call]; known != nil && known.done {
				c.executed = true
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
	s.out = append(s.out, chunk{typ: chunkFinish, text: reason})
	s.done = true
}

// ready returns the chunks that are to be sent. While a resumed message is read there are none.
func (s *selector) ready() []chunk {
	if s.t.whole && !s.live && !s.done {
		return nil
	}
	if s.t.whole && s.count == 0 {
		s.hideExecuted()
	}
	out := s.out
	s.out = nil
	if len(out) == 0 {
		return nil
	}
	s.last = out[len(out)-1]
	first := s.count
	s.count += len(out)
	if skip := s.t.skip - first; skip > 0 {
		if skip >= len(out) && s.done {
			return []chunk{s.last} // the clients ask again until they see the end
		}
		out = out[min(skip, len(out)):]
	}
	return out
}
