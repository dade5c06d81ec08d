// Package model is the agent that answers with a language model: over Chat Completions, OpenAI's Responses, or the APIs of
// Anthropic and Gemini, with tools of MCP servers and built-in tools.
//
// # The log is the state
//
// A turn is a sequence of steps. In each step the model is asked once; its reasoning, text and calls are stored as one
// commit that ends with agent.usage. Then its calls are executed, in parallel where possible, and after a person's
// approval where it is required. Before each action the agent reads its position from the log: a call without a result has
// to be executed; if all calls have results, the model is asked again; an answer without calls ends the turn. So a turn
// that was interrupted continues where it ended, and no completed step is repeated.
//
// A tool that must not be repeated is marked in the log before it runs. If it has the mark and no result in the next
// attempt, it may have taken effect or not: it gets the error unknown_outcome, and the model decides.
//
// # Errors
//
// Rate limits, server errors, silence and truncated answers are retried with growing pauses, and reported in the session.
// A conversation that does not fit the model's window is summarised; the summary is stored. Every other error ends the
// turn with agent.error.
//
// # Concurrency
//
// An Agent answers any number of turns at once. Close waits for them and then
// ends the connections to tools.
package model
