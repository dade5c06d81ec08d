// Package httpagent answers turns through HTTP endpoints. It calls an endpoint once
// per round of a turn and stores the streamed answer as events and previews. It
// speaks four protocols: OpenAI-compatible chat, Parley's own NDJSON, the NeMo
// Agent Toolkit (HTTP stream or WebSocket) and AG-UI. docs/remote.md describes
// them.
//
// The operator configures the addresses, so they may be private. Redirects are
// refused; answers are bounded in size and time.
//
// # After a crash
//
// The endpoint is called again. As long as it repeats what the log already has,
// nothing is stored twice; from the first difference on, its new output is stored
// after the old one, which stays. A repeated call can repeat the effects of
// tools, so a turn in which a tool was used ends as interrupted, unless the
// configuration says otherwise. Prompts are events: the endpoint gets an answer
// that was given before the crash, and the person is not asked again.
//
// # Concurrency
//
// An Agent answers any number of turns at once. Answer returns after its
// connection is closed; Close drops idle connections.
package httpagent
