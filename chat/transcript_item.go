package chat

import "github.com/parley-hq/parley/internal/json"

// ItemKind says what an item is; the field of Item with that name holds the
// rest (thinking is held by text).
type ItemKind string

// The kinds of item.
const (
	ItemMessage    ItemKind = "message"    // a person's message
	ItemText       ItemKind = "text"       // a block of the agent's answer
	ItemThinking   ItemKind = "thinking"   // a block of the agent's reasoning
	ItemTool       ItemKind = "tool"       // a tool call, its progress and its outcome
	ItemPrompt     ItemKind = "prompt"     // a question and its answer
	ItemPlan       ItemKind = "plan"       // the plan of a turn, as it stands
	ItemArtifact   ItemKind = "artifact"   // something the agent made
	ItemFile       ItemKind = "file"       // a file that was stored or removed
	ItemShare      ItemKind = "share"      // something that was shared
	ItemStatus     ItemKind = "status"     // the last status that the agent reported in a turn
	ItemError      ItemKind = "error"      // a fault that the agent reported
	ItemNotice     ItemKind = "notice"     // a line about the session or a turn
	ItemWorkstream ItemKind = "workstream" // a parallel line of work, from launch to end
	ItemCustom     ItemKind = "custom"     // an event of a type this version does not know
)

// Item is one entry of a transcript. Its JSON form is public: snapshots and pages
// of items have it, and the folds of the clients make the same.
type Item struct {
	// ID is the same for every reader and never changes. It comes from what
	// the item is about, where that has a name (ids of blocks, calls,
	// requests, workstreams, turns), else from the event that began it. So
	// pages that overlap, or that cut an item in two, are joined by id.
	ID   string   `json:"id"`
	Kind ItemKind `json:"kind"`
	// Seq is the event that began the item. Items are in its order. An open
	// block has none yet and comes after all others.
	Seq Seq `json:"seq,omitempty"`
	// Last is the last event that changed the item.
	Last Seq `json:"last,omitempty"`
	// At is the time of the event that began it.
	At         At     `json:"at,omitzero"`
	Turn       TurnID `json:"turn_id,omitempty"`
	Workstream string `json:"workstream_id,omitempty"` // "" is the main line
	Actor      *Actor `json:"actor,omitempty"`         // of the event that began it
	// Open marks a block that is still being written: text so far.
	Open bool `json:"open,omitempty"`
	// Headless marks an item whose beginning is, or may be, before the window that
	// was folded. The item with the same id in an older window is complete.
	Headless bool `json:"headless,omitempty"`

	// Exactly one of these is set; Kind says which.
	Message  *MessageItem   `json:"message,omitempty"`
	Text     *TextItem      `json:"text,omitempty"` // of text and thinking
	Tool     *ToolItem      `json:"tool,omitempty"`
	Prompt   *PromptItem    `json:"prompt,omitempty"`
	Plan     *PlanItem      `json:"plan,omitempty"`
	Artifact *AgentArtifact `json:"artifact,omitempty"`
	File     *FileItem      `json:"file,omitempty"`
	Share    *AgentShare    `json:"share,omitempty"`
	Status   *StatusItem    `json:"status,omitempty"`
	Error    *AgentError    `json:"error,omitempty"`
	Notice   *NoticeItem    `json:"notice,omitempty"`
	Work     *Workstream    `json:"workstream,omitempty"`
	Custom   *CustomItem    `json:"custom,omitempty"`
}

// MessageState is the state of a message of a person.
type MessageState string

// The states of a message.
const (
	MessageSent      MessageState = "sent"      // stored; no turn has begun with it
	MessageQueued    MessageState = "queued"    // waits for the running turn, or to be taken into it
	MessageTaken     MessageState = "taken"     // a turn answers it
	MessageWithdrawn MessageState = "withdrawn" // taken back before a turn took it up
)

// MessageItem is a person's message.
type MessageItem struct {
	Text     string          `json:"text"`
	Content  []Part          `json:"content,omitempty"`
	UserID   string          `json:"user_id,omitempty"`
	Context  json.RawMessage `json:"context,omitempty"`
	ClientID string          `json:"client_id,omitempty"` // the sender's, so that it recognises its own message
	State    MessageState    `json:"state"`
	TakenBy  TurnID          `json:"taken_by,omitempty"` // the turn that answers it
	Steered  bool            `json:"steered,omitempty"`  // it was taken into a turn that ran already
}

// TextItem is a block of text or reasoning.
type TextItem struct {
	Block    BlockID `json:"block,omitempty"`
	Text     string  `json:"text"`
	Final    bool    `json:"final,omitempty"`    // the turn's answer
	Partial  bool    `json:"partial,omitempty"`  // cut short by a stop or a crash
	Redacted bool    `json:"redacted,omitempty"` // there is more that the provider does not show
}

// ToolStatus is the state of a tool call.
type ToolStatus string

// The states of a tool call.
const (
	ToolRunning ToolStatus = "running"
	ToolOK      ToolStatus = "ok"
	ToolFailed  ToolStatus = "error"
	ToolDenied  ToolStatus = "denied"  // a person said no
	ToolUnknown ToolStatus = "unknown" // its turn ended, or it was cut off, without an outcome
)

// Denial is the code of a call that a person did not approve.
const Denial = "denied"

// ToolItem is a tool call and its outcome, or a batch of work that only
// reports progress.
type ToolItem struct {
	CallID    string          `json:"call_id,omitempty"`
	BatchID   string          `json:"batch_id,omitempty"`
	Tool      string          `json:"tool,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Status    ToolStatus      `json:"status"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     string          `json:"error,omitempty"`
	Code      string          `json:"code,omitempty"` // of the error
	Progress  *ToolProgress   `json:"progress,omitempty"`
	StartedAt At              `json:"started_at,omitzero"`
	EndedAt   At              `json:"ended_at,omitzero"`
}

// ToolProgress is the last progress report of a call.
type ToolProgress struct {
	Done    int64           `json:"done"`
	Total   int64           `json:"total,omitempty"`
	Message string          `json:"message,omitempty"`
	Items   []ProgressItem  `json:"items,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// PromptStatus is the state of a prompt.
type PromptStatus string

// The states of a prompt.
const (
	PromptOpen      PromptStatus = "open"
	PromptAnswered  PromptStatus = "answered"
	PromptExpired   PromptStatus = "expired"
	PromptWithdrawn PromptStatus = "withdrawn"
)

// PromptItem is a question and how it ended. Of input, approval and permission
// the one that was asked is set; none if the window does not have the request.
type PromptItem struct {
	RequestID  string                  `json:"request_id"`
	Status     PromptStatus            `json:"status"`
	Deadline   At                      `json:"deadline,omitzero"`
	Input      *AgentInputRequest      `json:"input,omitempty"`
	Approval   *AgentApprovalRequest   `json:"approval,omitempty"`
	Permission *AgentPermissionRequest `json:"permission,omitempty"`
	Answer     *Answer                 `json:"answer,omitempty"`
	EndedBy    *Actor                  `json:"ended_by,omitempty"` // who answered, or the server
	EndedAt    At                      `json:"ended_at,omitzero"`
}

// PlanItem is the plan of a turn.
type PlanItem struct {
	Tasks    []Task `json:"tasks"`
	Comment  string `json:"comment,omitempty"`
	Revision int    `json:"revision"` // 1 is the first plan of the turn
}

// StatusItem is the last status that the agent reported.
type StatusItem struct {
	Message string `json:"message"`
	Phase   string `json:"phase,omitempty"`
	Updates int    `json:"updates"` // how many there were in the turn
}

// FileItem is a file that was stored in the session or removed from it.
type FileItem struct {
	Path      string `json:"path"`
	Name      string `json:"name,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	Size      int64  `json:"size,omitempty"`
	SHA256    string `json:"sha256,omitempty"`
	Change    string `json:"change"`            // uploaded or removed
	Removed   bool   `json:"removed,omitempty"` // an uploaded file that was removed or replaced later
}

// NoticeItem is a line about the session or a turn.
type NoticeItem struct {
	// Code is one of: stop_requested, stopped, failed, interrupted, resumed
	// (of a turn); session_completed, session_failed; steered, follow_up (of
	// the workstream in about); notification (of the agent, to a person).
	Code    string `json:"code"`
	Text    string `json:"text,omitempty"`
	Attempt int    `json:"attempt,omitempty"` // of resumed
	Command string `json:"command,omitempty"` // of steered
	About   string `json:"about,omitempty"`   // the workstream it is about
	By      *Actor `json:"by,omitempty"`      // of stop_requested
}

// CustomItem is an event of a type that this version does not know.
type CustomItem struct {
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload"`
}
