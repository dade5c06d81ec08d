// Package session holds the rules of a session and is the one door for writes:
// turns, prompts, stop, access. Nothing reaches the log by another way.
//
// # Order
//
// Everything written to one session goes through its room, which handles
// requests strictly in the order in which they came. Drafts that wait for the
// same session share one commit. A fact is durable before anybody sees it; a
// preview is in the kernel before anybody sees it. Positions rise in the order
// in which readers get to see things, over facts and previews alike.
//
// # Deciding and storing
//
// Deciding is pure: a decision takes the state of the session and a request,
// and gives numbered, stamped and chained events, or the reason why not. The
// committer only orders and stores. When it says that the session has moved on,
// the room reads the state anew and decides again. When a commit fails, all that
// was decided with it is answered with its error: nobody is told of a winner that
// was never stored. A fault in the rules hits only the request that caused it.
//
// # Concurrency
//
// All methods of Sessions may be called at the same time. There is no goroutine
// per session: of the callers that wait for a room one does the work for all.
// Run is needed for deadlines; who calls it waits for it.
package session
