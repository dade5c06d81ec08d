// Package agui serves AG-UI, the protocol of @ag-ui/client (1.0 and 0.0.x), CopilotKit and TanStack AI. docs/agui.md describes the
// routes and where they differ from the usual server.
//
// # How a request becomes events
//
//	threadId                       the caller's id of a session
//	the newest user message        user.message, via "agui"; its id is the client_id
//	  runId, state, forwardedProps  the message's context under "agui"
//	  tools                        the message's context under client_tools, where agents of all dialects read them
//	  context, system messages     the message's context under system
//	resume                         the answers to the open prompts
//	tool messages at the end       the results of client tools, an answer to the open approval request
//	POST …/stop/{threadId}         turn.stop_requested
//
// All other messages of the request are what the page has on its screen. Their texts are imported into a new session; later they are
// not read. A message that replaces another one begins a fork, see branch.go.
//
// # How events become runs
//
// A run never waits for a person in AG-UI. So a turn that asks is several runs: one ends with the prompt, and the next one begins
// with the event that closes the last prompt that the run has ended with. Events in between belong to the next run.
//
//	turn.started                   RUN_STARTED
//	agent.text, thinking, previews TEXT_MESSAGE_*, REASONING_*
//	agent.tool_call, _result       TOOL_CALL_*
//	agent.plan, progress, artifact ACTIVITY_SNAPSHOT, ACTIVITY_DELTA
//	agent.status, error, share     CUSTOM parley.*
//	workstream.*                   SUBAGENT_*
//	agent.*_request                RUN_FINISHED with interrupts, or with the ids of the client tools to run
//	turn.completed                 RUN_FINISHED or RUN_ERROR
//
// The frames of a run are a function of the log (see package turnlog and type encoder). The id of a frame is the id of the
// event that begins the run and the number of the frame in the run, so a client resumes at any frame, also after a restart.
// Package tanstack has the forms that only TanStack's client uses.
//
// # Concurrency
//
// A stream is one goroutine with its own encoder. A request that sends to a thread holds the lock of the thread while it decides.
package agui
