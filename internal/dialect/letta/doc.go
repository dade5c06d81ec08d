// Package letta serves the REST API of Letta under /v1 and /latest, for programs that use the clients
// @letta-ai/letta-client (npm) and letta-client (PyPI). docs/letta.md describes the API and where it differs.
//
// # How a request becomes events
//
//	POST /agents, /conversations   a record (see package record), and a session with the same id
//	POST /identities, /groups      a record
//	the last message               user.message, via "letta"
//	  otid                         client_id: the same message again gives the same run
//	  sender_id                    user_id
//	  client_tools, override_system  the message's context, where agents of all dialects read them
//	  all other fields             the message's context under "letta"
//	the messages before it,        llm.message: agents can read it, it starts no turn
//	system, initial messages
//	an approval or a tool_return   user.approval_response to the open request
//	a message after a question     user.input_response or user.permission_response
//	callback_url                   a record, so that the callback is made after a restart too
//	POST …/cancel                  turn.stop_requested
//
// # How events become messages
//
//	turn.started … turn.completed  a run; its id is made from the turn's id
//	previews (stream_tokens)       assistant_message, reasoning_message with the new text
//	agent.text, agent.thinking     the same with the whole text, or with the rest of it
//	agent.tool_call, tool_result   tool_call_message, tool_return_message
//	agent.approval_request         approval_request_message, then stop_reason requires_approval
//	agent.input_request,           assistant_message, then stop_reason end_turn
//	agent.permission_request
//	workstream.*                   system_message
//	turn.completed                 stop_reason, then usage_statistics or error_message, then [DONE]
//
// All other events are not shown. Lists, steps and runs are made from llm.Fold, which turns events into whole messages;
// streams and answers from stream.Feed, which gives their parts the same ids.
//
// # Concurrency
//
// A stream is one goroutine with its own feed. Requests that send to one conversation hold its send lock while they decide, so
// of two messages to an idle agent one is refused. Locks are taken in the order send lock, q.records. Run makes callbacks and
// finishes deletions.
package letta
