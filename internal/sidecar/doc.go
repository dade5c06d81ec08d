// Package sidecar attaches an agent process to a session over NATS, as x1 agents
// are used to: it stands next to the agent, speaks HTTP with it and x1 with the
// server, and keeps the credentials of both to itself.
//
//	agent → sidecar   GET {stream}/stream, SSE: what the agent says
//	                  POST /event: what its tools say; {domain}/{op}: requests to providers
//	sidecar → agent   GET …/health, POST {channel}/inject, /keepalive, /stop
//	sidecar → server  x1.session.{id}.events, delta, audit, presence, history; x1.provider.>
//	server → sidecar  x1.session.{id}.input, events, presence
//
// # Nothing is lost, nothing has two numbers
//
// All that the sidecar must know after a restart is a function of the session's
// log, so it has no files. Each event of the agent has a key made of the agent's
// boot, its place in the stream and its content (client_id); the server gives a key
// one number, however often it is sent. What an agent repeats to a new reader of
// its stream is lined up with what the log has (see tape). What a person said is
// injected in the order of the log; that it was delivered, or could not be, is an
// event too.
//
// # One sidecar per session
//
// A sidecar begins with an event x1.sidecar.attached that carries an epoch, one
// more than the last. The server takes an epoch once and refuses what older ones
// send. A sidecar that finds another one alive stops before that; one that was
// overtaken stops with the same error.
//
// # Concurrency
//
// Run starts all goroutines and returns when they have ended. Events go out one
// after the other, each after the one before was stored: order is worth more here
// than throughput. While NATS is away the stream of the agent is read on into a
// bounded queue, and posts wait.
//
// Locks: writer.mu is held while an event is sent, so that there is one order; all
// others only for a few lines, and none of them together.
package sidecar
