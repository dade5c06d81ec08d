// Package sidecar connects an x1 agent process to a session over NATS. It runs next to
// the agent, uses HTTP with the agent and x1 with the server, and does not give the
// credentials of one to the other.
//
//	agent → sidecar   GET {stream}/stream, SSE: the agent's events
//	                  POST /event: events of its tools; POST /{domain}/{op}: requests to providers
//	sidecar → agent   GET …/health, POST {channel}/inject, /keepalive, /stop
//	sidecar → server  x1.session.{id}.events, delta, audit, presence, history; x1.provider.>
//	server → sidecar  x1.session.{id}.input, events, presence
//
// # Each event is stored once
//
// The sidecar has no files: everything it needs after a restart is in the session's log
// (state.go). Each event of the agent has a key made of the agent's boot, its index in the
// stream and its content (client_id), and the server stores a key once. Events that the
// agent repeats on a new connection are compared with the stored ones (replay.go). User
// messages are injected in the order of the log. The outcome of a delivery is an event, too.
//
// # One sidecar per session
//
// A sidecar begins with an event x1.sidecar.attached that carries an epoch, one more than
// the last. The server accepts an epoch once and refuses messages with older ones. A
// sidecar that finds another one running stops before that; one that was replaced stops
// with the same error.
//
// # Concurrency
//
// Run starts all goroutines and returns when they have ended. Events are sent one after
// the other, each after the one before is stored. While NATS is disconnected the stream of
// the agent is read into a bounded queue, and posts wait.
//
// Locks: writer.mu is held while an event is sent, so that there is one order; all others
// for a few lines, and never two of them together.
package sidecar
