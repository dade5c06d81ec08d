package session

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/workstream"
)

// Launch starts a workstream in the background and returns its status. With a client id
// the call may be repeated. An id that is in use is a conflict.
func (s *Sessions) Launch(ctx context.Context, c chat.Caller, id chat.SessionID, l chat.Launch) (chat.WorkstreamStatus, error) {
	return s.callWork(ctx, &call{Method: callLaunch, Session: id, Caller: c, Launch: &l})
}

// callWork calls a method that returns the status of a workstream.
func (s *Sessions) callWork(ctx context.Context, q *call) (chat.WorkstreamStatus, error) {
	res, err := s.call(ctx, q)
	if err != nil {
		return chat.WorkstreamStatus{}, err
	}
	return *res.Status, nil
}

func (s *Sessions) launchHere(ctx context.Context, c chat.Caller, id chat.SessionID, l chat.Launch) (chat.WorkstreamStatus, error) {
	if l.Parent == "main" {
		l.Parent = ""
	}
	body, err := workstream.Launched(l)
	if err != nil {
		return chat.WorkstreamStatus{}, err
	}
	draft := chat.NewDraft(body).As(l.ClientID)
	draft.Turn, draft.Attempt, draft.Workstream = l.Turn, l.Attempt, l.Parent
	return s.runCommand(ctx, c, id, &workCommand{name: l.ID, sent: draft, rule: func(d *decision, o *workCommand) error {
		if err := workstream.CheckLaunch(d.state, o.draft.Workstream, l.ID); err != nil {
			return err
		}
		b := body
		if b.Agent == "" {
			b.Agent = d.state.AgentOf(o.draft.Workstream)
		}
		if b.Agent == chat.NoAgent {
			return chat.Errorf(chat.Invalid, "the session has no agent, so the launch has to name one").With("field", "agent")
		}
		b.LaunchID = d.nextID(chat.LaunchPrefix)
		if !b.Interactive {
			b.Deadline = core.After(d.lastAt, d.now) + chat.At(b.DeadlineSeconds*1e6)
		}
		agents := len(d.state.Session.Agents)
		if err := o.add(d, b); err != nil {
			return err
		}
		d.members = d.members || len(d.state.Session.Agents) != agents
		d.work = true
		d.advance(b.ID)
		return nil
	}})
}

// MessageWorkstream sends a follow-up message to a workstream. The running turn receives
// it; if no turn runs, it starts one. A workstream that has ended accepts no messages.
func (s *Sessions) MessageWorkstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string, m chat.Steering) (chat.WorkstreamStatus, error) {
	return s.callWork(ctx, &call{Method: callMessage, Session: id, Caller: c, Line: sentText(name), Steering: &m})
}

func (s *Sessions) messageHere(ctx context.Context, c chat.Caller, id chat.SessionID, name string, m chat.Steering) (chat.WorkstreamStatus, error) {
	return s.sendToWorkstream(ctx, c, id, name, m, func(d *decision, w *chat.Workstream) (chat.Body, error) { return workstream.Messaged(w, m) })
}

// SteerWorkstream sends a directive to a running workstream.
func (s *Sessions) SteerWorkstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string, m chat.Steering) (chat.WorkstreamStatus, error) {
	return s.callWork(ctx, &call{Method: callSteer, Session: id, Caller: c, Line: sentText(name), Steering: &m})
}

func (s *Sessions) steerHere(ctx context.Context, c chat.Caller, id chat.SessionID, name string, m chat.Steering) (chat.WorkstreamStatus, error) {
	return s.sendToWorkstream(ctx, c, id, name, m, func(d *decision, w *chat.Workstream) (chat.Body, error) { return workstream.Steered(w, m) })
}

// sendToWorkstream sends a message or directive to a workstream.
func (s *Sessions) sendToWorkstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string, m chat.Steering, body func(d *decision, w *chat.Workstream) (chat.Body, error)) (chat.WorkstreamStatus, error) {
	sent := chat.NewDraft(chat.WorkstreamSteered{ID: name, Command: m.Command, Text: m.Text}).As(m.ClientID)
	sent.Turn, sent.Attempt = m.Turn, m.Attempt
	return s.runCommand(ctx, c, id, &workCommand{name: name, sent: sent, rule: func(d *decision, o *workCommand) error {
		w, err := workstream.Find(d.state, name)
		if err != nil {
			return err
		}
		b, err := body(d, w)
		if err != nil {
			return err
		}
		o.draft.Workstream = w.Parent
		if err := o.add(d, b); err != nil {
			return err
		}
		d.advance(w.ID)
		return nil
	}})
}

// TerminateWorkstream requests the end of a workstream and its descendants. After 60 s
// they are canceled. It is no error if the workstream has ended or is ending.
func (s *Sessions) TerminateWorkstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string, m chat.Steering) (chat.WorkstreamStatus, error) {
	return s.callWork(ctx, &call{Method: callTerminate, Session: id, Caller: c, Line: sentText(name), Steering: &m})
}

func (s *Sessions) terminateHere(ctx context.Context, c chat.Caller, id chat.SessionID, name string, m chat.Steering) (chat.WorkstreamStatus, error) {
	if len(m.Text) > 1000 {
		return chat.WorkstreamStatus{}, chat.Errorf(chat.TooLarge, "a reason has at most 1000 bytes")
	}
	none := chat.NewDraft(chat.WorkstreamCanceling{ID: name})
	none.Turn, none.Attempt = m.Turn, m.Attempt
	return s.runCommand(ctx, c, id, &workCommand{name: name, sent: none, rule: func(d *decision, o *workCommand) error {
		w, err := workstream.Find(d.state, name)
		if err != nil || w.State != chat.WorkRunning {
			return err
		}
		d.stopWork(w, o.caller.Actor, m.Text, d.now+chat.At(workstream.Grace.Microseconds()), "")
		return nil
	}})
}

// workCommand holds the state of one caller's command to a workstream.
type workCommand struct {
	caller chat.Caller
	name   string     // of the workstream
	sent   chat.Draft // the command as sent
	rule   func(d *decision, o *workCommand) error

	draft  chat.Draft  // the event to add, completed by rule
	turn   chat.TurnID // the sender's turn, "" for none
	known  *chat.Event // the stored event with the same client id
	status chat.WorkstreamStatus
}

func (s *Sessions) runCommand(ctx context.Context, c chat.Caller, id chat.SessionID, o *workCommand) (chat.WorkstreamStatus, error) {
	o.caller = c
	if err := o.sent.Normalize(); err != nil {
		return chat.WorkstreamStatus{}, err
	}
	r, err := s.acquireFor(ctx, c, id)
	if err != nil {
		return chat.WorkstreamStatus{}, err
	}
	defer r.release()
	req := &request{rules: o, undo: true}
	if _, ends := o.sent.Body.(chat.WorkstreamCanceling); ends {
		if req.files, err = s.mergeResting(ctx, r.id, o.name); err != nil {
			return chat.WorkstreamStatus{}, err
		}
	}
	if err := r.do(ctx, req); err != nil {
		return chat.WorkstreamStatus{}, err
	}
	return o.status, nil
}

func (o *workCommand) lookUp(ctx context.Context, r *sequencer) (err error) {
	o.known = nil
	if o.sent.ClientID != "" && r.state != nil {
		o.known, err = r.earlier(ctx, o.caller.Actor, o.sent.ClientID, o.sent.Digest())
	}
	return err
}

func (o *workCommand) decide(d *decision) (err error) {
	if err := o.caller.May(&d.state.Session, chat.Answerer); err != nil {
		return err
	}
	known := o.known != nil
	if e, digest, ok := d.repeated(o.caller.Actor, o.sent.ClientID); ok {
		if digest != o.sent.Digest() {
			return errReused(o.sent.ClientID, e.Seq)
		}
		known = true
	}
	if !known {
		o.draft = o.sent
		if o.turn, err = d.turnFor(o.caller, &o.draft); err != nil {
			return err
		}
		if err := o.rule(d, o); err != nil {
			return err
		}
	}
	w, err := workstream.Find(d.state, o.name)
	if err == nil {
		o.status = workstream.Status(d.state, w, d.now)
	}
	return err
}

// add adds the event of the caller's command.
func (o *workCommand) add(d *decision, body chat.Body) error {
	turn := o.turn
	if t, line := d.state.TurnOf(turn); t == nil || line != o.draft.Workstream {
		turn = "" // the event is on another line than the sender's turn
	}
	full, err := o.draft.WithBody(body)
	if err != nil {
		return err
	}
	if err := d.fits(&full); err != nil {
		return err
	}
	d.add(o.caller.Actor, full, turn)
	return nil
}

// ReportWorkstream adds a progress event for the workstream of a turn. On the main line it
// does nothing.
func (s *Sessions) ReportWorkstream(ctx context.Context, ref chat.TurnRef, clientID string, p chat.WorkstreamProgress) error {
	_, err := s.call(ctx, &call{Method: callReport, Session: ref.Session, Turn: ref, ClientID: clientID, Progress: &p})
	return err
}

func (s *Sessions) reportHere(ctx context.Context, ref chat.TurnRef, clientID string, p chat.WorkstreamProgress) error {
	r := s.acquire(ref.Session)
	defer r.release()
	return r.do(ctx, &request{unbounded: true, rules: &reporting{ref: ref, clientID: clientID, progress: p}})
}

// reporting holds the state of one ReportWorkstream call.
type reporting struct {
	ref      chat.TurnRef
	clientID string
	progress chat.WorkstreamProgress
	known    bool
}

func (q *reporting) lookUp(ctx context.Context, r *sequencer) error {
	q.known = false
	if r.state == nil || q.clientID == "" {
		return nil
	}
	t, _ := r.state.TurnOf(q.ref.Turn)
	if t == nil {
		return nil
	}
	_, ok, err := r.sessions.log.ByClientID(ctx, r.id, agentOf(t).Key(), q.clientID)
	q.known = ok
	return err
}

func agentOf(t *chat.Turn) chat.Actor { return chat.Actor{Kind: chat.Agent, ID: t.Agent} }

func (q *reporting) decide(d *decision) error {
	t, line, err := d.turn(q.ref)
	if err != nil || q.known || line == "" {
		return err
	}
	w := d.state.Workstream(line)
	if w == nil || w.Ended() {
		return err
	}
	if _, _, again := d.repeated(agentOf(t), q.clientID); again {
		return nil
	}
	p, err := workstream.Progressed(w, q.progress, d.now)
	if err != nil {
		return err
	}
	draft := chat.NewDraft(p).As(q.clientID)
	draft.Workstream = w.Parent
	if err := draft.Normalize(); err != nil {
		return err
	}
	d.add(agentOf(t), draft, "")
	return nil
}

// Workstreams returns the status of all workstreams of a session, in the order of their
// launch.
func (s *Sessions) Workstreams(ctx context.Context, c chat.Caller, id chat.SessionID) ([]chat.WorkstreamStatus, error) {
	st, err := s.State(ctx, c, id)
	if err != nil {
		return nil, err
	}
	now := s.now()
	all := make([]chat.WorkstreamStatus, len(st.Workstreams))
	for i, w := range st.Workstreams {
		all[i] = workstream.Status(st, w, now)
	}
	return all, nil
}

// Workstream returns the status of a workstream; name is its id or its launch id.
func (s *Sessions) Workstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string) (chat.WorkstreamStatus, error) {
	st, err := s.State(ctx, c, id)
	if err != nil {
		return chat.WorkstreamStatus{}, err
	}
	w, err := workstream.Find(st, name)
	if err != nil {
		return chat.WorkstreamStatus{}, err
	}
	return workstream.Status(st, w, s.now()), nil
}
