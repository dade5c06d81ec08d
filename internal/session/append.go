package session

import (
	"context"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// Append stores drafts as one unit and returns their events in the order of the
// drafts. If the same actor has used a draft's client id before, Append returns the
// existing event and stores nothing for that draft; with another type or payload it
// returns a conflict. A draft with AfterSeq is refused if the session has other events
// after that one, unless it repeats a stored event. When Append returns without an error,
// all events are durable.
func (s *Sessions) Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error) {
	if s.opt.OtherNodes != nil {
		wait, err := s.AppendLater(ctx, c, id, drafts)
		if err != nil {
			return nil, err
		}
		return wait()
	}
	a, err := s.join(ctx, c, id, drafts, true, nil)
	if err != nil {
		return nil, err
	}
	return a.finish(ctx)
}

// AppendLater queues the drafts in the session's order and returns at once. The caller
// must call wait soon, and before it waits for another request: wait returns what Append
// would return, and may handle the requests of other callers too.
func (s *Sessions) AppendLater(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) (wait func() ([]chat.Event, error), err error) {
	return s.appendLater(ctx, c, id, drafts, true)
}

// appendLater is AppendLater. If quota is set, the limit of stored bytes applies.
func (s *Sessions) appendLater(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft, quota bool) (wait func() ([]chat.Event, error), err error) {
	if s.elsewhere(ctx, id) {
		return s.sendAppend(ctx, c, id, drafts, !quota)
	}
	if s.opt.OtherNodes == nil {
		a, err := s.join(ctx, c, id, drafts, quota, nil)
		if err != nil {
			return nil, err
		}
		return func() ([]chat.Event, error) { return a.finish(ctx) }, nil
	}
	a, err := s.join(ctx, c, id, slices.Clone(drafts), quota, nil) // join may replace large data in them by references
	if err != nil {
		return nil, err
	}
	return func() ([]chat.Event, error) {
		events, err := a.finish(ctx)
		if !s.moved(ctx, err) {
			return events, err
		}
		wait, err := s.sendAppend(ctx, c, id, drafts, !quota)
		if err != nil {
			return nil, err
		}
		return wait()
	}, nil
}

// appending holds the state of one Append call. It is a single allocation, because every
// event is stored through it.
type appending struct {
	request
	order  *sequencer
	drafts []chat.Draft
	known  []*chat.Event // per draft: the stored event with the same client id
	events []chat.Event
	first  [1]chat.Event   // the initial memory of events
	done   core.AppendDone // of AppendThen; else nil
}

// join validates the drafts and queues them in the session's order. If quota is set, the
// limit of stored bytes applies to them. If done is nil, the caller must call finish.
func (s *Sessions) join(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft, quota bool, done core.AppendDone) (*appending, error) {
	for i := range drafts {
		if err := drafts[i].Normalize(); err != nil {
			return nil, at(i, len(drafts), err)
		}
	}
	if err := s.countWritten(c, size(drafts)); err != nil {
		return nil, err
	}
	r, err := s.acquireFor(ctx, c, id)
	if err != nil {
		return nil, err
	}
	if sess := r.session.Load(); sess != nil {
		if quota {
			err = s.mayStore(ctx, c, sess.Workspace, sess.Owner, int64(size(drafts)))
		}
		if err != nil {
			r.release()
			return nil, err
		}
		for i := range drafts {
			if err := s.storeLarge(ctx, c, sess, &drafts[i]); err != nil {
				r.release()
				return nil, at(i, len(drafts), err)
			}
		}
	}
	a := &appending{order: r, drafts: drafts, done: done}
	if done != nil {
		a.then = a
	}
	a.rules, a.caller, a.undo = a, c, len(drafts) > 1
	if slices.ContainsFunc(drafts, endsSession) {
		if a.files, err = s.mergeResting(ctx, r.id, ""); err != nil {
			r.release()
			return nil, err
		}
	}
	if err := r.join(&a.request); err != nil {
		r.release()
		return nil, err
	}
	return a, nil
}

// endsSession reports whether a draft ends the session and its workstreams.
func endsSession(d chat.Draft) bool {
	switch d.Body.(type) {
	case chat.SessionCompleted, chat.SessionFailed:
		return true
	}
	return false
}

func (a *appending) finish(ctx context.Context) ([]chat.Event, error) {
	defer a.order.release()
	if err := a.order.finish(ctx, &a.request); err != nil {
		return nil, a.order.sessions.explainPrompt(ctx, a.order.id, err)
	}
	return a.events, nil
}

// lookUp finds the stored events with the client ids of the drafts, and refuses prompt
// ids that were used before. It runs in the sequencer's order, so no event is stored
// between lookUp and decide.
func (a *appending) lookUp(ctx context.Context, r *sequencer) error {
	a.events, a.known = a.first[:0], nil
	if r.state == nil {
		return nil
	}
	for i := range a.drafts {
		if err := a.lookUpOne(ctx, r, i); err != nil {
			return at(i, len(a.drafts), err)
		}
	}
	return nil
}

func (a *appending) lookUpOne(ctx context.Context, r *sequencer, i int) error {
	d := &a.drafts[i]
	if d.ClientID != "" {
		actor, err := mayAppend(a.caller, &r.state.Session, d)
		if err != nil {
			return err
		}
		e, err := r.earlier(ctx, actor, d.ClientID, d.Digest())
		if err != nil {
			return err
		}
		if e != nil {
			if a.known == nil {
				a.known = make([]*chat.Event, len(a.drafts))
			}
			a.known[i] = e
			return nil
		}
	}
	if d.File != nil && r.sessions.opt.OtherNodes != nil {
		if err := r.checkFile(ctx, d.File); err != nil {
			return err
		}
	}
	if id := requestOf(d.Body); id != "" {
		if _, used, err := r.sessions.log.Prompt(ctx, r.id, id); err != nil {
			return err
		} else if used {
			return errPromptUsed(id)
		}
	}
	return nil
}

// earlier returns the stored event with a client id, or nil.
func (r *sequencer) earlier(ctx context.Context, actor chat.Actor, clientID string, digest uint64) (*chat.Event, error) {
	key, ok, err := r.sessions.log.ByClientID(ctx, r.id, actor.Key(), clientID)
	if err != nil || !ok {
		return nil, err
	}
	if key.Digest != digest {
		return nil, errReused(clientID, key.Seq)
	}
	e, err := r.sessions.event(ctx, r.id, key.Seq)
	return &e, err
}

func errReused(clientID string, seq chat.Seq) error {
	return chat.Errorf(chat.Conflict, "client_id %q was used before with another type or payload; a new message needs a new client_id", clientID).
		With("sequence", seq).WithReason(chat.ClientIDReused)
}

func (a *appending) decide(d *decision) error {
	for i := range a.drafts {
		if a.known != nil && a.known[i] != nil {
			a.events = append(a.events, *a.known[i])
			continue
		}
		e, err := d.draft(a.caller, a.drafts[i])
		if err != nil {
			return at(i, len(a.drafts), err)
		}
		a.events = append(a.events, e)
	}
	return nil
}

// at adds the index of the refused draft to an error, if there are several drafts.
func at(i, of int, err error) error {
	if of < 2 {
		return err
	}
	return chat.Public(err).With("index", i)
}

// draft turns one draft of a caller into an event, and adds the events that the rules
// derive from it.
func (d *decision) draft(c chat.Caller, draft chat.Draft) (chat.Event, error) {
	actor, err := mayAppend(c, &d.state.Session, &draft)
	if err != nil {
		return chat.Event{}, err
	}
	if e, digest, ok := d.repeated(actor, draft.ClientID); ok {
		if digest != draft.Digest() {
			return chat.Event{}, errReused(draft.ClientID, e.Seq)
		}
		return e, nil
	}
	if draft.AfterSeq != 0 && draft.AfterSeq != d.seen {
		return chat.Event{}, chat.Errorf(chat.Conflict, "the session has changed meanwhile: its last event is %d, not %d; look at it again", d.seen, draft.AfterSeq).
			With("last", d.seen).WithReason(chat.SessionChanged)
	}
	turn, err := d.turnFor(c, &draft)
	if err != nil {
		return chat.Event{}, err
	}
	if err := d.fits(&draft); err != nil {
		return chat.Event{}, err
	}
	if err := d.fileFits(draft.File); err != nil {
		return chat.Event{}, err
	}
	if draft.Workstream != "" {
		defer d.addPhase(draft.Workstream, draft.Body, len(d.events))
	}
	switch b := draft.Body.(type) {
	case chat.UserMessage:
		return d.userMessage(actor, draft)
	case chat.UserMessageWithdrawn:
		return d.withdraw(actor, draft, b)
	case chat.UserInputResponse, chat.UserApprovalResponse, chat.UserPermissionResponse:
		return d.answer(c, draft)
	case chat.AgentInputRequest, chat.AgentPermissionRequest:
		return d.ask(actor, draft, turn)
	case chat.AgentApprovalRequest:
		e, err := d.ask(actor, draft, turn)
		if err == nil {
			d.approve(&e)
		}
		return e, err
	case chat.AgentText, chat.AgentThinking:
		if err := d.finishes(&draft, turn); err != nil {
			return chat.Event{}, err
		}
	case chat.SessionCompleted, chat.SessionFailed:
		return d.endSession(actor, draft, turn)
	}
	return *d.add(actor, draft, turn), nil
}

// repeated returns the event of this decision with a client id, and the digest of its
// draft.
func (d *decision) repeated(actor chat.Actor, clientID string) (e chat.Event, digest uint64, ok bool) {
	if clientID == "" {
		return e, 0, false
	}
	for _, k := range d.keys {
		if k.ClientID == clientID && k.Actor == actor.Key() {
			return d.events[k.Seq-d.after-1], k.Digest, true
		}
	}
	return e, 0, false
}

// fits returns an error if a draft is too large for an event with its envelope.
func (d *decision) fits(draft *chat.Draft) error {
	if !core.FitsEvent(draft) {
		return chat.Errorf(chat.TooLarge, "an event has at most %d KiB; put large things into artifacts", chat.MaxEvent>>10)
	}
	return nil
}

// turnFor returns the turn that a draft belongs to. It refuses drafts for an ended turn,
// for an older attempt, and from a caller that does not serve the turn's agent.
func (d *decision) turnFor(c chat.Caller, draft *chat.Draft) (chat.TurnID, error) {
	if draft.Turn == "" {
		if strings.HasPrefix(draft.Type, "agent.") {
			if t := d.state.Line(draft.Workstream).Turn; t != nil && c.MayServe(t.Agent) {
				return t.ID, nil
			}
		}
		return "", nil
	}
	t, line := d.state.TurnOf(draft.Turn)
	if t == nil {
		return "", errTurnEnded(draft.Turn)
	}
	if agentType(draft.Type) {
		if err := mayAct(c, t); err != nil {
			return "", err
		}
	}
	if draft.Attempt != 0 && draft.Attempt != t.Attempt {
		return "", errOldAttempt(t, draft.Attempt)
	}
	if draft.Workstream != "" && draft.Workstream != line {
		return "", errOtherLine(t, draft.Workstream)
	}
	draft.Workstream = line
	return t.ID, nil
}

func errTurnEnded(turn chat.TurnID) error {
	return chat.Errorf(chat.Conflict, "turn %s has ended and accepts no more events", turn).With("turn_id", turn)
}

func errOldAttempt(t *chat.Turn, attempt int) error {
	return chat.Errorf(chat.Conflict, "turn %s is in attempt %d; attempt %d is over", t.ID, t.Attempt, attempt).
		WithReason(chat.AttemptOver).With("turn_id", t.ID).With("attempt", t.Attempt)
}

func errOtherLine(t *chat.Turn, workstream string) error {
	return chat.Errorf(chat.Invalid, "turn %s is not of workstream %q", t.ID, workstream)
}

func errFinished(block chat.BlockID) error {
	return chat.Errorf(chat.Conflict, "block %q is finished already; continue in a new one", string(block))
}

// finishes checks the event that finishes a block: its text must begin with the text
// that readers have received.
func (d *decision) finishes(draft *chat.Draft, turn chat.TurnID) error {
	block := chat.FinishedBlock(draft.Body)
	if block == "" {
		return nil
	}
	if t, _ := d.state.TurnOf(turn); t != nil && t.Finished(block) {
		return errFinished(block)
	}
	open := blockIn(d.blocks, block)
	if open == nil {
		return nil
	}
	if open.Turn != turn {
		return chat.Errorf(chat.Conflict, "block %q is being written in another turn; use a block id of its own", string(block))
	}
	text, kind := "", chat.TextBlock
	switch b := draft.Body.(type) {
	case chat.AgentText:
		text = b.Text
	case chat.AgentThinking:
		text, kind = b.Text, chat.ThinkingBlock
	}
	if kind != open.Kind {
		return chat.Errorf(chat.Conflict, "block %q was begun as %s", string(block), open.Kind)
	}
	if !strings.HasPrefix(text, open.Text) {
		return chat.Errorf(chat.Conflict, "the finished text of block %q does not begin with the %d bytes that were shown", string(block), len(open.Text)).
			With("shown", len(open.Text))
	}
	return nil
}
