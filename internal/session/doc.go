// Package session holds the rules of a session and is the one door for writes:
// turns, prompts, stop, access. Nothing reaches the log by another way.
//
// # Order
//
// Everything written to one session goes through its sequencer, which handles
// requests strictly in the order in which they came. Drafts that wait for the
// same session share one commit. A fact is durable before anybody sees it; a
// preview is in the kernel before anybody sees it. Positions rise in the order
// in which readers get to see things, over facts and previews alike.
//
// # Deciding and storing
//
// Each request has two steps. lookUp reads what the rules need from the store.
// decide is a pure function: state, open blocks, drafts and time give numbered,
// stamped and chained events, or a refusal. It does no I/O, reads no clock and takes
// no lock; the type decision has all that it may read. So the same input gives the
// same events on every machine and in every repetition.
//
// The store only orders and writes. When it reports a commit conflict, the state is
// loaded again and the batch is decided again. When a commit fails, all requests of
// the batch get its error, because none of their events is stored. A panic of the
// rules fails only the request that caused it.
//
// # Concurrency
//
// All methods of Sessions may be called at the same time. There is no goroutine
// per session: of the callers that wait for a sequencer one does the work for all.
// Run is needed for deadlines; who calls it waits for it.
package session
