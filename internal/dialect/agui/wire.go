package agui

import (
	"github.com/parley-hq/parley/internal/json"
)

// input is the body of a request for a run.
type input struct {
	ThreadID string          `json:"threadId"`
	RunID    string          `json:"runId"`
	Version  string          `json:"protocolVersion,omitempty"` // only clients of 1.0 send it
	Parent   string          `json:"parentRunId,omitempty"`
	State    json.RawMessage `json:"state,omitempty"`
	Messages []message       `json:"messages"`
	Tools    []tool          `json:"tools"`
	Context  []contextItem   `json:"context"`
	Props    json.RawMessage `json:"forwardedProps,omitempty"`
	Resume   []resumeEntry   `json:"resume,omitempty"`

	PythonThread string `json:"thread_id,omitempty"` // these are of the client of Microsoft's Agent Framework
	PythonRun    string `json:"run_id,omitempty"`

	Branch bool `json:"-"` // from the query: see branches
}

// message is a message of any role.
type message struct {
	ID       string          `json:"id"`
	Role     string          `json:"role"`
	Content  json.RawMessage `json:"content,omitempty"` // a text, or parts
	Calls    []toolCall      `json:"toolCalls,omitempty"`
	CallID   string          `json:"toolCallId,omitempty"`
	Error    string          `json:"error,omitempty"`
	Subagent string          `json:"subagentRunId,omitempty"`
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// part is a piece of a message's content.
type part struct {
	Type   string      `json:"type"` // text, image, audio, video, document; binary before 1.0
	Text   string      `json:"text,omitempty"`
	Source *partSource `json:"source,omitempty"`

	MediaType string `json:"mimeType,omitempty"` // these are of binary
	URL       string `json:"url,omitempty"`
	Data      string `json:"data,omitempty"`
	Name      string `json:"filename,omitempty"`
}

type partSource struct {
	Type      string `json:"type"` // data, url, file
	Value     string `json:"value"`
	MediaType string `json:"mimeType,omitempty"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

type contextItem struct {
	Description string `json:"description"`
	Value       string `json:"value"`
}

type resumeEntry struct {
	ID      string          `json:"interruptId"`
	Status  string          `json:"status"` // resolved, cancelled
	Payload json.RawMessage `json:"payload,omitempty"`
}

// event is an event of any type. Optional fields are left out: clients refuse null.
type event struct {
	Type      string          `json:"type"`
	Thread    string          `json:"threadId,omitempty"`
	Run       string          `json:"runId,omitempty"`
	Version   string          `json:"protocolVersion,omitempty"`
	Input     *input          `json:"input,omitempty"` // what people said to the run, for readers that were not there
	MessageID string          `json:"messageId,omitempty"`
	Role      string          `json:"role,omitempty"`
	CallID    string          `json:"toolCallId,omitempty"`
	CallName  string          `json:"toolCallName,omitempty"`
	Delta     any             `json:"delta,omitempty"` // a text, or the patch of a state
	Patch     json.RawMessage `json:"patch,omitempty"`
	Activity  string          `json:"activityType,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
	Subagent  string          `json:"subagentRunId,omitempty"`
	Parent    string          `json:"parentSubagentRunId,omitempty"`
	Name      string          `json:"name,omitempty"`
	About     string          `json:"description,omitempty"`
	Value     json.RawMessage `json:"value,omitempty"`
	Snapshot  json.RawMessage `json:"snapshot,omitempty"`
	Messages  []message       `json:"messages,omitempty"`
	Message   string          `json:"message,omitempty"`
	Code      string          `json:"code,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Outcome   *outcome        `json:"outcome,omitempty"`
	Usage     []tokens        `json:"usage,omitempty"`
	Metadata  map[string]any  `json:"metadata,omitempty"`
	Time      int64           `json:"timestamp,omitempty"` // milliseconds
}

// outcome says why a run, or a subagent's part of it, ended.
type outcome struct {
	Type       string      `json:"type"` // success, interrupt, cancelled, suspended
	Pending    []string    `json:"pendingToolCallIds,omitempty"`
	Interrupts []interrupt `json:"interrupts,omitempty"`
	Waits      []string    `json:"interruptIds,omitempty"`
}

// interrupt is a question that the next run answers.
type interrupt struct {
	ID       string          `json:"id"`
	Reason   string          `json:"reason"`
	Message  string          `json:"message,omitempty"`
	CallID   string          `json:"toolCallId,omitempty"`
	Schema   json.RawMessage `json:"responseSchema,omitempty"`
	Expires  string          `json:"expiresAt,omitempty"`
	Subagent string          `json:"subagentRunId,omitempty"`
	Metadata map[string]any  `json:"metadata,omitempty"`
}

// tokens are the tokens of one model.
type tokens struct {
	Model     string `json:"model,omitempty"`
	Input     int64  `json:"inputTokens"`
	Output    int64  `json:"outputTokens"`
	Total     int64  `json:"totalTokens"`
	Reasoning int64  `json:"reasoningTokens,omitempty"`
	Cached    int64  `json:"cachedInputTokens,omitempty"`
	Written   int64  `json:"cacheWriteInputTokens,omitempty"`
}

// stored is what the context of a user.message has under "agui".
type stored struct {
	Run       string          `json:"run_id,omitempty"`
	MessageID string          `json:"message_id,omitempty"` // where it is not the client_id
	State     json.RawMessage `json:"state,omitempty"`
	Props     json.RawMessage `json:"forwarded_props,omitempty"`
	Imported  bool            `json:"imported,omitempty"` // from the history of a page; no turn answers it
}

// errorBody is the body of an error. Pages show its message.
type errorBody struct {
	Error   string `json:"error"`
	Message string `json:"message"`
}
