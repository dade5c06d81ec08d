// Package nemo serves clients of the NeMo Agent Toolkit (NAT, earlier AgentIQ and AIQ): the toolkit's UI, the AI-Q UI and
// scripts for its WebSocket and HTTP addresses. Where the toolkit's documents and its server differ, the server is
// followed; ?schema=documented and ?schema=agentiq select the documents. docs/nemo.md describes the behaviour and maps
// frames to events; docs/schemas/nemo has JSON Schemas of all frames.
//
// # A message becomes events
//
// A socket reads frames (socket.go) and handles one after the other (handle.go). decode.go and attachments.go decode a user_message;
// submit.go stores it as user.message, together with the stop of the turn that NeMo started before. An answer to a prompt
// is matched to an open prompt and stored. HTTP requests are decoded in request.go and stored the same way.
//
// # Events become frames
//
// A fold (fold.go, foldevents.go) turns events and previews into items: texts, steps, prompts, errors, ends. markdown.go
// and prompts.go make their content. An encoder (encode.go) turns items into frames (wire.go) in the form of a schema
// (schema.go). On a socket, one subscription per conversation does this (subscription.go). Over HTTP, an httpAnswer follows
// one turn (httpanswer.go), and answerroutes.go writes it whole or as a stream.
//
// # A client disconnects and returns
//
// The protocol has no cursor. The server sends WebSocket pings along with the frames; a pong acknowledges the position
// before it (delivery.go). The acknowledged position is saved at once as a resume point of identity, browser and session
// (resumepoints.go), also in a file (pointfile.go), so that it survives a kill. A client that connects with
// ?conversation_id= continues from the point of a departed client. While other tabs are connected and none departed lately,
// it is a new tab and gets the running turn from its start. The AI-Q UI names no conversation: the ones that it lost a
// moment ago are followed again (reattach in socket.go).
//
// # Other files
//
// serve.go has the options and routes; executions.go, jobs.go, feedback.go, static.go and oauth.go have one subject over
// HTTP each; eventframes.go shows one event as frames. /v1/workflow/atif, /evaluate and /monitor/users are not served.
//
// # Concurrency
//
// A socket has one goroutine that reads, one that handles what was read, because storing it may take long, and one per
// subscription that writes; a fold belongs to the latter. Frames are encoded per reader, because they contain the reader's
// own names of conversation and message. Locks are those of socket, subscription and resumePoints, taken in this order and
// never held while something is sent.
package nemo
