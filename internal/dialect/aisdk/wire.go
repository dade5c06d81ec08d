package aisdk

import (
	"strings"

	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/pages"
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

func isData(typ string) bool { return strings.HasPrefix(typ, "data-") }

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

// chunk is one chunk of a response. Its type determines which fields it has. A field without a value is not sent: clients refuse
// null in a field that they know, and older versions refuse fields that they do not know.
type chunk struct {
	Type      string          `json:"type"`
	MessageID string          `json:"messageId,omitempty"`
	ID        string          `json:"id,omitempty"` // of a text or data part
	Call      string          `json:"toolCallId,omitempty"`
	Delta     string          `json:"delta,omitempty"`
	Metadata  json.RawMessage `json:"messageMetadata,omitempty"`
	Finish    string          `json:"finishReason,omitempty"`
	Error     string          `json:"errorText,omitempty"`
	Tool      string          `json:"toolName,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`
	Approval  string          `json:"approvalId,omitempty"`
	URL       string          `json:"url,omitempty"`
	MediaType string          `json:"mediaType,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	Executed  bool            `json:"providerExecuted,omitempty"` // the page does not run the tool
	Dynamic   bool            `json:"dynamic,omitempty"`
	Transient bool            `json:"transient,omitempty"` // the page does not keep the part
}

// appendJSON appends the chunk as JSON. Most chunks are pieces of a text, which need no reflection.
func (c *chunk) appendJSON(dst []byte) []byte {
	if c.Type != chunkTextDelta && c.Type != chunkThinkDelta {
		return append(dst, pages.Marshal(c)...)
	}
	dst = append(append(append(dst, `{"type":"`...), c.Type...), `","id":`...)
	dst = append(json.AppendString(dst, c.ID), `,"delta":`...)
	return append(json.AppendString(dst, c.Delta), '}')
}
