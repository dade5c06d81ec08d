package llm

import "github.com/parley-hq/parley/chat"

// Stop says why a model stopped.
type Stop string

// The reasons.
const (
	StopEnd     Stop = "stop"
	StopLength  Stop = "length" // there would have been more
	StopCalls   Stop = "tool_calls"
	StopFilter  Stop = "content_filter"
	StopFailure Stop = "error"
)

// Answer is what a model gave.
type Answer struct {
	Message Message // of role assistant
	Stop    Stop
	Usage   chat.Usage // InputTokens counts all of the prompt, cached parts included
}

// Meta is what an answer's message is to carry that the provider does not know.
type Meta struct {
	Model string     // as it was asked for; "" means as the provider names it
	Tools []ToolSpec // as they were offered, to find their own names again
}

// DeltaKind says what a piece of a streamed answer belongs to.
type DeltaKind string

// The kinds.
const (
	DeltaText     DeltaKind = "text"
	DeltaThinking DeltaKind = "thinking"
	DeltaCall     DeltaKind = "call" // Text is a piece of the arguments
)

// Delta is a piece of an answer that is being written.
type Delta struct {
	Kind   DeltaKind
	Index  int // of the block or call in the stream; pieces of one have the same
	Text   string
	CallID string // of calls, on every piece
	Name   string // of calls, on every piece
}
