package aisdk

import (
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Types of chunks. The clients refuse a chunk of any other type, except data-*.
const (
	chunkStart       = "start"
	chunkStartStep   = "start-step"
	chunkFinishStep  = "finish-step"
	chunkFinish      = "finish"
	chunkAbort       = "abort"
	chunkError       = "error"
	chunkMetadata    = "message-metadata"
	chunkTextStart   = "text-start"
	chunkTextDelta   = "text-delta"
	chunkTextEnd     = "text-end"
	chunkThinkStart  = "reasoning-start"
	chunkThinkDelta  = "reasoning-delta"
	chunkThinkEnd    = "reasoning-end"
	chunkToolInput   = "tool-input-available"
	chunkToolAsk     = "tool-approval-request"
	chunkToolOutput  = "tool-output-available"
	chunkToolError   = "tool-output-error"
	chunkToolDenied  = "tool-output-denied"
	chunkFile        = "file"
	dataPlan         = "data-plan"
	dataWorkstream   = "data-workstream"
	dataArtifact     = "data-artifact"
	dataShare        = "data-share"
	dataStatus       = "data-status"
	dataProgress     = "data-progress"
	dataSteered      = "data-steered"
	dataPrompt       = "data-prompt"
	dataAnswered     = "data-answered"
	dataError        = "data-error"
	dataNotification = "data-notification"
)

// Values of finishReason. Version 7 has more values, which are not used: older clients fail on them.
const (
	finishStop  = "stop"
	finishTools = "tool-calls"
	finishError = "error"
	finishOther = "other"
)

// Names of the tools by which prompts are shown.
const (
	toolAsk        = "ask_person"   // a question
	toolPermission = "permission"   // a request for scopes that names no tool
	toolApprove    = "approve_call" // an approval, for clients of version 5
)

// chunk is one chunk of a response. Its type determines which fields are sent. A field without a value is not sent:
// clients refuse null in a field that they know, and older versions refuse fields that they do not know.
type chunk struct {
	typ       string
	id        string          // of a text or data part; the message's id in start
	text      string          // delta, errorText, url or finishReason
	call      string          // toolCallId
	tool      string          // toolName
	approval  string          // approvalId
	media     string          // mediaType
	raw       json.RawMessage // input, output, data or messageMetadata
	dynamic   bool
	executed  bool // providerExecuted: the page does not run the tool
	transient bool // the page does not keep the part
}

// isData reports whether the chunk is a data part.
func (c *chunk) isData() bool { return strings.HasPrefix(c.typ, "data-") }

// append appends the chunk as JSON.
func (c *chunk) append(b []byte) []byte {
	b = append(append(append(b, `{"type":"`...), c.typ...), '"')
	if c.typ == chunkStart {
		b = field(b, "messageId", c.id)
	} else if c.id != "" {
		b = field(b, "id", c.id)
	}
	if strings.HasPrefix(c.typ, "tool-") {
		b = field(b, "toolCallId", c.call)
	}
	switch c.typ {
	case chunkTextDelta, chunkThinkDelta:
		b = field(b, "delta", c.text)
	case chunkStart, chunkMetadata:
		b = rawField(b, "messageMetadata", c.raw)
	case chunkFinish:
		b = field(b, "finishReason", c.text)
	case chunkError, chunkToolError:
		b = field(b, "errorText", c.text)
	case chunkToolInput:
		b = rawField(field(b, "toolName", c.tool), "input", c.raw)
	case chunkToolOutput:
		b = rawField(b, "output", c.raw)
	case chunkToolAsk:
		b = field(b, "approvalId", c.approval)
	case chunkFile:
		b = field(field(b, "url", c.text), "mediaType", c.media)
	default:
		if c.isData() {
			b = rawField(b, "data", c.raw)
		}
	}
	if c.typ != chunkToolDenied {
		b = flag(flag(b, "providerExecuted", c.executed), "dynamic", c.dynamic)
	}
	return append(flag(b, "transient", c.transient), '}')
}

func field(b []byte, name, value string) []byte {
	b = append(append(append(b, ',', '"'), name...), '"', ':')
	return chat.AppendString(b, value)
}

func rawField(b []byte, name string, value json.RawMessage) []byte {
	b = append(append(append(b, ',', '"'), name...), '"', ':')
	if len(value) == 0 {
		return append(b, "null"...)
	}
	return append(b, value...)
}

func flag(b []byte, name string, value bool) []byte {
	if !value {
		return b
	}
	return append(append(append(b, ',', '"'), name...), `":true`...)
}
