package llm

import (
	"log/slog"
	"time"
)

// Role says who a message is from.
type Role string

// The roles. The old word function is read as tool.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
	Approval  Role = "approval" // with tool calls a request, without them the answer
	Summary   Role = "summary"
)

// Message is one message of a conversation as a model sees it. An empty text
// means that the field is absent. A message that was decoded is encoded again
// with the same fields, nulls and unknown keys.
type Message struct {
	ID      string
	Role    Role
	Content []Part // nil is null
	Name    string // of the participant; of a tool message the first tool's
	Model   string // that made it: only the same one may be given its reasoning back

	ToolCalls   []ToolCall   // of assistants and approval requests
	ToolCallID  string       // of a tool message the first return's, of an approval request the first call's
	ToolReturns []ToolReturn // of tool messages; they count, not Content and ToolCallID
	Approvals   []Verdict    // of approval responses

	// The older form of one approval; Approvals counts when it is there.
	ApprovalRequestID string
	Approve           *bool
	DenialReason      string

	AgentID        string
	ConversationID string
	StepID         string
	RunID          string
	OTID           string // the sender's own name for it
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

// ToolCall is one use of a tool that a model asks for.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string // JSON as the model wrote it, which may be broken

	kept, function kept
}

// Status says how a tool ended.
type Status string

// The outcomes of a tool.
const (
	Success Status = "success"
	Failure Status = "error"
)

// ToolReturn is what came of one tool call.
type ToolReturn struct {
	ToolCallID string
	Status     Status
	Text       string // the answer, unless it is Parts
	Parts      []Part // text and images
	Stdout     []string
	Stderr     []string

	kept kept
}

// Verdict is one item of an approval response: a ToolApproval, or a ToolReturn
// of a tool that the client ran itself. There are no others.
type Verdict interface {
	object
	verdict()
	// CallID is the call it is about.
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

// CallID is the call it is about.
func (a *ToolApproval) CallID() string { return a.ToolCallID }

// CallID is the call it is about.
func (r *ToolReturn) CallID() string { return r.ToolCallID }

// IsApprovalRequest reports whether m asks for leave to run its tool calls.
func (m *Message) IsApprovalRequest() bool { return m.Role == Approval && len(m.ToolCalls) > 0 }

// IsApprovalResponse reports whether m answers such a request.
func (m *Message) IsApprovalResponse() bool { return m.Role == Approval && len(m.ToolCalls) == 0 }

// PlainText is the text of the message's parts, with a blank line between two.
func (m *Message) PlainText() string { return PlainText(m.Content) }

// LogValue names the message without what it says.
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

// MarshalJSON writes the message with the fields that are there.
func (m Message) MarshalJSON() ([]byte, error) { return encodeObject(nil, &m), nil }

// AppendJSON appends the message's JSON to b.
func (m *Message) AppendJSON(b []byte) []byte { return encodeObject(b, m) }

// UnmarshalJSON reads a message strictly; see Decode.
func (m *Message) UnmarshalJSON(b []byte) error {
	d, err := Decode(b)
	if err == nil {
		*m = d
	}
	return err
}
