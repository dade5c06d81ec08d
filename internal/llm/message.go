package llm

import (
	"log/slog"
	"time"
)

// Role is the role of a message's author.
type Role string

// The roles. The older name "function" is decoded as Tool.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
	Approval  Role = "approval" // a request if it has tool calls, else a response
	Summary   Role = "summary"
)

// Message is one message of a conversation as it is presented to a model. An empty
// string means that the field is absent. Encoding a decoded message preserves its
// fields, nulls and unknown keys.
type Message struct {
	ID      string
	Role    Role
	Content []Part // nil means null
	Name    string // of the participant; in a tool message, of the first tool
	Model   string // the model that wrote it; reasoning is sent back only to the same model

	ToolCalls   []ToolCall   // of assistants and approval requests
	ToolCallID  string       // in a tool message, of the first return; in an approval request, of the first call
	ToolReturns []ToolReturn // of tool messages; if present, Content and ToolCallID are ignored
	Approvals   []Verdict    // of approval responses

	// The older form of a single approval; ignored if Approvals is present.
	ApprovalRequestID string
	Approve           *bool
	DenialReason      string

	AgentID        string
	ConversationID string
	StepID         string
	RunID          string
	OTID           string // the id that the sender gave it
	GroupID        string
	SenderID       string
	BatchItemID    string
	IsErr          *bool

	CreatedAt       time.Time
	UpdatedAt       time.Time
	CreatedByID     string
	LastUpdatedByID string

	kept kept
}

// ToolCall is a tool call that a model requests.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string // JSON as the model wrote it, possibly malformed

	kept, function kept
}

// Status is the outcome of a tool call.
type Status string

// The outcomes of a tool.
const (
	Success Status = "success"
	Failure Status = "error"
)

// ToolReturn is the result of one tool call.
type ToolReturn struct {
	ToolCallID string
	Status     Status
	Text       string // the result, unless it is in Parts
	Parts      []Part // text and images
	Stdout     []string
	Stderr     []string

	kept kept
}

// Verdict is one item of an approval response: a *ToolApproval, or a *ToolReturn of a
// tool that the client ran itself.
type Verdict interface {
	object
	verdict()
	// CallID returns the id of the call that the verdict applies to.
	CallID() string
}

// ToolApproval says whether a call may run.
type ToolApproval struct {
	ToolCallID string
	Approve    bool
	Reason     string

	kept kept
}

func (*ToolApproval) verdict() {}
func (*ToolReturn) verdict()   {}

// CallID returns the id of the call.
func (a *ToolApproval) CallID() string { return a.ToolCallID }

// CallID returns the id of the call.
func (r *ToolReturn) CallID() string { return r.ToolCallID }

// IsApprovalRequest reports whether m asks for approval of its tool calls.
func (m *Message) IsApprovalRequest() bool { return m.Role == Approval && len(m.ToolCalls) > 0 }

// IsApprovalResponse reports whether m responds to an approval request.
func (m *Message) IsApprovalResponse() bool { return m.Role == Approval && len(m.ToolCalls) == 0 }

// PlainText returns the text of the message's parts, with blank lines between them.
func (m *Message) PlainText() string { return PlainText(m.Content) }

// LogValue describes the message without its content.
func (m Message) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", m.ID), slog.String("role", string(m.Role)), slog.Int("parts", len(m.Content)),
		slog.Int("calls", len(m.ToolCalls)), slog.Int("returns", len(m.ToolReturns)))
}

func (m *Message) fields(f *codec) {
	f.keep(&m.kept)
	f.text("id", &m.ID, optional)
	f.role("role", &m.Role)
	f.parts("content", &m.Content, anyPart, nullable)
	f.text("name", &m.Name, nullable)
	f.text("model", &m.Model, nullable)
	f.text("agent_id", &m.AgentID, nullable)
	f.text("conversation_id", &m.ConversationID, nullable)
	list(f, "tool_calls", &m.ToolCalls, nullable, func(c *ToolCall) object { return c })
	f.text("tool_call_id", &m.ToolCallID, nullable)
	list(f, "tool_returns", &m.ToolReturns, nullable, func(r *ToolReturn) object { return r })
	f.text("step_id", &m.StepID, nullable)
	f.text("run_id", &m.RunID, nullable)
	f.text("otid", &m.OTID, nullable)
	f.text("group_id", &m.GroupID, nullable)
	f.text("sender_id", &m.SenderID, nullable)
	f.text("batch_item_id", &m.BatchItemID, nullable)
	f.maybe("is_err", &m.IsErr)
	f.text("approval_request_id", &m.ApprovalRequestID, nullable)
	f.maybe("approve", &m.Approve)
	f.text("denial_reason", &m.DenialReason, nullable)
	f.verdicts("approvals", &m.Approvals)
	f.time("created_at", &m.CreatedAt, optional)
	f.time("updated_at", &m.UpdatedAt, nullable)
	f.text("created_by_id", &m.CreatedByID, nullable)
	f.text("last_updated_by_id", &m.LastUpdatedByID, nullable)
}

func (c *ToolCall) fields(f *codec) {
	f.keep(&c.kept)
	f.text("id", &c.ID, required)
	f.constant("type", "function", required)
	f.object("function", (*function)(c))
}

// function is the inner object of a tool call.
type function ToolCall

func (c *function) fields(f *codec) {
	f.keep(&c.function)
	f.text("name", &c.Name, required)
	f.text("arguments", &c.Arguments, required)
}

func (r *ToolReturn) fields(f *codec) {
	f.keep(&r.kept)
	f.anyText("tool_call_id", &r.ToolCallID)
	f.status("status", &r.Status)
	f.texts("stdout", &r.Stdout)
	f.texts("stderr", &r.Stderr)
	f.textOrParts("func_response", &r.Text, &r.Parts)
}

func (a *ToolApproval) fields(f *codec) {
	f.keep(&a.kept)
	f.constant("type", "approval", optional)
	f.text("tool_call_id", &a.ToolCallID, required)
	f.flag("approve", &a.Approve)
	f.text("reason", &a.Reason, nullable)
}

// MarshalJSON writes the fields that are present.
func (m Message) MarshalJSON() ([]byte, error) { return encodeObject(nil, &m), nil }

// AppendJSON appends the message's JSON to b.
func (m *Message) AppendJSON(b []byte) []byte { return encodeObject(b, m) }

// UnmarshalJSON reads and validates a message; see Decode.
func (m *Message) UnmarshalJSON(b []byte) error {
	d, err := Decode(b)
	if err == nil {
		*m = d
	}
	return err
}
