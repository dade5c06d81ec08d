// Package agentpool gives the turns of sessions to agents: to agents in the process of the server, and to workers.
//
//   - The [Runner] observes the commits of sessions. It starts a goroutine for each turn, resumes turns after a restart,
//     passes stops on and stores how a turn ended.
//   - The [Registry] maps names to agents in the process. Every other name belongs to workers.
//   - The [Pool] gives turns to workers, keeps them while a worker reconnects, and gives them to another worker if it
//     does not. In a cluster it also gives turns to the workers of other nodes; see nodes.go.
//
// A turn belongs to the server and survives every connection. Its context ends when it is stopped or the server shuts
// down. If an agent ignores the end of its context, the turn is ended without it, and what it stores later is refused.
//
// # Concurrency
//
// Runner.Committed may be called from any goroutine and does not block. Run starts one goroutine per turn and returns
// when all have ended. Turns that wait for Run are at most one per line. At most 10 000 imported sessions wait for their
// turns to be resumed; the turns of more are resumed at the next start.
//
// Locks are taken in this order: the session's, Runner.mu or Pool.mu, turn.mu, Inbox. No call into the sessions is made
// with one of them held.
package agentpool
