// Package nemo speaks to clients of the NeMo Agent Toolkit (NAT, earlier AgentIQ
// and AIQ): the toolkit's own UI, the AI-Q UI, and whatever else was written for
// its WebSocket and HTTP addresses. The protocol is described in the toolkit's
// documentation under "WebSocket Message Schema" and "API Server Endpoints"; where
// the documents and the real server differ, the real server is followed, and
// /websocket?schema=documented or ?schema=agentiq give the documents' own words.
// JSON Schemas of all frames are in docs/schemas/nemo.
//
// # From NeMo to the log
//
//	user_message                      user.message, the last user message of content.messages; via "nemo"
//	  id                              client_id, unless it is "default"; the parent_id of the answer
//	  conversation_id, else thread_id the session, begun if need be
//	  earlier messages                user.message and agent.text, only at the beginning of a new session
//	  text, image_url, input_audio,   content parts; data over 32 KiB becomes an artifact
//	  video_url, file
//	  user                            name, email and info of the actor, here and in answers
//	  security                        who says it; never stored
//	  system messages                 context.system of the message
//	  schema_type, schema_version,    context.nemo of the message
//	  other keys
//	  while NeMo's own turn runs      also turn.stop_requested; NeMo's messages that wait are withdrawn,
//	                                  all in one append that fails when the line is not as it was seen
//	user_interaction_message          user.input_response, user.approval_response or user.permission_response
//	auth_message                      nothing: who speaks on this socket from now on
//	POST /chat, /generate, /v1/…      as user_message; where prompts have no words, the answer to an open one
//	POST /executions/…/response       as user_interaction_message
//	GET /auth/redirect                user.input_response to the oauth_consent prompt of that state
//	POST /v1/workflow/async           a session of its own, nemo-job-ID, with one user.message
//	POST /feedback                    user.feedback in the session of the answer
//	POST, PUT, DELETE /static/…       file.uploaded, file.removed in the session nemo-static
//
// # From the log to NeMo
//
//	previews, agent.text              system_response_message, in_progress (at once for chat and generate)
//	agent.thinking                    system_intermediate_message "Thinking"
//	agent.tool_call, tool_progress,   system_intermediate_message "Tool: NAME", one id from call to outcome
//	tool_result, tool_error
//	agent.plan, agent.status,         system_intermediate_message "Plan", "Status", "Error", "Artifact: TITLE"
//	agent.error, agent.artifact
//	workstream.launched, and its end  system_intermediate_message "Function Start: NAME", "Function Complete: NAME"
//	agent.input_request               system_interaction_message of its input_type
//	agent.approval_request,           system_interaction_message, a binary_choice of continue and cancel
//	agent.permission_request
//	turn.completed, failed            a step if nothing was seen yet, error_message workflow_error, then as below
//	turn.completed                    system_response_message, complete; then observability_trace_message
//	agent.trace                       the trace of that message; the turn's id without one
//	everything else                   nothing
//
// For the AI-Q UI (?schema=aiq) texts come whole, a notification is a response,
// there is no trace, and user_message packs what was said as {"query": …}.
//
// What we do not speak: /v1/workflow/atif, /evaluate and /monitor/users.
//
// # Going on after a drop
//
// The protocol has no cursor. Pings go along with what is sent, and a place is
// reached when its ping is answered; see deliver.go. Per identity, browser and
// session it is noted at once, in a file, so that it outlives the process; see
// desk.go and marks.go. A client that comes back with ?conversation_id= goes on
// from there when its old connection is gone; while others live and nobody is
// awaited, it is one more tab and gets the running turn from its start. The AI-Q
// client does not name its conversation: what it followed on a connection that
// broke a moment ago is taken up; see comeback.go. A browser answers pings for a
// page that is going away, so a page that took its leave is sent the last moment
// again; see page.go.
//
// # Where to read
//
//	serve.go    routes; socket.go, thread.go: one connection, one conversation on it
//	wire.go     the frames; words.go: the ways of speaking
//	decode.go   frames and bodies to what was said; person.go: by whom; attach.go: files in them; submit.go: to facts
//	feed.go     entries to items, a pure fold, with fold.go and steps.go; prompts.go: questions
//	encode.go   items to frames
//	deliver.go  what has arrived; desk.go, marks.go, resume.go, comeback.go, page.go: going on
//	answer.go   answers to prompts, on a socket
//	http.go     requests; run.go: what they wait for; routes.go: the addresses of answers and their forms
//	executions.go, jobs.go, feedback.go, static.go, oauth.go: one subject over HTTP each; as.go: an event as NeMo words it
//
// # Concurrency
//
// A socket has one goroutine that reads and one per conversation that writes; a
// feed, the pure fold from entries to frames, belongs to the latter. Frames are
// made per reader, because they carry the reader's own names for conversation
// and message. Locks are those of socket, thread, desk and marks, taken in that
// order and never held while something is sent.
package nemo
