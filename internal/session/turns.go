package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/workstream"
)

// MaxCrashes is how often a turn may end its process without having said
// anything new before it fails: no crash loop. A turn that waits for a person
// is not to blame.
const MaxCrashes = 3

// userMessage adds what a person says and, by the session's policy, starts,
// steers, interrupts or waits.
func (d *decision) userMessage(actor chat.Actor, draft chat.Draft) (chat.Event, error) {
	line := d.state.Line(draft.Workstream)
	if draft.Expect != nil && !draft.Expect.Holds(line) {
		return chat.Event{}, chat.Errorf(chat.Conflict, "the session has changed meanwhile; look at it again").With("changed", true).WithReason(chat.SessionChanged)
	}
	waits := len(line.Queue)
	if line.Turn != nil {
		waits += len(line.Turn.Steered)
	}
	if waits >= d.maxQueue {
		return chat.Event{}, chat.Errorf(chat.SlowDown, "%d messages wait for this session already; let the agent answer or stop it first", waits)
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

// advance starts the next turn of a line when nothing runs there.
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
	for _, w := range workstream.Live(d.state, "") {
		d.stopWork(w, actor, "the session has ended", 0, "")
	}
	for _, b := range d.blocks {
		// Blocks of a turn end with it; these have none.
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
	e := &ending{ref: ref, outcome: outcome, cause: cause, merged: s.opt.Artifacts == nil}
	r := s.acquire(ref.Session)
	defer r.release()
	err := r.do(ctx, &request{rules: e, unbounded: true})
	if needs, ok := err.(errMerge); ok {
		// Before the workstream ends: the files are there when its parent reads
		// of it, and a crash in between repeats the merge.
		req := &request{rules: e, unbounded: true}
		if req.files, err = s.mergeResting(ctx, ref.Session, needs.workstream.ID); err != nil {
			return err
		}
		e.files, e.merged = s.merge(ctx, ref.Session, needs.workstream), true
		err = r.do(ctx, req)
	}
	return err
}

// errMerge says that the files of a workstream have to be merged first, which is
// no work for the sequencer.
type errMerge struct{ workstream *chat.Workstream }

func (errMerge) Error() string { return "the files of a workstream are not merged yet" }

// ending is an EndTurn under way.
type ending struct {
	ref     chat.TurnRef
	outcome chat.Outcome
	cause   string
	merged  bool     // there is nothing to merge any more
	files   []string // of a workstream, merged
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
	t, line := d.state.TurnOf(e.ref.Turn)
	if t == nil || t.Attempt != e.ref.Attempt {
		return chat.Errorf(chat.Conflict, "turn %s has ended or is in another attempt", e.ref.Turn)
	}
	if w := d.state.Workstream(line); !e.merged && w != nil && workstream.Merges(w) {
		return errMerge{w}
	}
	d.endTurn(t, line, e.outcome, e.cause, result{&e.said, e.files})
	return nil
}

// endTurn ends a turn and goes on with what follows: the next one of its line,
// or the end of its workstream.
func (d *decision) endTurn(t *chat.Turn, line string, outcome chat.Outcome, cause string, res result) {
	d.closeTurn(t, line, outcome, cause)
	if w := d.state.Workstream(line); w != nil && !w.Ended() {
		d.workTurnEnded(w, outcome, cause, res.said.text(d, t.Answer), res.files)
		return
	}
	d.advance(line)
}

func (d *decision) closeTurn(t *chat.Turn, line string, outcome chat.Outcome, cause string) {
	agent := chat.Actor{Kind: chat.Agent, ID: t.Agent}
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
	var res result
	merged := s.opt.Artifacts == nil
	rule := func(d *decision) error {
		t, line := d.state.TurnOf(ref.Turn)
		if t == nil || t.Attempt != ref.Attempt {
			return chat.Errorf(chat.Conflict, "turn %s has ended or is in another attempt", ref.Turn)
		}
		ok = false
		crashes := t.Crashes
		if d.writes(t) {
			crashes = 0
		}
		if crash && !awaits(d.state, t, line) {
			crashes++
		}
		if crashes >= MaxCrashes {
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

// writes reports whether text of a turn was shown since the last event, which is not
// before the turn was taken up last.
func (d *decision) writes(t *chat.Turn) bool {
	return slices.ContainsFunc(d.blocks, func(b chat.Block) bool {
		return b.Turn == t.ID && len(b.Ends) > 0 && b.Ends[len(b.Ends)-1].At > d.state.LastAt
	})
}

// awaits reports whether a turn has cause to be silent: a person is asked, its
// line is paused, or lines of work that it launched are busy. Those count for
// themselves.
func awaits(st *chat.State, t *chat.Turn, line string) bool {
	if w := st.Workstream(line); w != nil && w.Paused {
		return true
	}
	return slices.ContainsFunc(st.Prompts, func(p *chat.Prompt) bool { return p.Turn == t.ID }) ||
		slices.ContainsFunc(st.Workstreams, func(w *chat.Workstream) bool {
			return w.ID != line && !w.Ended() && below(st, w, line) && st.Line(w.ID).Turn != nil
		})
}

// TakeSteered hands messages that arrived during the turn to its agent. They
// are part of the turn from then on.
func (s *Sessions) TakeSteered(ctx context.Context, ref chat.TurnRef) ([]chat.Seq, error) {
	return s.take(ctx, ref, func(t *chat.Turn) []chat.Seq { return slices.Clone(t.Steered) })
}

// TakeNews hands the agent all that arrived during the turn: messages to
// its workstream, and what became of its children.
func (s *Sessions) TakeNews(ctx context.Context, ref chat.TurnRef) ([]chat.Seq, error) {
	return s.take(ctx, ref, func(t *chat.Turn) []chat.Seq {
		all := slices.Concat(t.Steered, t.Woken, t.Told)
		slices.Sort(all)
		return all
	})
}

// TakeNewsOf hands the agent what became of some of its children, and nothing
// else.
func (s *Sessions) TakeNewsOf(ctx context.Context, ref chat.TurnRef, workstreams []string) ([]chat.Seq, error) {
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
		fact, err := s.log.Get(ctx, ref.Session, seq)
		if err != nil {
			return nil, err
		}
		e, err := fact.Event()
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
	if t == nil || t.Attempt != ref.Attempt {
		return nil, "", chat.Errorf(chat.Conflict, "turn %s has ended or is in another attempt", ref.Turn)
	}
	return t, line, nil
}

// Turns calls f for every turn that runs in a session, with its attempt.
// Observers get a commit wholly before or wholly after; f must not
// block or call back.
func (s *Sessions) Turns(ctx context.Context, id chat.SessionID, f func(ref chat.TurnRef, workstream string, t chat.Turn)) error {
	r := s.acquire(id)
	defer r.release()
	return r.do(ctx, &request{unbounded: true, look: func(st *chat.State) error {
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
	r := s.acquire(id)
	defer r.release()
	return r.do(ctx, &request{rules: op(f), unbounded: true})
}
