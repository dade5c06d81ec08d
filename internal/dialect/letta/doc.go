// Package letta speaks to programs that were written for Letta: its REST API
// under /v1 (and /latest), as the clients @letta-ai/letta-client and letta-client
// know it. The API is described in Letta's API reference; where its last server
// and its hosted service differ, the side that a client can rely on is taken, and
// docs/letta.md says which.
//
// # From Letta to the log
//
//	POST /agents                      letta.record in the session sys-letta-ID, letta.entry in sys-letta-book (see package record),
//	                                  and the session of its default conversation, which has the agent's id
//	POST /conversations               the same, and a session with the conversation's id
//	POST /identities, /groups         letta.record, letta.entry
//	messages, the last one            user.message; via "letta"
//	  otid                            client_id: the same message again is the same run
//	  sender_id                       user_id
//	  name, group_id, role system,    the message's context under "letta"
//	  stream_tokens, …
//	  client_tools                    the message's context; their calls are approval requests marked client
//	  override_system                 the message's context; agents are told it
//	messages before the last          llm.message: there to be read, nobody answers them
//	  system, initial messages
//	an approval or a tool_return,     user.approval_response to the request that waits
//	in first place
//	a message while input is asked    user.input_response or user.permission_response
//	callback_url                      letta.record, so that the call is made after a restart too
//	POST …/cancel                     turn.stop_requested
//
// # From the log to Letta
//
//	turn.started … turn.completed     a run: its id is the turn's in the form of a UUID
//	llm.Fold over the events          Message: what lists, steps and runs show, expanded into the
//	                                  kinds of message that clients know
//	previews (stream_tokens)          assistant_message, reasoning_message: the text that is new
//	agent.text, agent.thinking        the same, whole, or what was not shown yet
//	agent.tool_call, tool_result, …   tool_call_message, tool_return_message
//	agent.approval_request            approval_request_message, then stop_reason requires_approval
//	agent.input_request,              assistant_message, then stop_reason end_turn; the next message
//	agent.permission_request          answers it
//	turn.completed                    stop_reason, usage_statistics or error_message, [DONE]
//	everything else                   nothing
//
// seq_id is the position of what a frame shows (see chat.At), so it follows from
// the log and not from the stream: every stream of a run, at any time, can be
// taken up again behind any seq_id.
//
// What we do not speak: memory blocks, tools, sources and folders beyond keeping
// what an agent was made with; compaction, search, feedback, batches, templates.
//
// # Concurrency
//
// A stream is one goroutine. A feed, a pure fold from entries to items, computes
// what the stream sends. The names in frames depend on the earlier entries of the
// run, so each stream has its own feed.
//
// Requests that send to one conversation pass a gate one after the other, so that of two messages for an idle agent one
// is refused. Agents, conversations, identities and groups are records of package record, whose locks are taken after a gate.
// Run makes the calls that clients asked for and finishes deletions.
package letta
