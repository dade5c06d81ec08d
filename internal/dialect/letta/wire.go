package letta

import (
	"strconv"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
)

// via marks what came by this dialect.
const via = "letta"

// The kinds of message that clients know.
const (
	kindSystem           = "system_message"
	kindUser             = "user_message"
	kindAssistant        = "assistant_message"
	kindReasoning        = "reasoning_message"
	kindHidden           = "hidden_reasoning_message"
	kindToolCall         = "tool_call_message"
	kindToolReturn       = "tool_return_message"
	kindApprovalRequest  = "approval_request_message"
	kindApprovalResponse = "approval_response_message"
	kindSummary          = "summary_message"
	kindEvent            = "event_message"
	kindPing             = "ping"
)

var kinds = []string{
	kindSystem, kindUser, kindAssistant, kindReasoning, kindHidden, kindToolCall, kindToolReturn,
	kindApprovalRequest, kindApprovalResponse, kindSummary, kindEvent,
}

// Why a run stops.
const (
	stopEndTurn   = "end_turn"
	stopApproval  = "requires_approval"
	stopCancelled = "cancelled"
	stopError     = "error"
)

// item is one message as clients see it: a part of a Message, or a piece of one
// that is being written.
type item struct {
	kind   string
	id     string
	otid   string
	step   string
	run    string
	sender string
	name   string
	date   time.Time
	isErr  bool
	seq    chat.At // 0 is null

	text      string     // content, reasoning, hidden reasoning, summary
	parts     []llm.Part // content, when it is more than one text
	signature string
	native    bool   // reasoning of a model that reasons
	state     string // of hidden reasoning
	calls     []llm.ToolCall
	delta     bool // the only call is a piece of a stream: an object, not a list
	returns   []llm.ToolReturn
	verdicts  []llm.Verdict
	stats     *llm.Compaction // of a summary, and of the event that tells of it
}

// dateLayout is the form of a message's date: seconds, and a zone in digits.
const dateLayout = "2006-01-02T15:04:05+00:00"

// append writes the item as JSON, with the nulls that the real server sends.
func (it *item) append(b []byte) []byte {
	b = appendText(append(b, `{"id":`...), it.id)
	b = append(b, `,"date":"`...)
	b = it.date.UTC().AppendFormat(b, dateLayout)
	b = appendNullable(append(b, `","name":`...), it.name)
	b = append(append(append(b, `,"message_type":"`...), it.kind...), `","otid":`...)
	b = appendNullable(b, it.otid)
	b = appendNullable(append(b, `,"sender_id":`...), it.sender)
	b = appendNullable(append(b, `,"step_id":`...), it.step)
	if it.isErr {
		b = append(b, `,"is_err":true`...)
	} else {
		b = append(b, `,"is_err":null`...)
	}
	b = append(b, `,"seq_id":`...)
	if it.seq == 0 {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, int64(it.seq), 10)
	}
	b = appendNullable(append(b, `,"run_id":`...), it.run)
	return append(it.appendOwn(b), '}')
}

// appendOwn writes what only this kind has.
func (it *item) appendOwn(b []byte) []byte {
	switch it.kind {
	case kindReasoning:
		b = appendText(append(b, `,"reasoning":`...), it.text)
		source := "non_reasoner_model"
		if it.native {
			source = "reasoner_model"
		}
		b = append(append(append(b, `,"source":"`...), source...), `","signature":`...)
		b = appendNullable(b, it.signature)
	case kindHidden:
		b = append(append(append(b, `,"state":"`...), it.state...), `","hidden_reasoning":`...)
		b = appendNullable(b, it.text)
	case kindToolCall, kindApprovalRequest:
		b = it.appendCalls(b)
	case kindToolReturn:
		b = it.appendReturns(b)
	case kindApprovalResponse:
		b = it.appendVerdicts(b)
	case kindSummary:
		b = appendText(append(b, `,"summary":`...), it.text)
		b = it.appendStats(append(b, `,"compaction_stats":`...))
	case kindEvent:
		b = it.appendCompactionEvent(b)
	case kindPing:
	default:
		b = append(b, `,"content":`...)
		if it.parts != nil {
			b = llm.AppendParts(b, it.parts)
		} else {
			b = appendText(b, it.text)
		}
	}
	return b
}

func (it *item) appendCalls(b []byte) []byte {
	b = append(b, `,"tool_call":`...)
	if len(it.calls) == 0 {
		return append(b, `null,"tool_calls":[]`...)
	}
	b = appendCall(b, &it.calls[0])
	b = append(b, `,"tool_calls":`...)
	if it.delta {
		return appendCall(b, &it.calls[0])
	}
	b = append(b, '[')
	for i := range it.calls {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendCall(b, &it.calls[i])
	}
	return append(b, ']')
}

func appendCall(b []byte, c *llm.ToolCall) []byte {
	b = appendText(append(b, `{"name":`...), c.Name)
	b = appendText(append(b, `,"arguments":`...), c.Arguments)
	b = appendText(append(b, `,"tool_call_id":`...), c.ID)
	return append(b, '}')
}

func (it *item) appendReturns(b []byte) []byte {
	var first llm.ToolReturn
	if len(it.returns) > 0 {
		first = it.returns[0]
	}
	text, _ := returnText(&first)
	b = appendText(append(b, `,"tool_return":`...), text)
	b = appendOutcome(b, &first)
	b = append(b, `,"tool_returns":[`...)
	for i := range it.returns {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendReturn(b, &it.returns[i])
	}
	return append(b, ']')
}

func appendReturn(b []byte, r *llm.ToolReturn) []byte {
	b = append(b, `{"type":"tool","tool_return":`...)
	if r.Parts != nil {
		b = llm.AppendParts(b, r.Parts)
	} else {
		text, _ := returnText(r)
		b = appendText(b, text)
	}
	return append(appendOutcome(b, r), '}')
}

// appendOutcome writes what a return says of its call beside the result.
func appendOutcome(b []byte, r *llm.ToolReturn) []byte {
	status := llm.Success
	if r.Failed() {
		status = llm.Failure
	}
	b = append(append(append(b, `,"status":"`...), status...), `","tool_call_id":`...)
	b = appendText(b, r.ToolCallID)
	b = appendTexts(append(b, `,"stdout":`...), r.Stdout)
	return appendTexts(append(b, `,"stderr":`...), r.Stderr)
}

func (it *item) appendVerdicts(b []byte) []byte {
	b = append(b, `,"approvals":[`...)
	for i, v := range it.verdicts {
		if i > 0 {
			b = append(b, ',')
		}
		switch v := v.(type) {
		case *llm.ToolApproval:
			b = appendText(append(b, `{"type":"approval","tool_call_id":`...), v.ToolCallID)
			b = strconv.AppendBool(append(b, `,"approve":`...), v.Approve)
			b = append(appendNullable(append(b, `,"reason":`...), v.Reason), '}')
		case *llm.ToolReturn:
			b = appendReturn(b, v)
		}
	}
	b = append(b, `],"approve":`...)
	var id, reason string
	approve := "null"
	if len(it.verdicts) > 0 {
		id = it.verdicts[0].CallID()
		if a, ok := it.verdicts[0].(*llm.ToolApproval); ok {
			approve, reason = strconv.FormatBool(a.Approve), a.Reason
		}
	}
	b = append(append(b, approve...), `,"approval_request_id":`...)
	b = appendNullable(b, id)
	return appendNullable(append(b, `,"reason":`...), reason)
}

func appendText(b []byte, s string) []byte { return chat.AppendString(b, s) }

func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }

// appendCount writes a count; 0 means that it is not known.
func appendCount(b []byte, n int) []byte {
	if n == 0 {
		return append(b, "null"...)
	}
	return appendInt(b, n)
}

func appendNullable(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return chat.AppendString(b, s)
}

func appendTexts(b []byte, list []string) []byte {
	if list == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = chat.AppendString(b, s)
	}
	return append(b, ']')
}
