// Package vertesia serves clients of Vertesia's agent message system: the npm
// package @vertesia/client, its UI component and other programs that use its
// addresses. The protocol is described in Vertesia's documentation under "Agent
// Message System"; where that page and the shipped packages (1.5.0) differ, this
// package does what the packages do. docs/schemas/vertesia has a JSON Schema of the
// messages.
//
// A run is a session; its id is the agent run id, the run id and the workflow id. A
// workstream is also a run of its own, with the id SESSION~WORKSTREAM.
//
// # From a request to events
//
// Routes (serve.go) finds the run of a request and calls a handler, which makes one
// call of the sessions and returns the JSON answer:
//
//	POST /agents                      session.started and user.message: data.user_prompt, else data.task, else the
//	                                  only text in data, else data; the rest of the payload in metadata.vertesia
//	POST /agents/record               session.started without an agent: one outside of the server posts updates
//	POST …/updates                    the event that the message becomes (agent.text, agent.thinking, agent.tool_*,
//	                                  agent.plan, agent.error, agent.status, agent.input_request, user.message,
//	                                  session.completed) with the message in its payload; chunks become previews
//	UserInput                         the answer to the prompt that it names or that is open, else user.message;
//	                                  client_message_id is the client_id; to a workstream workstream.message
//	Stop                              turn.stop_requested; the turn.completed that follows has the ack. vertesia.stopped has the
//	                                  ack if no turn runs, if another stop came first, or if its id is too long for the turn
//	FileUploaded, FileRemoved         vertesia.files with all attachments; the next message has the new ones
//	FileBatchClosed                   user.message "[Files Ready]", once per batch, and vertesia.files
//	ModelConfigChanged, McpConfig…,   session.updated: the settings of the session, and metadata.vertesia
//	ToolApprovalModeChanged
//	TriggerCheckpoint                 session.updated with compact
//	launch_, message_, steer_,        the operations of workstreams
//	terminate_workstream
//	any other signal                  vertesia.signal
//	DELETE, terminate, cancel         all turns are stopped, then session.completed with the outcome cancelled
//	restart                           vertesia.restarted; the next message reopens the session
//	fork                              a session with a copy of the events
//	artifacts (package files)         file.uploaded, file.removed
//
// # From events to messages
//
// The hub gives each reader batches of encoded messages (encode.go), which
// follower.loop writes to its stream or socket:
//
//	session.started                   SYSTEM without a text, so that there is always a first message
//	user.message, answers             QUESTION, with ack and request_input_response
//	previews                          STREAMING_CHUNK, i is the block
//	agent.text, agent.thinking        ANSWER, THOUGHT; activity_id is the block whose chunks they replace
//	agent.tool_*                      THOUGHT with tool, tool_event, tool_status; BATCH_PROGRESS for batches
//	agent.plan, agent.status,         PLAN, UPDATE
//	usage, artifacts, files, shares
//	agent.error                       ERROR, or WARNING when it is recoverable
//	agent.*_request                   REQUEST_INPUT with ux, tool_approval for approvals; UPDATE with approval_decision
//	                                  auto_approved when the settings approve
//	prompt.closed                     UPDATE with approval_decision
//	turn.resumed                      RESTARTING
//	turn.completed                    on the main line IDLE with the ack of a stop, after ERROR or WARNING when it failed;
//	                                  on a workstream UPDATE with the ack of a stop
//	workstream.launched, .warning     UPDATE, WARNING on the line that launched it; on its own when a person did
//	workstream.progress, and its end  UPDATE, COMPLETE, ERROR, WARNING on its own line, with d.status; never TERMINATED or IDLE.
//	                                  As a run of its own it has both: IDLE while it waits, TERMINATED without a result
//	session.completed, session.failed COMPLETE, TERMINATED
//
// A run that was begun with interactive false has the setting complete_after_turn:
// the session ends with its last turn, once no workstream runs.
//
// # Timestamps
//
// ts is the position of an event or preview in milliseconds, with microseconds as
// decimals: unique, strictly rising within a run, and stored in the log. The cursor
// of a client, since, is a position; it says how much of open blocks the client has.
//
// # Concurrency
//
// An event or a preview is encoded, and for gzip streams compressed, once for all
// readers of a run. A stream has one goroutine, a socket two. Changes to the attachments
// and posted chunks of one session are serialised; no lock is held while something is
// written to a client.
package vertesia
