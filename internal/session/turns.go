package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/workstream"
)

// maxCrashes is the number of consecutive crashes without progress after which a turn
// fails. It prevents crash loops. A crash is not counted while the turn waits for a
// person, for its children, or is paused.
const maxCrashes = 3

// userMessage adds a user's message. Depending on the session's policy, the message
// starts a turn, is passed to the running turn, stops the running turn, or is queued.
func (d *decision) userMessage(actor chat.Actor, draft chat.Draft) (chat.Event, error) {
	line := d.state.Line(draft.Workstream)
	if draft.Expect != nil && !draft.Expect.Holds(line) {
		return chat.Event{}, chat.Errorf(chat.Conflict, "the session has changed since it was read; read it again").With("changed", true).WithReason(chat.SessionChanged)
	}
	waiting := len(line.Queue)
	if line.Turn != nil {
		waiting += len(line.Turn.Steered)
	}
	if waiting >= d.maxQueue {
		return chat.Event{}, chat.Errorf(chat.SlowDown, "%d messages are queued in this session already; wait for the agent, or stop it", waiting)
	}
	if draft.Workstream != "" && line.Turn == nil {
		w, err := workstream.Find(d.state, draft.Workstream)
		if err == nil {
			err = workstream.AcceptsMessages(w)
		}
		if err != nil {
			return chat.Event{}, err
		}
	}
	e := *d.add(actor, draft, "")
	if t := line.Turn; t != nil && (draft.Interrupt || d.state.Session.Policy == chat.Interrupt) && !t.Stopping {
		d.addSystem(chat.TurnStopRequested{TurnID: t.ID, By: actor, Reason: "a new message"}, draft.Workstream, t.ID)
	}
	d.advance(draft.Workstream)
	return e, nil
}

// advance starts the next turn of a line if no turn runs there and a message is queued.
func (d *decision) advance(line string) {
	l, agent := d.state.Line(line), d.state.AgentOf(line)
	next := l.Next()
	if l.Turn != nil || next == 0 || agent == chat.NoAgent {
		return
	}
	if w := d.state.Workstream(line); w != nil && w.State != chat.WorkRunning {
		return
	}
	d.work = d.work || line != ""
	turn := chat.TurnID(d.nextID(chat.TurnPrefix))
	d.addSystem(chat.TurnStarted{TurnID: turn, Trigger: next, Agent: agent}, line, turn)
}

// withdraw adds the withdrawal of a queued message.
func (d *decision) withdraw(actor chat.Actor, draft chat.Draft, b chat.UserMessageWithdrawn) (chat.Event, error) {
	for _, l := range d.state.Lines {
		if slices.Contains(l.Queue, b.Sequence) || l.Turn != nil && slices.Contains(l.Turn.Steered, b.Sequence) {
			return *d.add(actor, draft, ""), nil
		}
	}
	return chat.Event{}, chat.Errorf(chat.Conflict, "message %d is not queued any more; only a queued message can be withdrawn", b.Sequence)
}

// endSession adds session.completed or session.failed, after it has closed the open
// prompts, workstreams and blocks.
func (d *decision) endSession(actor chat.Actor, draft chat.Draft, turn chat.TurnID) (chat.Event, error) {
	if draft.Workstream != "" {
		return chat.Event{}, chat.Errorf(chat.Invalid, "only the main line can end a session")
	}
	d.closePrompts(func(*chat.Prompt) bool { return true })
	for _, w := range workstream.Live(d.state, "") {
		d.stopWork(w, actor, "the session has ended", 0, "")
	}
	for _, b := range d.blocks {
		// Blocks of a turn are finished when the turn ends; this finishes the others.
		if b.Turn == "" && !d.finished(b.ID) {
			d.addAs(actor, partial(b), b.Workstream, "")
		}
	}
	return *d.add(actor, draft, turn), nil
}

// finished reports whether an event of this decision finishes a block that is still
// in d.blocks.
func (d *decision) finished(block chat.BlockID) bool {
	return slices.ContainsFunc(d.events, func(e chat.Event) bool { return chat.FinishedBlock(e.Body) == block })
}

// EndTurn ends a turn. In the same commit, unfinished blocks are stored as partial
// events, tool calls without a result become errors, prompts are withdrawn, and the
// next queued message starts its turn. It returns a conflict if the turn has ended or
// is in another attempt.
func (s *Sessions) EndTurn(ctx context.Context, ref chat.TurnRef, outcome chat.Outcome, cause string) error {
	_, err := s.call(ctx, &call{Method: callEndTurn, Session: ref.Session, Turn: ref, Outcome: outcome, Cause: cause})
	return err
}

func (s *Sessions) endTurnHere(ctx context.Context, ref chat.TurnRef, outcome chat.Outcome, cause string) error {
	e := &ending{ref: ref, outcome: outcome, cause: cause, merged: s.opt.Artifacts == nil}
	r := s.acquire(ref.Session)
	defer r.release()
	err := r.do(ctx, &request{rules: e, unbounded: true})
	if needs, ok := err.(errMerge); ok {
		// Merge before the workstream ends, so that its parent finds the files when it
		// receives the end event. A crash in between repeats the merge.
		req := &request{rules: e, unbounded: true}
		if req.files, err = s.mergeResting(ctx, ref.Session, needs.workstream.ID); err != nil {
			return err
		}
		e.files, e.merged = s.merge(ctx, ref.Session, needs.workstream), true
		err = r.do(ctx, req)
	}
	return err
}

// errMerge is returned by rules when the files of a workstream must be merged first.
// The caller of the sequencer merges them, because rules do no I/O.
type errMerge struct{ workstream *chat.Workstream }

func (errMerge) Error() string { return "the files of a workstream are not merged yet" }

// ending holds the state of one EndTurn call.
type ending struct {
	ref     chat.TurnRef
	outcome chat.Outcome
	cause   string
	merged  bool     // the files are merged, or there is no file store
	files   []string // the merged files of the workstream
	said    said
}

func (e *ending) lookUp(ctx context.Context, r *sequencer) error {
	if r.state == nil {
		return nil
	}
	if t, line := r.state.TurnOf(e.ref.Turn); t != nil && line != "" {
		return e.said.read(ctx, r, t.Answer)
	}
	return nil
}

func (e *ending) decide(d *decision) error {
	t, line, err := d.turn(e.ref)
	if err != nil {
		return err
	}
	if w := d.state.Workstream(line); !e.merged && w != nil && workstream.Merges(w) {
		return errMerge{w}
	}
	d.endTurn(t, line, e.outcome, e.cause, result{&e.said, e.files})
	return nil
}

// endTurn ends a turn, then starts the next turn of its line or ends its workstream.
func (d *decision) endTurn(t *chat.Turn, line string, outcome chat.Outcome, cause string, res result) {
	d.closeTurn(t, line, outcome, cause)
	if w := d.state.Workstream(line); w != nil && !w.Ended() {
		d.workTurnEnded(w, outcome, cause, res.said.text(d, t.Answer), res.files)
		return
	}
	d.advance(line)
}

// closeTurn ends a turn with its blocks, tool calls and prompts. It starts nothing new.
func (d *decision) closeTurn(t *chat.Turn, line string, outcome chat.Outcome, cause string) {
	agent := agentOf(t)
	for _, b := range d.blocks {
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
	end := chat.TurnCompleted{TurnID: t.ID, Outcome: outcome, Error: clip(cause), Ack: t.Ack}
	if t.Usage != (chat.Usage{}) {
		u := t.Usage
		end.Usage = &u
	}
	d.addSystem(end, line, t.ID)
}

// clip shortens a text from an agent, so that the event that carries it always fits.
func clip(cause string) string { return text.Clip(cause, 16<<10) }

// partial returns the event that stores the text of an unfinished block.
func partial(b chat.Block) chat.Body {
	if b.Kind == chat.ThinkingBlock {
		return chat.AgentThinking{Block: b.ID, Text: b.Text, Partial: true}
	}
	return chat.AgentText{Block: b.ID, Text: b.Text, Partial: true}
}

// ResumeTurn starts a new attempt of a turn after a crash or the loss of its worker.
// Events of the older attempt are refused from then on. If crash is set, the call
// counts towards maxCrashes; when that is reached, the turn fails and ok is false.
// Only the node that owns the session can run its turns, so the call fails elsewhere.
func (s *Sessions) ResumeTurn(ctx context.Context, ref chat.TurnRef, reason string, crash bool) (next chat.TurnRef, ok bool, err error) {
	if s.elsewhere(ctx, ref.Session) {
		return chat.TurnRef{}, false, ErrOwnerChanged
	}
	var res result
	merged := s.opt.Artifacts == nil
	rule := func(d *decision) error {
		t, line, err := d.turn(ref)
		if err != nil {
			return err
		}
		ok = false
		crashes := t.Crashes
		if d.writes(t) {
			crashes = 0
		}
		if crash && !isWaiting(d.state, t, line) {
			crashes++
		}
		if crashes >= maxCrashes {
			if w := d.state.Workstream(line); !merged && w != nil && workstream.Merges(w) {
				return errMerge{w}
			}
			d.endTurn(t, line, chat.Failed, fmt.Sprintf("given up after %d attempts without progress: %s", crashes, reason), res)
			return nil
		}
		next, ok = chat.TurnRef{Session: ref.Session, Turn: ref.Turn, Attempt: t.Attempt + 1}, true
		d.addSystem(chat.TurnResumed{TurnID: t.ID, Attempt: t.Attempt + 1, Crashes: crashes, Reason: reason}, line, t.ID)
		return nil
	}
	err = s.system(ctx, ref.Session, rule)
	if needs, is := err.(errMerge); is {
		res.files, merged = s.merge(ctx, ref.Session, needs.workstream), true
		err = s.system(ctx, ref.Session, rule)
	}
	return next, ok && err == nil, err
}

// writes reports whether the turn sent previews after the last event. The start of the
// current attempt is an event, so older attempts are not considered.
func (d *decision) writes(t *chat.Turn) bool {
	return slices.ContainsFunc(d.blocks, func(b chat.Block) bool {
		return b.Turn == t.ID && len(b.Ends) > 0 && b.Ends[len(b.Ends)-1].At > d.state.LastAt
	})
}

// isWaiting reports whether a turn is expected to write nothing: it has an open prompt, its
// workstream is paused, or a workstream that it launched has a running turn. Crashes of
// those turns are counted separately.
func isWaiting(st *chat.State, t *chat.Turn, line string) bool {
	if w := st.Workstream(line); w != nil && w.Paused {
		return true
	}
	return slices.ContainsFunc(st.Prompts, func(p *chat.Prompt) bool { return p.Turn == t.ID }) ||
		slices.ContainsFunc(st.Workstreams, func(w *chat.Workstream) bool {
			return w.ID != line && !w.Ended() && below(st, w, line) && st.Line(w.ID).Turn != nil
		})
}

// takenEvents says which events a turn takes.
type takenEvents string

const (
	takeSteered takenEvents = "steered" // messages
	takeAll     takenEvents = "all"     // also directives, and results and progress of workstreams
	takeOf      takenEvents = "of"      // only results and progress of named workstreams
)

// TakeSteered returns the messages that arrived during the turn and records that its
// agent has received them. They do not start a turn of their own.
func (s *Sessions) TakeSteered(ctx context.Context, ref chat.TurnRef) ([]chat.Seq, error) {
	return s.takeEvents(ctx, ref, takeSteered, nil)
}

// TakeEvents is like TakeSteered, but also returns directives to this workstream and the
// results and progress of the workstreams that this line launched.
func (s *Sessions) TakeEvents(ctx context.Context, ref chat.TurnRef) ([]chat.Seq, error) {
	return s.takeEvents(ctx, ref, takeAll, nil)
}

// TakeEventsOf returns only the results and progress of the given workstreams.
func (s *Sessions) TakeEventsOf(ctx context.Context, ref chat.TurnRef, workstreams []string) ([]chat.Seq, error) {
	return s.takeEvents(ctx, ref, takeOf, workstreams)
}

func (s *Sessions) takeEvents(ctx context.Context, ref chat.TurnRef, which takenEvents, workstreams []string) ([]chat.Seq, error) {
	res, err := s.call(ctx, &call{Method: callTake, Session: ref.Session, Turn: ref, Which: which, Workstreams: workstreams})
	if err != nil {
		return nil, err
	}
	return res.Sequences, nil
}

func (s *Sessions) takeHere(ctx context.Context, ref chat.TurnRef, which takenEvents, workstreams []string) ([]chat.Seq, error) {
	switch which {
	case takeSteered:
		return s.take(ctx, ref, func(t *chat.Turn) []chat.Seq { return slices.Clone(t.Steered) })
	case takeAll:
		return s.take(ctx, ref, func(t *chat.Turn) []chat.Seq {
			all := slices.Concat(t.Steered, t.Woken, t.Told)
			slices.Sort(all)
			return all
		})
	}
	var news []chat.Seq
	err := s.look(ctx, ref.Session, func(st *chat.State) {
		if t, _ := st.TurnOf(ref.Turn); t != nil {
			news = slices.Concat(t.Woken, t.Told)
		}
	})
	if err != nil {
		return nil, err
	}
	var about []chat.Seq
	for _, seq := range news {
		e, err := s.event(ctx, ref.Session, seq)
		if err != nil {
			return nil, err
		}
		if slices.Contains(workstreams, chat.ChildOf(e.Body)) {
			about = append(about, seq)
		}
	}
	if len(about) == 0 {
		return nil, nil
	}
	return s.take(ctx, ref, func(t *chat.Turn) []chat.Seq {
		return slices.DeleteFunc(about, func(seq chat.Seq) bool { return !slices.Contains(t.Woken, seq) && !slices.Contains(t.Told, seq) })
	})
}

// take adds turn.input for the events that which selects, and returns their sequences.
func (s *Sessions) take(ctx context.Context, ref chat.TurnRef, which func(t *chat.Turn) []chat.Seq) ([]chat.Seq, error) {
	var taken []chat.Seq
	err := s.system(ctx, ref.Session, func(d *decision) error {
		taken = nil
		t, line, err := d.turn(ref)
		if err != nil {
			return err
		}
		if taken = which(t); len(taken) == 0 {
			taken = nil
			return nil
		}
		d.addSystem(chat.TurnInput{Sequences: taken}, line, t.ID)
		return nil
	})
	return taken, err
}

// turn returns a running turn in the attempt of ref, and its line.
func (d *decision) turn(ref chat.TurnRef) (*chat.Turn, string, error) {
	t, line := d.state.TurnOf(ref.Turn)
	switch {
	case t == nil:
		return nil, "", chat.Errorf(chat.Conflict, "turn %s has ended", ref.Turn)
	case t.Attempt != ref.Attempt:
		return nil, "", errOldAttempt(t, ref.Attempt)
	}
	return t, line, nil
}

// Turns calls f for every running turn of a session. It runs in the sequencer's order:
// observers receive each commit either before all calls of f or after them. f must not
// block and must not call Sessions.
func (s *Sessions) Turns(ctx context.Context, id chat.SessionID, f func(ref chat.TurnRef, workstream string, t chat.Turn)) error {
	return s.look(ctx, id, func(st *chat.State) {
		for name, l := range st.Lines {
			if l.Turn != nil {
				f(chat.TurnRef{Session: id, Turn: l.Turn.ID, Attempt: l.Turn.Attempt}, name, *l.Turn)
			}
		}
	})
}

// Working lists the sessions that have a running or queued turn.
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

// system runs a rule on behalf of the server, without a caller and its access check.
func (s *Sessions) system(ctx context.Context, id chat.SessionID, f func(d *decision) error) error {
	r := s.acquire(id)
	defer r.release()
	return r.do(ctx, &request{rules: op(f), unbounded: true})
}
