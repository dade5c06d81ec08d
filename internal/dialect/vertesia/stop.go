package vertesia

import (
	"cmp"
	"context"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// stop stops the turn of a run or workstream. The end of the turn acknowledges it;
// when no turn ends with this acknowledgement, vertesia.stopped does.
func (d *Dialect) stop(ctx context.Context, c chat.Caller, sess run, in userInput) (string, error) {
	workstream := in.workstreamIn(sess)
	res, err := d.opt.Sessions.StopAs(ctx, c, sess.ID, workstream, text.Clip(in.Message, 900), clientID(in.ClientID))
	if err != nil {
		return "", err
	}
	if res.TurnID != "" {
		d.await(ctx, c, sess.ID, func(st *chat.State) bool {
			t, _ := st.TurnOf(res.TurnID)
			return t == nil
		})
	}
	// A second stop of one turn gets its own acknowledgement, and so does one whose id
	// is too long to stand in the end of the turn.
	if in.ClientID != "" && (!res.Acks || clientID(in.ClientID) != in.ClientID) {
		draft := dialectDraft(typeStopped, stoppedBody{in.Message, in.ClientID})
		draft.Workstream = workstream
		if id := clientID(in.ClientID); id != "" {
			draft.ClientID = "stop:" + text.Clip(id, 200)
		}
		if err := d.append(ctx, c, sess.ID, draft); err != nil {
			return "", err
		}
	}
	if !res.Stopped {
		return "Nothing was running.", nil
	}
	return "The run was stopped.", nil
}

// stopTimeout is how long a request waits for a turn that was told to end.
const stopTimeout = 3 * time.Second

// await waits until the state of a run satisfies done, at most stopTimeout.
func (d *Dialect) await(ctx context.Context, c chat.Caller, id chat.SessionID, done func(*chat.State) bool) {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	for b, err := range d.opt.Sessions.Watch(ctx, c, id, core.Start{}, nil) {
		if err != nil {
			return
		}
		if len(b.Entries) == 0 && !b.Live {
			continue
		}
		if st, err := d.opt.Sessions.State(ctx, c, id); err != nil || done(st) {
			return
		}
	}
}

// terminate ends a run, or one workstream of it.
func (d *Dialect) terminate(ctx context.Context, c chat.Caller, sess run, reason string) error {
	reason = text.Clip(cmp.Or(reason, "terminated by a person"), 900)
	if sess.workstream != "" {
		_, err := d.opt.Sessions.TerminateWorkstream(ctx, c, sess.ID, sess.workstream, chat.Steering{Text: reason})
		return err
	}
	if _, err := d.opt.Sessions.StopAll(ctx, c, sess.ID, reason); err != nil {
		return err
	}
	d.await(ctx, c, sess.ID, func(st *chat.State) bool { return !st.Busy() })
	var now agentRun
	if err := d.ended(ctx, c, &sess.Session, &now); err != nil {
		return err
	}
	if now.end != nil && now.end.Seq >= sess.Last {
		return nil // it has ended meanwhile
	}
	payload, err := json.Marshal(map[string]any{"outcome": outcomeCancelled, "reason": reason, "by": c.Actor})
	if err != nil {
		return err
	}
	// StopAll has checked the caller's right to end the run.
	return d.append(ctx, chat.Trusted, sess.ID, chat.Draft{Type: chat.SessionCompleted{}.Type(), Payload: payload})
}
