package session

import (
	"context"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/workstream"
)

// Stop requests the end of the running turn of a line. On the line of a workstream it
// also ends the workstream, unless that is interactive. Stop returns when the request is
// stored; the turn ends shortly after. It is no error if no turn runs or the turn is
// stopping already. Stopping the main line does not stop workstreams; see StopAll.
func (s *Sessions) Stop(ctx context.Context, c chat.Caller, id chat.SessionID, line, reason string) (chat.StopResult, error) {
	return s.StopAs(ctx, c, id, line, reason, "")
}

// StopLate is Stop for a request that has waited before this call. It does not stop a turn that has begun meanwhile, and if turn is
// not "", no other turn.
func (s *Sessions) StopLate(ctx context.Context, c chat.Caller, id chat.SessionID, line, reason string, turn chat.TurnID, waited time.Duration) (chat.StopResult, error) {
	return s.callStop(ctx, &call{Session: id, Caller: c, Line: sentText(line), Cause: reason, Seen: turn, Before: waited})
}

// StopAs is Stop with an acknowledgement: the event that ends the turn has the field ack.
// A turn has only the acknowledgement of the first stop request; the result reports
// whether that is this one.
func (s *Sessions) StopAs(ctx context.Context, c chat.Caller, id chat.SessionID, line, reason, ack string) (chat.StopResult, error) {
	if len(ack) > chat.MaxClientID {
		return chat.StopResult{}, chat.Errorf(chat.TooLarge, "the id of a stop has at most %d bytes", chat.MaxClientID)
	}
	return s.callStop(ctx, &call{Session: id, Caller: c, Line: sentText(line), Cause: reason, Ack: ack})
}

// StopAll stops the main line and all workstreams.
func (s *Sessions) StopAll(ctx context.Context, c chat.Caller, id chat.SessionID, reason string) (chat.StopResult, error) {
	return s.callStop(ctx, &call{Session: id, Caller: c, All: true, Cause: reason})
}

func (s *Sessions) callStop(ctx context.Context, q *call) (chat.StopResult, error) {
	q.Method = callStop
	if q.Seen == "" && s.asksOthers(ctx) { // also the owner: if it was replaced, it sends the call to the new one later
		if st, err := s.log.Load(ctx, q.Session); err == nil { // else the owner says why
			if t := st.Line(string(q.Line)).Turn; t != nil {
				q.Seen = t.ID
			}
		}
	}
	res, err := s.call(ctx, q)
	if err != nil {
		return chat.StopResult{}, err
	}
	res.Stop.Acks = res.Acks
	return res.Stop, nil
}

// lateStop is the time after a stop request in which a turn may begin and is still stopped, if the request had to wait for an owner.
const lateStop = 2 * time.Second

func (s *Sessions) stopHere(ctx context.Context, q *call) (chat.StopResult, error) {
	c, line := q.Caller, string(q.Line)
	// A request that had to wait for an owner must not stop a turn that has begun since. The same is true of one that was repeated
	// because its answer was late: the first one may have ended the turn that the client has seen.
	late := func(d *decision) bool {
		t := d.state.Line(line).Turn
		if t != nil && q.Seen != "" && t.ID != q.Seen {
			return true
		}
		waited := q.Before + q.waited
		return waited > lateStop && t != nil && d.now-t.StartedAt < chat.At((waited-lateStop).Microseconds())
	}
	if q.All {
		return s.stop(ctx, c, q.Session, q.Cause, resting(""), func(d *decision) chat.StopResult {
			if late(d) {
				return chat.StopResult{}
			}
			res := d.stopTurn("", c.Actor, q.Cause, 0, "")
			for _, w := range workstream.Live(d.state, "") {
				d.stopWork(w, c.Actor, q.Cause, 0, "")
				res.Stopped = true
			}
			return res
		})
	}
	ends := func(st *chat.State, w *chat.Workstream) bool {
		top := st.Workstream(line)
		return top != nil && !top.Interactive && st.Line(w.ID).Turn == nil && below(st, w, line)
	}
	return s.stop(ctx, c, q.Session, q.Cause, ends, func(d *decision) chat.StopResult {
		if late(d) {
			return chat.StopResult{}
		}
		if w := d.state.Workstream(line); w != nil && !w.Interactive {
			if w.Ended() {
				return chat.StopResult{}
			}
			res := chat.StopResult{Stopped: true}
			t := d.state.Line(line).Turn
			d.stopWork(w, c.Actor, q.Cause, 0, q.Ack)
			if t != nil {
				res.TurnID, res.Acks = t.ID, t.Ack == q.Ack
			}
			return res
		}
		return d.stopTurn(line, c.Actor, q.Cause, 0, q.Ack)
	})
}

// stop merges the files of the workstreams that ends selects, then applies f.
func (s *Sessions) stop(ctx context.Context, c chat.Caller, id chat.SessionID, reason string, ends func(*chat.State, *chat.Workstream) bool, f func(d *decision) chat.StopResult) (res chat.StopResult, err error) {
	r, err := s.acquireFor(ctx, c, id)
	if err != nil {
		return res, err
	}
	defer r.release()
	if len(reason) > 1000 {
		return res, chat.Errorf(chat.TooLarge, "a reason has at most 1000 bytes")
	}
	req := &request{}
	if req.files, err = s.mergeAll(ctx, r.id, ends); err != nil {
		return res, err
	}
	req.rules = op(func(d *decision) error {
		if err := c.May(&d.state.Session, chat.Answerer); err != nil {
			return err
		}
		res = f(d)
		return nil
	})
	err = r.do(ctx, req)
	return res, err
}

// stopTurn requests the end of the running turn of a line. until is its deadline, or 0.
func (d *decision) stopTurn(line string, by chat.Actor, reason string, until chat.At, ack string) chat.StopResult {
	t := d.state.Line(line).Turn
	if t == nil && line == "" && d.state.Session.Agent == chat.NoAgent {
		// The agent is not run by this server and has no turns: it reads the event.
		d.addSystem(chat.TurnStopRequested{By: by, Reason: reason, Deadline: until, Ack: ack}, line, "")
		return chat.StopResult{Stopped: true}
	}
	if t == nil {
		return chat.StopResult{}
	}
	if !t.Stopping {
		d.addSystem(chat.TurnStopRequested{TurnID: t.ID, By: by, Reason: reason, Deadline: until, Ack: ack}, line, t.ID)
	}
	return chat.StopResult{Stopped: true, TurnID: t.ID, Acks: t.Ack == ack}
}
