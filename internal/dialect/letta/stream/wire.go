package stream

import (
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
)

// The values of message_type.
const (
	KindSystem           = "system_message"
	KindUser             = "user_message"
	KindAssistant        = "assistant_message"
	KindReasoning        = "reasoning_message"
	KindHidden           = "hidden_reasoning_message"
	KindToolCall         = "tool_call_message"
	KindToolReturn       = "tool_return_message"
	KindApprovalRequest  = "approval_request_message"
	KindApprovalResponse = "approval_response_message"
	KindSummary          = "summary_message"
	KindEvent            = "event_message"
	KindPing             = "ping"
	KindStop             = "stop_reason"
	KindUsage            = "usage_statistics"
	KindError            = "error_message"
)

// Kinds lists the values of message_type that a client can select.
var Kinds = []string{
	KindSystem, KindUser, KindAssistant, KindReasoning, KindHidden, KindToolCall, KindToolReturn,
	KindApprovalRequest, KindApprovalResponse, KindSummary, KindEvent,
}

// The values of stop_reason.
const (
	StopEndTurn   = "end_turn"
	StopApproval  = "requires_approval"
	StopCancelled = "cancelled"
	StopError     = "error"
)

// Item is one message as a client sees it: a part of an [llm.Message], or a piece of one that is being written.
type Item struct {
	Kind  string
	ID    string
	Date  time.Time
	Run   string
	Seq   chat.At // 0 is written as null
	Delta bool    // the item is a piece of a stream: tool_calls is an object instead of a list

	piece     bool // the item is text of a preview
	otid      string
	step      string
	sender    string
	name      string
	text      string     // content, reasoning, hidden reasoning or summary
	parts     []llm.Part // content that is more than one text
	signature string
	native    bool   // the model reasons by itself
	state     string // of hidden reasoning
	calls     []llm.ToolCall
	returns   []llm.ToolReturn
	verdicts  []llm.Verdict
	stats     *llm.Compaction // of a summary and of its event
}

// dateLayout is the form of a message's date: seconds, and a numeric zone.
const dateLayout = "2006-01-02T15:04:05+00:00"

// header has the fields of all messages. Letta's server writes absent values as null.
type header struct {
	ID     string  `json:"id"`
	Date   string  `json:"date"`
	Name   *string `json:"name"`
	Kind   string  `json:"message_type"`
	OTID   *string `json:"otid"`
	Sender *string `json:"sender_id"`
	Step   *string `json:"step_id"`
	IsErr  *bool   `json:"is_err"`
	Seq    *int64  `json:"seq_id"`
	Run    *string `json:"run_id"`
}

type contentMessage struct {
	header
	Content any `json:"content"`
}

type reasoningMessage struct {
	header
	Reasoning string  `json:"reasoning"`
	Source    string  `json:"source"`
	Signature *string `json:"signature"`
}

type hiddenMessage struct {
	header
	State string  `json:"state"`
	Text  *string `json:"hidden_reasoning"`
}

type callsMessage struct {
	header
	Call  *toolCall `json:"tool_call"` // the first one
	Calls any       `json:"tool_calls"`
}

type toolCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	ID        string `json:"tool_call_id"`
}

type returnsMessage struct {
	header
	Return string `json:"tool_return"` // the first one
	outcome
	Returns []toolReturn `json:"tool_returns"`
}

type toolReturn struct {
	Type   string `json:"type"`
	Return any    `json:"tool_return"`
	outcome
}

// outcome is what a tool return says beside the result.
type outcome struct {
	Status llm.Status `json:"status"`
	CallID string     `json:"tool_call_id"`
	Stdout []string   `json:"stdout"`
	Stderr []string   `json:"stderr"`
}

type approvalMessage struct {
	header
	Approvals []any   `json:"approvals"`
	Approve   *bool   `json:"approve"` // the first one
	Request   *string `json:"approval_request_id"`
	Reason    *string `json:"reason"`
}

type toolApproval struct {
	Type    string  `json:"type"`
	CallID  string  `json:"tool_call_id"`
	Approve bool    `json:"approve"`
	Reason  *string `json:"reason"`
}

type summaryMessage struct {
	header
	Summary string           `json:"summary"`
	Stats   *compactionStats `json:"compaction_stats"`
}

type compactionStats struct {
	Trigger        string `json:"trigger"`
	TokensBefore   *int   `json:"context_tokens_before"`
	TokensAfter    *int   `json:"context_tokens_after"`
	ContextWindow  int    `json:"context_window"`
	MessagesBefore int    `json:"messages_count_before"`
	MessagesAfter  int    `json:"messages_count_after"`
}

type eventMessage struct {
	header
	Type string          `json:"event_type"`
	Data compactionEvent `json:"event_data"`
}

type compactionEvent struct {
	Trigger       *string `json:"trigger"`
	Tokens        *int    `json:"context_token_estimate"`
	ContextWindow *int    `json:"context_window"`
}

// Stop is the frame that says why a stream ends. In an answer it has no seq_id and no run_id.
type Stop struct {
	Kind   string `json:"message_type"`
	Reason string `json:"stop_reason"`
	Seq    int64  `json:"seq_id,omitempty"`
	Run    string `json:"run_id,omitempty"`
}

// Usage is the frame with the tokens that a stream's runs used. In an answer it has no seq_id and no run_id.
type Usage struct {
	Kind             string   `json:"message_type"`
	PromptTokens     int64    `json:"prompt_tokens"`
	CompletionTokens int64    `json:"completion_tokens"`
	TotalTokens      int64    `json:"total_tokens"`
	StepCount        int      `json:"step_count"`
	CachedTokens     int64    `json:"cached_input_tokens"`
	CacheWriteTokens int64    `json:"cache_write_tokens"`
	ReasoningTokens  int64    `json:"reasoning_tokens"`
	ContextTokens    *int     `json:"context_tokens"`
	RunIDs           []string `json:"run_ids"`
	Seq              int64    `json:"seq_id,omitempty"`
	Run              string   `json:"run_id,omitempty"`
}

// Failure is the frame of an error.
type Failure struct {
	Kind    string `json:"message_type"`
	Run     string `json:"run_id"`
	Type    string `json:"error_type"`
	Message string `json:"message"`
	Detail  string `json:"detail"`
	Seq     int64  `json:"seq_id"`
}

// Answer is the answer to a message that was not sent as a stream.
type Answer struct {
	Messages []json.RawMessage `json:"messages"`
	Stop     Stop              `json:"stop_reason"`
	Usage    Usage             `json:"usage"`
	Logprobs any               `json:"logprobs"`
	Turns    any               `json:"turns"`
}
