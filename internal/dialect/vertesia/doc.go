// Package vertesia speaks to clients of Vertesia's agent message system: the npm
// package @vertesia/client, its UI component, and whatever else was written for
// its addresses. The protocol is described in Vertesia's documentation under
// "Agent Message System"; where that page and the shipped packages (1.5.0) differ,
// the packages are followed. A JSON Schema of the messages that we send is in
// docs/schemas/vertesia. A run is a session; its id is the agent run id, the
// run id and the workflow id. A workstream can be looked at as a run of its own,
// under the id SESSION~WORKSTREAM.
//
// # From Vertesia to the log
//
//	POST /agents                      session.started and user.message: data.user_prompt, else data.task, else the
//	                                  only text in data, else data; the rest of the payload in metadata.vertesia
//	POST /agents/record               session.started with nobody to answer: an agent elsewhere posts updates
//	POST …/updates                    what the message means (agent.text, agent.thinking, agent.tool_*, agent.plan,
//	                                  agent.error, agent.status, agent.input_request, user.message,
//	                                  session.completed) with its own words beside it; chunks become previews
//	UserInput                         the answer to the question that it names or that is open, else user.message;
//	                                  client_message_id is the client_id; to a child workstream.message
//	Stop                              turn.stop_requested, with the ack; vertesia.stopped where nothing runs
//	FileUploaded, FileRemoved         vertesia.files, the whole set; the next message takes the new ones along
//	FileBatchClosed                   user.message "[Files Ready]", once per batch, and vertesia.files
//	ModelConfigChanged, McpConfig…,   session.updated: the settings of the session, and metadata.vertesia
//	ToolApprovalModeChanged
//	TriggerCheckpoint                 session.updated with compact
//	launch_, message_, steer_,        the verbs of workstreams
//	terminate_workstream
//	any other signal                  vertesia.signal
//	DELETE, terminate, cancel         all lines are stopped, then session.completed with the outcome cancelled
//	restart                           vertesia.restarted; the next message reopens the session
//	fork                              a session that shares the past
//	artifacts                         file.uploaded
//
// # From the log to Vertesia
//
//	session.started                   SYSTEM without text, so that there is always a first message
//	user.message, answers             QUESTION, with ack and request_input_response
//	previews                          STREAMING_CHUNK, i is the block
//	agent.text, agent.thinking        ANSWER, THOUGHT; activity_id is the block whose chunks they replace
//	agent.tool_*                      THOUGHT with tool, tool_event, tool_status; BATCH_PROGRESS for batches
//	agent.plan, agent.status,         PLAN, UPDATE
//	usage, artifacts, files, shares
//	agent.error                       ERROR, or WARNING when it is recoverable
//	agent.*_request                   REQUEST_INPUT with ux, tool_approval for approvals
//	prompt.closed                     UPDATE with approval_decision
//	turn.resumed                      RESTARTING
//	turn.completed                    IDLE, on the main line, with the ack of a stop; before it ERROR or WARNING when it failed;
//	                                  of a child that somebody stopped UPDATE with the ack
//	an approval that is settled       UPDATE with approval_decision auto_approved
//	workstream.launched, .warning     UPDATE, WARNING on the line that launched it; on its own when a person did
//	workstream.progress, and its end  UPDATE, COMPLETE, ERROR, WARNING on its own line, with d.status; never TERMINATED, nor IDLE.
//	                                  Followed as a run of its own, a child has both: idle when it rests, terminated without a result
//	session.completed, session.failed COMPLETE, TERMINATED
//
// A run that was begun with interactive false has the setting complete_after_turn:
// the session ends with its last turn, once no workstream runs.
//
// What we do not speak: processes (process_id, advance, retry-node, answer-task),
// analytics, schedules, the store of documents and the studio. Who asks for them
// is told so.
//
// # Timestamps
//
// ts is the position of an event or preview in milliseconds, with microseconds
// behind the point: unique and strictly rising within a run, and a function of
// the log alone. A cursor, since, is a position; what a reader has of an open
// block follows from it.
//
// # Concurrency
//
// An event or a preview is encoded, and for gzip streams compressed, once for all
// readers of a run. Writes of chunks to a reader are at least Options.Group apart;
// chunks that arrive meanwhile are sent together, joined into chunks of up to 200
// characters.
//
// A stream has one goroutine, a socket two. Changes to the files and the posted
// chunks of one session wait for each other (locks); nothing else does. No lock of
// this package is held while something is written to a client.
package vertesia
