package llm

import "time"

// Role is the role of a message's author.
type Role string

// The roles.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
	Approval  Role = "approval" // a request if it has tool calls, else a response
	Summary   Role = "summary"
)

// Message is one message of a conversation as it is presented to a model. An empty
// field is absent in its JSON.
type Message struct {
	ID      string `json:"id,omitempty"`
	Role    Role   `json:"role"`
	Content Parts  `json:"content,omitzero"`
	Name    string `json:"name,omitempty"`  // of the participant; in a tool message, of the first tool
	Model   string `json:"model,omitempty"` // the model that wrote it; reasoning is sent back only to the same model

	AgentID        string       `json:"agent_id,omitempty"`
	ConversationID string       `json:"conversation_id,omitempty"`
	ToolCalls      []ToolCall   `json:"tool_calls,omitzero"`    // of assistants and approval requests
	ToolCallID     string       `json:"tool_call_id,omitempty"` // in a tool message, of the first return; in an approval request, of the first call
	ToolReturns    []ToolReturn `json:"tool_returns,omitzero"`  // of tool messages; Content has the same as text

	StepID      string    `json:"step_id,omitempty"`
	RunID       string    `json:"run_id,omitempty"`
	OTID        string    `json:"otid,omitempty"` // the id that the sender gave it
	GroupID     string    `json:"group_id,omitempty"`
	SenderID    string    `json:"sender_id,omitempty"`
	BatchItemID string    `json:"batch_item_id,omitempty"`
	Approvals   Verdicts  `json:"approvals,omitzero"` // of approval responses
	CreatedAt   time.Time `json:"created_at,omitzero"`
}

// ToolCall is a tool call that a model requests.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string // JSON as the model wrote it, possibly malformed
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
	ToolCallID string   `json:"tool_call_id,omitempty"`
	Status     Status   `json:"status"`
	Stdout     []string `json:"stdout,omitzero"`
	Stderr     []string `json:"stderr,omitzero"`
	Text       string   `json:"-"` // the result, unless it is in Parts
	Parts      Parts    `json:"-"` // text and images
}

// Verdict is one item of an approval response: a *ToolApproval, or a *ToolReturn of a
// tool that the client ran itself.
type Verdict interface {
	// CallID returns the id of the call that the verdict applies to.
	CallID() string
}

// Verdicts are the items of an approval response.
type Verdicts []Verdict

// ToolApproval says whether a call may run.
type ToolApproval struct {
	ToolCallID string `json:"tool_call_id"`
	Approve    bool   `json:"approve"`
	Reason     string `json:"reason,omitempty"`
}

// CallID returns the id of the call.
func (a *ToolApproval) CallID() string { return a.ToolCallID }

// CallID returns the id of the call.
func (r *ToolReturn) CallID() string { return r.ToolCallID }

// PlainText returns the result as text.
func (r *ToolReturn) PlainText() string {
	if r.Parts == nil {
		return r.Text
	}
	return PlainText(r.Parts)
}

// Failed reports whether the status or the text (see PackResult) says that the call
// failed.
func (r *ToolReturn) Failed() bool {
	if r.Status == Failure {
		return true
	}
	_, failed, _ := UnpackResult(r.Text)
	return failed
}

// IsApprovalRequest reports whether m asks for approval of its tool calls.
func (m *Message) IsApprovalRequest() bool { return m.Role == Approval && len(m.ToolCalls) > 0 }

// IsApprovalResponse reports whether m responds to an approval request.
func (m *Message) IsApprovalResponse() bool { return m.Role == Approval && len(m.ToolCalls) == 0 }

// PlainText returns the text of the message's parts, with blank lines between them.
func (m *Message) PlainText() string { return PlainText(m.Content) }
