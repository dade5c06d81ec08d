package chat

import (
	"cmp"
	"slices"
)

// State is what the rules need of a session: the fold of its log without the text
// of the conversation. Its size does not depend on the length of the log. It can
// be stored as JSON.
type State struct {
	Session     Session          `json:"session"`
	Number      Number           `json:"number"`
	Last        Seq              `json:"last"`
	LastAt      At               `json:"last_at"`
	Head        Hash             `json:"-"` // follows from the last event's bytes
	Lines       map[string]*Line `json:"lines,omitempty"`
	Prompts     []*Prompt        `json:"prompts,omitempty"` // open ones, oldest first
	Plan        *AgentPlan       `json:"plan,omitempty"`
	Usage       Usage            `json:"usage"`
	Workstreams []*Workstream    `json:"workstreams,omitempty"` // in the order of their launch
	Approved    []string         `json:"approved,omitempty"`    // tools approved for the session
	Granted     []string         `json:"granted,omitempty"`     // scopes granted for the session or permanently
	Compact     Seq              `json:"compact,omitempty"`     // what was said before is to be summarised
	Closed      []BlockID        `json:"closed,omitempty"`      // the last blocks that were finished outside of turns
	Ended       *TurnEnd         `json:"ended,omitempty"`       // the end of the main line's last turn; nil when a message came after it
}

// TurnEnd says how a turn ended.
type TurnEnd struct {
	Outcome Outcome `json:"outcome"`
	Error   string  `json:"error,omitempty"`
}

// Rests reports whether the session's last turn has ended and nothing runs, waits or
// is asked.
func (s *State) Rests() bool {
	return s.Ended != nil && s.Session.Status == Idle && !s.Busy() &&
		!slices.ContainsFunc(s.Workstreams, func(w *Workstream) bool { return !w.Ended() })
}

// Line is the main line of work ("") or a workstream's.
type Line struct {
	Turn  *Turn `json:"turn,omitempty"`  // nil when nothing runs
	Queue []Seq `json:"queue,omitempty"` // messages that wait for their turn
	Wakes []Seq `json:"wakes,omitempty"` // events of workstreams that will start a turn: its launch, follow-ups, and those of its children
}

// Next is what the line answers next, 0 when nothing waits.
func (l *Line) Next() Seq {
	switch {
	case len(l.Queue) == 0 && len(l.Wakes) == 0:
		return 0
	case len(l.Wakes) == 0 || len(l.Queue) > 0 && l.Queue[0] < l.Wakes[0]:
		return l.Queue[0]
	}
	return l.Wakes[0]
}

// Turn is a running turn.
type Turn struct {
	ID        TurnID     `json:"id"`
	Seq       Seq        `json:"sequence"` // of turn.started
	Trigger   Seq        `json:"trigger"`
	Agent     string     `json:"agent"`
	Attempt   int        `json:"attempt"`
	Crashes   int        `json:"crashes,omitempty"` // attempts in a row that ended with a crash of the process and without new output
	StartedAt At         `json:"started_at"`
	Stopping  bool       `json:"stopping,omitempty"`
	StopBy    At         `json:"stop_by,omitzero"`  // when the turn is ended if its agent has not; 0 means a short default
	Ack       string     `json:"ack,omitempty"`     // of the request to stop
	Steered   []Seq      `json:"steered,omitempty"` // messages that arrived and that its agent has not taken
	Woken     []Seq      `json:"woken,omitempty"`   // the same for events of workstreams that start a turn if they are not taken
	Told      []Seq      `json:"told,omitempty"`    // the same for directives and other events that start no turn
	Calls     []OpenCall `json:"calls,omitempty"`   // without a result yet
	Usage     Usage      `json:"usage"`
	Closed    []BlockID  `json:"closed,omitempty"` // blocks it has finished
	Answer    Seq        `json:"answer,omitempty"` // on a workstream, its last text
}

// TurnRef names one attempt of a turn.
type TurnRef struct {
	Session SessionID `json:"session_id"`
	Turn    TurnID    `json:"turn_id"`
	Attempt int       `json:"attempt"`
}

// Finished reports whether the turn has finished a block of that id.
func (t *Turn) Finished(b BlockID) bool { return slices.Contains(t.Closed, b) }

// maxClosed bounds the list of finished blocks outside of turns. A repeated piece
// arrives soon after its block was finished.
const maxClosed = 64

// Finished reports whether a block of that id is among the last blocks that were
// finished outside of turns.
func (s *State) Finished(b BlockID) bool { return slices.Contains(s.Closed, b) }

func (s *State) closeBlock(b BlockID) {
	s.Closed = append(s.Closed, b)
	if extra := len(s.Closed) - maxClosed; extra > 0 {
		s.Closed = slices.Delete(s.Closed, 0, extra)
	}
}

// OpenCall is a tool call without a result.
type OpenCall struct {
	CallID     string `json:"call_id"`
	Tool       string `json:"tool"`
	Seq        Seq    `json:"sequence"`
	Repeatable bool   `json:"repeatable,omitempty"`
}

// Line returns a line of work; it never returns nil.
func (s *State) Line(workstream string) *Line {
	if l := s.Lines[workstream]; l != nil {
		return l
	}
	return &Line{}
}

func (s *State) line(workstream string) *Line {
	l := s.Lines[workstream]
	if l == nil {
		l = &Line{}
		if s.Lines == nil {
			s.Lines = map[string]*Line{}
		}
		s.Lines[workstream] = l
	}
	return l
}

// TurnOf returns the running turn with that id and its line.
func (s *State) TurnOf(id TurnID) (t *Turn, workstream string) {
	if l := s.Lines[""]; l != nil && l.Turn != nil && l.Turn.ID == id {
		return l.Turn, "" // most turns run on the main line, and every piece of text looks for its turn
	}
	for name, l := range s.Lines {
		if l.Turn != nil && l.Turn.ID == id {
			return l.Turn, name
		}
	}
	return nil, ""
}

// Prompt returns an open prompt.
func (s *State) Prompt(requestID string) *Prompt {
	for _, p := range s.Prompts {
		if p.RequestID == requestID {
			return p
		}
	}
	return nil
}

// Workstream returns a workstream by id.
func (s *State) Workstream(id string) *Workstream {
	for _, w := range s.Workstreams {
		if w.ID == id {
			return w
		}
	}
	return nil
}

// AgentOf returns who answers on a line of work.
func (s *State) AgentOf(workstream string) string {
	if workstream != "" {
		if w := s.Workstream(workstream); w != nil && w.Agent != "" {
			return w.Agent
		}
	}
	return s.Session.Agent
}

// Busy reports whether any turn runs or waits to run.
func (s *State) Busy() bool {
	for _, l := range s.Lines {
		if l.Turn != nil || len(l.Queue) > 0 || len(l.Wakes) > 0 {
			return true
		}
	}
	return false
}

// Apply folds one event into the state. Events come in order. It reports
// whether the session's record changed beyond its last event.
func (s *State) Apply(e *Event) (changed bool) {
	was, headed := s.Session.Status, false
	s.Last, s.LastAt = e.Seq, e.At
	if e.Turn != "" && e.Actor.Kind == Agent {
		if t, _ := s.TurnOf(e.Turn); t != nil {
			t.Crashes = 0 // it makes progress
		}
	}
	s.Session.Last, s.Session.UpdatedAt = e.Seq, e.At
	switch b := e.Body.(type) {
	case SessionStarted:
		s.begin(e, b)
	case SessionUpdated:
		s.update(b)
	case SessionCompleted:
		s.Session.Status, s.Session.Error = Completed, ""
		return true
	case SessionFailed:
		s.Session.Status, s.Session.Error = FailedState, b.ErrorMessage
		return true
	case UserMessage:
		if e.Workstream == "" {
			s.Ended = nil
		}
		headed = s.head(b)
		s.addMessage(e)
	case UserMessageWithdrawn:
		for _, l := range s.Lines {
			l.Queue = without(l.Queue, b.Sequence)
			if l.Turn != nil {
				l.Turn.Steered = without(l.Turn.Steered, b.Sequence)
			}
		}
	case TurnStarted, TurnResumed, TurnInput, TurnStopRequested, TurnCompleted:
		s.applyTurn(e)
	case AgentText, AgentThinking, AgentToolCall, AgentToolResult, AgentToolError, AgentPlan, AgentUsage:
		s.applyWork(e)
	case AgentInputRequest, AgentApprovalRequest, AgentPermissionRequest, UserApprovalResponse, UserPermissionResponse, UserInputResponse, PromptClosed:
		s.applyPrompt(e)
	default:
		if s.applyWorkstream(e) {
			s.updateStatus()
			return true
		}
	}
	return s.updateStatus() || headed || s.Session.Status != was || e.Seq == 1 || e.Type == "session.updated"
}

// head gives a session without a title its heading. It reports whether it did.
func (s *State) head(b UserMessage) bool {
	if s.Session.Title != "" || s.Session.Heading != "" {
		return false
	}
	s.Session.Heading = headingOf(b.Text)
	return s.Session.Heading != ""
}

func (s *State) begin(e *Event, b SessionStarted) {
	if e.Seq != 1 {
		return // an agent's own event in a session that already began
	}
	s.Session = Session{
		ID: e.Session, Workspace: cmp.Or(b.Workspace, DefaultWorkspace), Owner: e.Actor, Members: b.Members,
		Agent: b.Agent, Title: b.Title, Metadata: b.Metadata, Policy: cmp.Or(b.Policy, Queue), Settings: b.Settings,
		Status: Idle, ForkedOf: b.ForkedOf, ForkedAt: b.ForkedAt, Parent: b.Parent, Grant: b.Grant, ServedBy: b.ServedBy, CreatedAt: e.At, UpdatedAt: e.At, Last: e.Seq,
	}
}

func (s *State) update(b SessionUpdated) {
	if b.Title != nil {
		s.Session.Title = *b.Title
	}
	if b.Agent != nil {
		s.Session.Agent = *b.Agent
	}
	if b.Metadata != nil {
		s.Session.Metadata = b.Metadata
	}
	if b.Policy != nil {
		s.Session.Policy = *b.Policy
	}
	if b.Settings != nil {
		s.Session.Settings = *b.Settings
	}
	if b.Members != nil {
		s.Session.Members = *b.Members
	}
	if b.Archived != nil {
		s.Session.Archived = *b.Archived
	}
	if b.Summary != nil {
		s.Session.Summary = *b.Summary
	}
	if b.Compact {
		s.Compact = s.Last
	}
	if b.ServedBy != nil {
		s.Session.ServedBy = *b.ServedBy
	}
	if b.Detached {
		s.Session.Parent, s.Session.Grant, s.Session.ServedBy = "", "", ""
	}
}

// reopen takes back that the session has ended.
func (s *State) reopen() {
	if s.Session.Status == Completed || s.Session.Status == FailedState {
		s.Session.Status, s.Session.Error = Idle, ""
	}
}

// addMessage adds a user message to the running turn that it steers, or to the queue of its line.
func (s *State) addMessage(e *Event) {
	s.reopen()
	if s.AgentOf(e.Workstream) == NoAgent {
		return
	}
	l := s.line(e.Workstream)
	if l.Turn != nil && !l.Turn.Stopping && s.Session.Policy == Steer {
		l.Turn.Steered = append(l.Turn.Steered, e.Seq)
		return
	}
	l.Queue = append(l.Queue, e.Seq)
}

func (s *State) callEnded(turn TurnID, callID string) {
	if t, _ := s.TurnOf(turn); t != nil {
		t.Calls = slices.DeleteFunc(t.Calls, func(c OpenCall) bool { return c.CallID == callID })
	}
}

func (s *State) remember(b UserApprovalResponse) {
	p := s.Prompt(b.RequestID)
	if p == nil || p.Approval == nil {
		return
	}
	for i, d := range b.Decisions {
		if d.Approve && d.Remember == "session" && i < len(p.Approval.Calls) {
			s.Approved = union(s.Approved, []string{p.Approval.Calls[i].Tool})
		}
	}
}

func (s *State) close(requestID string) {
	s.Prompts = slices.DeleteFunc(s.Prompts, func(p *Prompt) bool { return p.RequestID == requestID })
}

// updateStatus derives the status; it reports whether the record changed.
func (s *State) updateStatus() bool {
	status := s.Session.Status
	if status != Completed && status != FailedState {
		status = Idle
		for _, l := range s.Lines {
			if l.Turn != nil {
				status = Running
			}
		}
		if len(s.Prompts) > 0 {
			status = Waiting
		}
	}
	if status == s.Session.Status && len(s.Prompts) == s.Session.OpenPrompts {
		return false
	}
	s.Session.Status, s.Session.OpenPrompts = status, len(s.Prompts)
	return true
}

// Clone returns a copy that shares nothing that Apply changes.
func (s *State) Clone() *State {
	c := *s
	c.Lines = make(map[string]*Line, len(s.Lines))
	for name, l := range s.Lines {
		k := Line{Queue: slices.Clone(l.Queue), Wakes: slices.Clone(l.Wakes)}
		if l.Turn != nil {
			t := *l.Turn
			t.Steered, t.Woken, t.Told = slices.Clone(t.Steered), slices.Clone(t.Woken), slices.Clone(t.Told)
			t.Calls, t.Closed = slices.Clone(t.Calls), slices.Clone(t.Closed)
			k.Turn = &t
		}
		c.Lines[name] = &k
	}
	c.Prompts = slices.Clone(s.Prompts)         // a prompt is never changed, only removed
	c.Workstreams = slices.Clone(s.Workstreams) // replaced when it changes
	c.Approved, c.Granted, c.Closed = slices.Clone(s.Approved), slices.Clone(s.Granted), slices.Clone(s.Closed)
	return &c
}

func without(list []Seq, gone ...Seq) []Seq {
	return slices.DeleteFunc(list, func(s Seq) bool { return slices.Contains(gone, s) })
}

func union(list, more []string) []string {
	for _, m := range more {
		if !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}
