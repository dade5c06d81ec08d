// Package model is the agent that lets a language model answer: over Chat
// Completions as nearly every server speaks it, over OpenAI's Responses, or over
// the APIs of Anthropic and Gemini, with tools of MCP servers and built-in ones.
//
// # The loop is a function of the log
//
// A turn is a row of steps. In a step the model is asked once; what it thinks,
// says and calls stands in the log as one commit, closed by an agent.usage. Then
// its calls are run, those that need it after a person has approved them, all at
// once where they can. Before each move the agent reads from the log where it
// is: a call without a result is to be run, all results there means ask the model
// again, an answer without calls is the end. So a turn that was killed goes on
// where it stopped, and no finished step is done twice.
//
// A tool that may not be repeated is marked in the log right before it runs. One
// that has the mark and no result when the agent comes back may have taken
// effect or not; it gets the error unknown_outcome, and the model decides.
//
// # Faults
//
// Rate limits, server errors, silence and answers that are cut off are tried
// again with growing pauses, and people are told. A conversation that does not
// fit the model's window is summarised; the summary stands in the log. What
// remains ends the turn with agent.error and a reason, and the next message
// finds a conversation that works.
//
// # Concurrency
//
// An Agent answers any number of turns at once. Close waits for them and then
// ends the connections to tools.
package model
