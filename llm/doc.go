// Package llm is what a model sees of a session: messages in the form of
// Letta's Message, made from the log by a fold, and turned into the requests of
// OpenAI (Chat Completions and Responses), Anthropic and Gemini and back.
//
// The way of a conversation:
//
//	events → Fold → []Message → Repair → Fit → a provider's request
//	a provider's answer, whole or streamed → Message → Drafts → events
//
// Everything here is pure: no I/O, no goroutine, no clock, no randomness. What a
// conversion is given it never changes. A Fold and the stream accumulators
// belong to one goroutine at a time; everything else may be shared as long as
// nobody changes it.
package llm
