// Package llm holds the messages of a session as a model sees them, in the form of
// Letta's Message, and requests and answers that are independent of a provider. The
// packages below it convert them: internal/llm/openai (Chat Completions and
// Responses), internal/llm/anthropic and internal/llm/gemini.
//
// The path of a conversation:
//
//	events → Fold → []Message → Repair → Fit → Request → a provider's request
//	a provider's streamed answer → Answer → AnswerBodies → events
//
// There is no I/O, goroutine, clock or randomness here. A conversion does not
// change its arguments. A Fold may be used by one goroutine at a time; everything
// else may be shared as long as it does not change.
package llm
