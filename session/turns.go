package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// MaxCrashes is how often a turn may end its process without having said
// anything new before it fails: no crash loop. A turn that waits for a person
// is not to blame.
const MaxCrashes = 3

// userMessage adds what a person says and, by the session's policy, starts,
// steers, interrupts or waits.
func (d *decision) userMessage(actor chat.Actor, draft chat.Draft) (chat.Event, error) {
	line := d.state.Line(draft.Workstream)
	waits := len(line.Queue)
	if line.Turn != nil {
		waits += len(line.Turn.Steered)
	}
	if waits >= d.maxQueue {
		return chat.Event{}, chat.Errorf(chat.SlowDown, "%d messages wait for this session already; let the agent answer or stop it first", waits)
	}
	if draft.Workstream != "" && d.state.Workstream(draft.Workstream) == nil && line.Turn == nil {
		return chat.Event{}, chat.Errorf(chat.NotFound, "this session has no workstream %q", draft.Workstream)
	}
	e := *d.add(actor, draft, "")
	if t := line.Turn; t != nil && (draft.Interrupt || d.state.Session.Policy == chat.Interrupt) && !t.Stopping {
		d.say(chat.TurnStopRequested{TurnID: t.ID, By: actor, Reason: "a new message"}, draft.Workstream, t.ID)
	}
	d.advance(draft.Workstream)
	return e, nil
}

// advance starts the next turn of a line when nothing runs there.
func (d *decision) advance(workstream string) {
	line := d.state.Line(workstream)
	if line.Turn != nil || len(line.Queue) == 0 || d.state.Session.Agent == chat.NoAgent {
		return
	}
	turn := chat.TurnID(d.nextID(chat.TurnPrefix))
	agent := d.state.Session.Agent
	if w := d.state.Workstream(workstream); w != nil && w.Agent != "" {
		agent = w.Agent
	}
	d.say(chat.TurnStarted{TurnID: turn, Trigger: line.Queue[0], Agent: agent}, workstream, turn)
}

func (d *decision) withdraw(actor chat.Actor, draft chat.Draft, b chat.UserMessageWithdrawn) (chat.Event, error) {
	for _, l := range d.state.Lines {
		waits := l.Queue
		if l.Turn != nil {
			waits = append(waits[:len(waits):len(waits)], l.Turn.Steered...)
		}
		for _, seq := range waits {
			if seq == b.Sequence {
				return *d.add(actor, draft, ""), nil
			}
		}
	}
	return chat.Event{}, chat.Errorf(chat.Conflict, "message %d does not wait any more; only a queued message can be withdrawn", b.Sequence)
}

// endSession adds session.completed or session.failed and ends what is open.
func (d *decision) endSession(actor chat.Actor, draft chat.Draft, turn chat.TurnID) (chat.Event, error) {
	if draft.Workstream != "" {
		return chat.Event{}, chat.Errorf(chat.Invalid, "a session ends only by its main line")
	}
	d.closePrompts(func(*chat.Prompt) bool { return true })
	for _, b := range d.room.home.live.Blocks(d.room.id) {
		// Those of a turn end with it; nobody else would end these.
		if b.Turn == "" && !d.finished(b.ID) {
			d.addAs(actor, partial(b), b.Workstream, "")
		}
	}
	return *d.add(actor, draft, turn), nil
}

// finished reports whether this very decision has finished a block that readers
// still see as open.
func (d *decision) finished(block chat.BlockID) bool {
	return slices.ContainsFunc(d.events, func(e chat.Event) bool { return chat.FinishedBlock(e.Body) == block })
}

// EndTurn ends a turn. Blocks that were shown and not finished become partial
// facts, calls without a result become errors, prompts are withdrawn, and the
// next message in line starts its turn: all in one commit. Ending a turn that
// has ended, or another attempt's, is a conflict.
func (s *Sessions) EndTurn(ctx context.Context, ref chat.TurnRef, outcome chat.Outcome, cause string) error {
	return s.system(ctx, ref.Session, func(d *decision) error {
		t, line := d.state.TurnOf(ref.Turn)
		if t == nil || t.Attempt != ref.Attempt {
			return chat.Errorf(chat.Conflict, "turn %s has ended or is in another attempt", ref.Turn)
		}
		d.endTurn(t, line, outcome, cause)
		return nil
	})
}

func (d *decision) endTurn(t *chat.Turn, line string, outcome chat.Outcome, cause string) {
	agent := chat.Actor{Kind: chat.Agent, ID: t.Agent}
	for _, b := range d.room.home.live.Blocks(d.room.id) {
		if b.Turn == t.ID && !t.Finished(b.ID) {
			d.addAs(agent, partial(b), line, t.ID)
		}
	}
	if outcome != chat.Done {
		for _, call := range append([]chat.OpenCall(nil), t.Calls...) {
			d.addAs(agent, chat.AgentToolError{CallID: call.CallID, Tool: call.Tool,
				Error: fmt.Sprintf("the turn ended as %s before the tool had a result", outcome), Code: chat.UnknownOutcome}, line, t.ID)
		}
	}
	d.closePrompts(func(p *chat.Prompt) bool { return p.Turn == t.ID })
	end := chat.TurnCompleted{TurnID: t.ID, Outcome: outcome, Error: clip(cause)}
	if t.Usage != (chat.Usage{}) {
		u := t.Usage
		end.Usage = &u
	}
	d.say(end, line, t.ID)
	d.advance(line)
}

// clip bounds what an agent says of its failure, so that a turn can always end.
func clip(cause string) string {
	const most = 16 << 10
	if len(cause) <= most {
		return cause
	}
	return strings.ToValidUTF8(cause[:most], "") + "…"
}

// partial is the fact that keeps what was shown of a block.
func partial(b chat.Block) chat.Body {
	if b.Kind == chat.ThinkingBlock {
		return chat.AgentThinking{Block: b.ID, Text: b.Text, Partial: true}
	}
	return chat.AgentText{Block: b.ID, Text: b.Text, Partial: true}
}

// addAs adds an event on behalf of an actor.
func (d *decision) addAs(actor chat.Actor, body chat.Body, workstream string, turn chat.TurnID) {
	draft := chat.NewDraft(body)
	draft.Workstream = workstream
	if err := draft.Settle(); err != nil {
		panic("session: the server's own event is invalid: " + err.Error())
	}
	d.add(actor, draft, turn)
}

// ResumeTurn takes a turn up again after a crash or a lost worker, as a new
// attempt. The older attempt can say nothing more. With crash set it counts
// towards MaxCrashes, after which the turn fails instead, and ok is false.
func (s *Sessions) ResumeTurn(ctx context.Context, ref chat.TurnRef, reason string, crash bool) (next chat.TurnRef, ok bool, err error) {
	err = s.system(ctx, ref.Session, func(d *decision) error {
		t, line := d.state.TurnOf(ref.Turn)
		if t == nil || t.Attempt != ref.Attempt {
			return chat.Errorf(chat.Conflict, "turn %s has ended or is in another attempt", ref.Turn)
		}
		ok = false
		crashes := t.Crashes
		if crash && !slices.ContainsFunc(d.state.Prompts, func(p *chat.Prompt) bool { return p.Turn == t.ID }) {
			crashes++
		}
		if crashes >= MaxCrashes {
			d.endTurn(t, line, chat.Failed, fmt.Sprintf("given up after %d attempts without progress: %s", crashes, reason))
			return nil
		}
		next, ok = chat.TurnRef{Session: ref.Session, Turn: ref.Turn, Attempt: t.Attempt + 1}, true
		d.say(chat.TurnResumed{TurnID: t.ID, Attempt: t.Attempt + 1, Crashes: crashes, Reason: reason}, line, t.ID)
		return nil
	})
	return next, ok && err == nil, err
}

// TakeSteered hands messages that arrived during the turn to its agent. They
// are part of the turn from then on.
func (s *Sessions) TakeSteered(ctx context.Context, ref chat.TurnRef) ([]chat.Seq, error) {
	var taken []chat.Seq
	err := s.system(ctx, ref.Session, func(d *decision) error {
		taken = nil
		t, line := d.state.TurnOf(ref.Turn)
		if t == nil || t.Attempt != ref.Attempt {
			return chat.Errorf(chat.Conflict, "turn %s has ended or is in another attempt", ref.Turn)
		}
		if len(t.Steered) == 0 {
			return nil
		}
		taken = append(taken, t.Steered...)
		d.say(chat.TurnInput{Sequences: taken}, line, t.ID)
		return nil
	})
	return taken, err
}

// Stop asks the running turn of a line to end. It returns once the request is a
// fact; the turn ends within a moment after it. Stopping what does not run, or
// is stopping already, is no error.
func (s *Sessions) Stop(ctx context.Context, c chat.Caller, id chat.SessionID, workstream, reason string) (chat.StopResult, error) {
	var res chat.StopResult
	r, err := s.enter(ctx, c, id)
	if err != nil {
		return res, err
	}
	defer r.leave()
	if len(reason) > 1000 {
		return res, chat.Errorf(chat.TooLarge, "a reason has at most 1000 bytes")
	}
	err = r.do(ctx, &request{rules: op(func(d *decision) error {
		if err := allow(c, &d.state.Session, chat.Answerer); err != nil {
			return err
		}
		t := d.state.Line(workstream).Turn
		if t == nil {
			res = chat.StopResult{}
			return nil
		}
		res = chat.StopResult{Stopped: true, TurnID: t.ID}
		if !t.Stopping {
			d.say(chat.TurnStopRequested{TurnID: t.ID, By: c.Actor, Reason: reason}, workstream, t.ID)
		}
		return nil
	})})
	return res, err
}

// Turns calls f for every turn that runs in a session, as its agent knows it.
// What Options.Committed is told comes wholly before or wholly after; f must not
// block or call back.
func (s *Sessions) Turns(ctx context.Context, id chat.SessionID, f func(ref chat.TurnRef, workstream string, t chat.Turn)) error {
	r := s.room(id)
	defer r.leave()
	return r.do(ctx, &request{must: true, look: func(st *chat.State) error {
		for name, l := range st.Lines {
			if l.Turn != nil {
				f(chat.TurnRef{Session: id, Turn: l.Turn.ID, Attempt: l.Turn.Attempt}, name, *l.Turn)
			}
		}
		return nil
	}})
}

// Working lists the sessions in which a turn runs or waits.
func (s *Sessions) Working(ctx context.Context) ([]chat.SessionID, error) {
	var ids []chat.SessionID
	for id, err := range s.log.Working(ctx) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// system decides something that no caller asked for.
func (s *Sessions) system(ctx context.Context, id chat.SessionID, f func(d *decision) error) error {
	r := s.room(id)
	defer r.leave()
	return r.do(ctx, &request{rules: op(f), must: true})
}
