// Package llm is what a model sees of a session: messages in the form of
// Letta's Message, made from the log by a fold, and a request and its answer in
// no provider's words. The forms of the providers are in the packages below it,
// one for each SDK, so that only who talks to a provider links its SDK:
// internal/llm/openai (Chat Completions and Responses), internal/llm/anthropic and internal/llm/gemini.
//
// The way of a conversation:
//
//	events → Fold → []Message → Repair → Fit → Request → a provider's request
//	a provider's answer, whole or streamed → Answer → Drafts → events
//
// Everything here is pure: no I/O, no goroutine, no clock, no randomness. What a
// conversion is given it never changes. A Fold belongs to one goroutine at a
// time; everything else may be shared as long as nobody changes it.
package llm
