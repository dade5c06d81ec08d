package session

import (
	"context"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// Append stores drafts as one unit and returns their events in the order of the
// drafts. A draft whose client id was used before by the same actor gives the
// first event again and stores nothing; used with another type or payload it is
// a conflict. When it returns without an error, all is durable.
func (s *Sessions) Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error) {
	wait, err := s.AppendLater(ctx, c, id, drafts)
	if err != nil {
		return nil, err
	}
	return wait()
}

// AppendLater gives the drafts their place in the session's order and returns
// at once. The caller must call wait, which then does what Append does.
func (s *Sessions) AppendLater(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) (wait func() ([]chat.Event, error), err error) {
	for i := range drafts {
		if err := drafts[i].Settle(); err != nil {
			return nil, err
		}
	}
	r, err := s.enter(ctx, c, id)
	if err != nil {
		return nil, err
	}
	a := &appending{caller: c, drafts: drafts}
	req := &request{op: a.decide, ready: a.lookUp, undo: len(drafts) > 1}
	if err := r.join(req); err != nil {
		r.leave()
		return nil, err
	}
	return func() ([]chat.Event, error) {
		defer r.leave()
		if err := r.finish(ctx, req); err != nil {
			return nil, s.explain(ctx, r.id, err)
		}
		return a.events, nil
	}, nil
}

// appending is an Append under way.
type appending struct {
	caller chat.Caller
	drafts []chat.Draft
	known  []*chat.Event // per draft: the event its client id made before
	events []chat.Event
}

// lookUp finds what the drafts' client ids made before, and refuses prompt ids
// that were used before. It runs in the room's order, so that nothing can slip
// in between.
func (a *appending) lookUp(ctx context.Context, r *room) error {
	a.events, a.known = a.events[:0], nil
	if r.state == nil {
		return nil
	}
	for i := range a.drafts {
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
				continue
			}
		}
		if id := requestOf(d.Body); id != "" {
			if _, used, err := r.home.log.Prompt(ctx, r.id, id); err != nil {
				return err
			} else if used {
				return errPromptUsed(id)
			}
		}
	}
	return nil
}

// earlier returns the event that a client id made before, if any.
func (r *room) earlier(ctx context.Context, actor chat.Actor, clientID string, digest uint64) (*chat.Event, error) {
	key, ok, err := r.home.log.ByClientID(ctx, r.id, actor.Key(), clientID)
	if err != nil || !ok {
		return nil, err
	}
	if key.Digest != digest {
		return nil, errReused(clientID, key.Seq)
	}
	fact, err := r.home.log.Get(ctx, r.id, key.Seq)
	if err != nil {
		return nil, err
	}
	e, err := fact.Event()
	return &e, err
}

func errReused(clientID string, seq chat.Seq) error {
	return chat.Errorf(chat.Conflict, "client_id %q was used before with another type or payload; a new message needs a new client_id", clientID).
		With("sequence", seq)
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

// at says which draft of several was refused.
func at(i, of int, err error) error {
	if of < 2 {
		return err
	}
	return chat.Public(err).With("index", i)
}

// draft turns one draft of a caller into an event, and adds what follows from
// it by the rules.
func (d *decision) draft(c chat.Caller, draft chat.Draft) (chat.Event, error) {
	actor, err := mayAppend(c, &d.state.Session, &draft)
	if err != nil {
		return chat.Event{}, err
	}
	if draft.ClientID != "" {
		for _, k := range d.keys { // made earlier in this very decision
			if k.ClientID == draft.ClientID && k.Actor == actor.Key() {
				if k.Digest != draft.Digest() {
					return chat.Event{}, errReused(draft.ClientID, k.Seq)
				}
				return d.events[k.Seq-d.after-1], nil
			}
		}
	}
	turn, err := d.turnFor(actor, &draft)
	if err != nil {
		return chat.Event{}, err
	}
	if err := d.fits(&draft); err != nil {
		return chat.Event{}, err
	}
	switch b := draft.Body.(type) {
	case chat.UserMessage:
		return d.userMessage(actor, draft)
	case chat.UserMessageWithdrawn:
		return d.withdraw(actor, draft, b)
	case chat.UserInputResponse, chat.UserApprovalResponse, chat.UserPermissionResponse:
		return d.answer(actor, draft)
	case chat.AgentInputRequest, chat.AgentApprovalRequest, chat.AgentPermissionRequest:
		return d.ask(actor, draft, turn)
	case chat.AgentText, chat.AgentThinking:
		if err := d.finishes(&draft, turn); err != nil {
			return chat.Event{}, err
		}
	case chat.SessionCompleted, chat.SessionFailed:
		return d.endSession(actor, draft, turn)
	}
	return *d.add(actor, draft, turn), nil
}

// fits refuses an event that would be too large once it has its envelope.
func (d *decision) fits(draft *chat.Draft) error {
	if len(draft.Payload)+1024+len(draft.ClientID) > chat.MaxEvent {
		return chat.Errorf(chat.TooLarge, "an event has at most %d KiB; put large things into artifacts", chat.MaxEvent>>10)
	}
	return nil
}

// turnFor finds the turn that a draft belongs to. What an ended turn or an
// older attempt says is refused.
func (d *decision) turnFor(actor chat.Actor, draft *chat.Draft) (chat.TurnID, error) {
	if draft.Turn == "" {
		if strings.HasPrefix(draft.Type, "agent.") {
			if t := d.state.Line(draft.Workstream).Turn; t != nil {
				return t.ID, nil
			}
		}
		return "", nil
	}
	t, line := d.state.TurnOf(draft.Turn)
	if t == nil {
		return "", chat.Errorf(chat.Conflict, "turn %s has ended; nothing more can be said in it", draft.Turn).With("turn_id", draft.Turn)
	}
	if draft.Attempt != 0 && draft.Attempt != t.Attempt {
		return "", chat.Errorf(chat.Conflict, "turn %s is in attempt %d; attempt %d has been given up", draft.Turn, t.Attempt, draft.Attempt).
			With("turn_id", draft.Turn).With("attempt", t.Attempt)
	}
	if line != draft.Workstream {
		if draft.Workstream != "" {
			return "", chat.Errorf(chat.Invalid, "turn %s is not of workstream %q", draft.Turn, draft.Workstream)
		}
		draft.Workstream = line
	}
	return t.ID, nil
}

// finishes checks the end of a block: what was shown is never taken back.
func (d *decision) finishes(draft *chat.Draft, turn chat.TurnID) error {
	block := chat.FinishedBlock(draft.Body)
	if block == "" {
		return nil
	}
	if t, _ := d.state.TurnOf(turn); t != nil && t.Finished(block) {
		return chat.Errorf(chat.Conflict, "block %q is finished already; go on in a new one", string(block))
	}
	open, ok := d.room.home.live.Block(d.room.id, block)
	if !ok {
		return nil
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
