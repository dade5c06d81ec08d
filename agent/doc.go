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
// Run starts one goroutine per turn and returns when all have ended. The verbs
// of a Turn may be used by several goroutines at once only through Step, which
// names the step; otherwise their order must be the same in every attempt.
package agent
