package llm

import "github.com/parley-hq/parley/chat"

// Stop is the reason why a model stopped.
type Stop string

// The reasons to stop.
const (
	StopEnd     Stop = "stop"
	StopLength  Stop = "length" // the answer was cut off at a token limit
	StopCalls   Stop = "tool_calls"
	StopFilter  Stop = "content_filter"
	StopFailure Stop = "error"
)

// Answer is a model's complete answer.
type Answer struct {
	Message Message // of role assistant
	Stop    Stop
	Usage   chat.Usage // InputTokens counts all of the prompt, cached parts included
}

// Meta contains data for an answer's message that the provider's response does not
// contain.
type Meta struct {
	Model string     // the name in the request
	Tools []ToolSpec // the offered tools, to restore their original names
}

// DeltaKind says what kind of block a delta belongs to.
type DeltaKind string

// The kinds of delta.
const (
	DeltaText     DeltaKind = "text"
	DeltaThinking DeltaKind = "thinking"
	DeltaCall     DeltaKind = "call" // Text is a piece of the arguments
)

// Delta is a piece of a streamed answer.
type Delta struct {
	Kind   DeltaKind
	Index  int // of the block or call; all deltas of one have the same index
	Text   string
	CallID string // of calls, in every delta
	Name   string // of calls, in every delta
}
