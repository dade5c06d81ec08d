package chat

import "github.com/parley-hq/parley/internal/json"

// SessionStarted is the first event of every session.
type SessionStarted struct {
	Agent     string          `json:"agent,omitempty"`
	Title     string          `json:"title,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"` // an object
	Workspace string          `json:"workspace,omitempty"`
	Policy    Policy          `json:"policy,omitempty"`
	Settings  Settings        `json:"settings,omitzero"`
	Members   []Member        `json:"members,omitempty"`
	ForkedOf  SessionID       `json:"forked_of,omitempty"`
	ForkedAt  Seq             `json:"forked_at,omitempty"`
	Parent    SessionID       `json:"parent,omitempty"`   // the session whose agent started this one
	Grant     string          `json:"grant_id,omitempty"` // that allowed the start
	ServedBy  string          `json:"served_by,omitempty"`
	AgentID   string          `json:"agent_id,omitempty"` // x1's spelling of agent
}

// SessionUpdated carries the fields that changed, and only those.
type SessionUpdated struct {
	Title    *string         `json:"title,omitempty"`
	Agent    *string         `json:"agent,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"` // replaces the whole object
	Policy   *Policy         `json:"policy,omitempty"`
	Settings *Settings       `json:"settings,omitempty"` // replaces all of them
	Members  *[]Member       `json:"members,omitempty"`
	Archived *bool           `json:"archived,omitempty"`
	Summary  *string         `json:"summary,omitempty"`
	Compact  bool            `json:"compact,omitempty"`   // a model agent summarises the conversation before its next request
	ServedBy *string         `json:"served_by,omitempty"` // the agent whose sidecar answers
	Detached bool            `json:"detached,omitempty"`  // the session has no parent any more, and no sidecar serves it
}

// SessionCompleted ends a session; a later user message reopens it.
type SessionCompleted struct {
	Outcome string `json:"outcome,omitempty"` // "" or SessionCancelled, in events of the server
}

// SessionCancelled is the outcome of a session that ended because it was stopped.
const SessionCancelled = "cancelled"

// SessionFailed ends a session with an error.
type SessionFailed struct {
	ErrorMessage string `json:"error_message,omitempty"`
}

// Outcome says how a turn ended.
type Outcome string

// The outcomes of a turn.
const (
	Done        Outcome = "done"
	Stopped     Outcome = "stopped"
	Failed      Outcome = "failed"
	Interrupted Outcome = "interrupted" // its agent could not continue
)

// TurnStarted begins the answer to one trigger.
type TurnStarted struct {
	TurnID  TurnID `json:"turn_id"`
	Trigger Seq    `json:"trigger"` // the event that is answered
	Agent   string `json:"agent"`
}

// TurnCompleted ends a turn.
type TurnCompleted struct {
	TurnID  TurnID  `json:"turn_id"`
	Outcome Outcome `json:"outcome"`
	Error   string  `json:"error,omitempty"`
	Usage   *Usage  `json:"usage,omitempty"` // the sum of the turn's reports
	Ack     string  `json:"ack,omitempty"`   // the ack of the request that stopped it
}

// TurnInput says that steered messages were taken into the running turn.
type TurnInput struct {
	Sequences []Seq `json:"sequences"`
}

// TurnResumed begins another attempt at a turn, after a crash or the loss of its worker.
type TurnResumed struct {
	TurnID  TurnID `json:"turn_id"`
	Attempt int    `json:"attempt"`           // the first attempt is 1
	Crashes int    `json:"crashes,omitempty"` // how many attempts in a row ended without new output
	Reason  string `json:"reason,omitempty"`
}

// TurnStopRequested asks the running turn to end.
type TurnStopRequested struct {
	TurnID TurnID `json:"turn_id,omitempty"`
	By     Actor  `json:"by"`
	Reason string `json:"reason,omitempty"`
	// Deadline is the end of the time that the agent has to end the turn itself; absent means a short default.
	Deadline At     `json:"deadline,omitzero"`
	Ack      string `json:"ack,omitempty"` // the id that the requester gave the request; the end of the turn repeats it
}

// Policy says what happens to a user message that arrives during a turn.
type Policy string

// The policies.
const (
	Queue     Policy = "queue"     // answered after the turn; the default
	Steer     Policy = "steer"     // handed to the running turn at its next step
	Interrupt Policy = "interrupt" // the turn is stopped, then it is answered
)

// Type is the type on the wire.
func (SessionStarted) Type() string    { return "session.started" }
func (SessionUpdated) Type() string    { return "session.updated" }
func (SessionCompleted) Type() string  { return "session.completed" }
func (SessionFailed) Type() string     { return "session.failed" }
func (TurnStarted) Type() string       { return "turn.started" }
func (TurnCompleted) Type() string     { return "turn.completed" }
func (TurnInput) Type() string         { return "turn.input" }
func (TurnResumed) Type() string       { return "turn.resumed" }
func (TurnStopRequested) Type() string { return "turn.stop_requested" }

func (b SessionStarted) check() error {
	if err := CheckAgentName(b.Agent); err != nil {
		return err
	}
	if err := checkMeta(b.Title, b.Metadata); err != nil {
		return err
	}
	if err := b.Policy.check(); err != nil {
		return err
	}
	if err := b.Settings.check(); err != nil {
		return err
	}
	return checkMembers(b.Members)
}

func (b SessionUpdated) check() error {
	if b.Agent != nil {
		if err := CheckAgentName(*b.Agent); err != nil {
			return err
		}
	}
	if b.ServedBy != nil {
		if err := CheckAgentName(*b.ServedBy); err != nil {
			return err
		}
	}
	var title string
	if b.Title != nil {
		title = *b.Title
	}
	if err := checkMeta(title, b.Metadata); err != nil {
		return err
	}
	if b.Policy != nil {
		if *b.Policy == "" {
			return Errorf(Invalid, "policy cannot be empty: it is one of queue, steer, interrupt")
		}
		if err := b.Policy.check(); err != nil {
			return err
		}
	}
	if b.Settings != nil {
		if err := b.Settings.check(); err != nil {
			return err
		}
	}
	if b.Members != nil {
		return checkMembers(*b.Members)
	}
	return nil
}

func (SessionCompleted) check() error  { return nil }
func (SessionFailed) check() error     { return nil }
func (TurnStarted) check() error       { return nil }
func (TurnCompleted) check() error     { return nil }
func (TurnInput) check() error         { return nil }
func (TurnResumed) check() error       { return nil }
func (TurnStopRequested) check() error { return nil }

func (p Policy) check() error {
	switch p {
	case "", Queue, Steer, Interrupt:
		return nil
	}
	return Errorf(Invalid, "policy %q is not one of queue, steer, interrupt", string(p))
}

// NoAgent is the agent name of a session without an agent.
const NoAgent = "none"

// CheckAgentName reports why s cannot name an agent; "" is no name and fits.
func CheckAgentName(s string) error {
	if s != "" && !wordOf(s, 128, "._-/:") {
		return Errorf(Invalid, "an agent name has 1 to 128 of A-Z a-z 0-9 . _ - / :")
	}
	return nil
}

// MaxTitle bounds a session's title, in bytes.
const MaxTitle = 512

func checkMeta(title string, metadata json.RawMessage) error {
	if len(title) > MaxTitle {
		return Errorf(TooLarge, "a title has at most %d bytes", MaxTitle)
	}
	if len(metadata) > 0 && metadata[0] != '{' && string(metadata) != "null" {
		return Errorf(Invalid, "metadata must be an object")
	}
	if len(metadata) > 32<<10 {
		return Errorf(TooLarge, "metadata has at most 32 KiB")
	}
	return nil
}

func checkMembers(ms []Member) error {
	if len(ms) > 256 {
		return Errorf(TooLarge, "a session has at most 256 members")
	}
	for _, m := range ms {
		if rank[m.Role] == 0 {
			return Errorf(Invalid, "role %q is not one of viewer, answerer, owner", string(m.Role))
		}
		if m.Actor.ID == "" || m.Actor.Kind != User && m.Actor.Kind != Agent {
			return Errorf(Invalid, "a member is an actor {kind: user or agent, id}")
		}
		if err := m.Actor.validate(); err != nil {
			return err
		}
	}
	return nil
}

func init() {
	register(func(p json.RawMessage) (b SessionStarted, err error) {
		if err = object(p, &b); err == nil && b.Agent == "" {
			b.Agent = b.AgentID
		}
		b.AgentID = ""
		return b, err
	})
	register(plain[SessionUpdated])
	register(plain[SessionCompleted])
	register(func(p json.RawMessage) (b SessionFailed, err error) {
		var old struct {
			Error string `json:"error"`
		}
		if err = object(p, &b); err == nil && b.ErrorMessage == "" && lax(p, &old) {
			b.ErrorMessage = old.Error
		}
		return b, err
	})
	register(plain[TurnStarted])
	register(plain[TurnCompleted])
	register(plain[TurnInput])
	register(plain[TurnResumed])
	register(plain[TurnStopRequested])
}
