// Package agent runs agents: it gives them turns and puts what they say into
// the log.
//
// An Agent answers one turn. It speaks through the Turn and does not know who
// listens. A turn belongs to the server and outlives every connection; its
// context ends when somebody stops it or the server shuts down.
//
// # What survives
//
// Every verb of a Turn is a numbered step with an idempotency key. When a
// process dies in the middle of a turn, the Runner finds the turn in the log and
// calls the agent again; steps that are in the log give what they gave and are
// not done again. A tool call without a result is run again only if it was
// marked repeatable. Text that was shown is neither taken back nor doubled: an
// agent that writes the same text again goes on where it stopped, one that
// writes something else begins a new block, and the old one stays as it was.
//
// # Concurrency
//
// A Runner may be told of commits from any goroutine and never blocks there.
// Run starts one goroutine per turn and returns when all have ended; an agent
// that ignores the end of its context is left to itself, and what it says later
// is refused. The verbs of a Turn must come in the same order in every attempt,
// so one goroutine uses them.
//
// Locks are taken in this order: the room of a session (its rules tell of
// commits), Runner.mu or Pool.mu, Turn.mu, mailbox.mu. No call into the sessions
// is made with one of them held.
package agent
