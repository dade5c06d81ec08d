// Package session holds the rules of a session: turns, prompts, stop, access. All
// writes to the log go through it.
//
// # Order
//
// All requests of one session go through its sequencer, which handles them in the
// order of their arrival. Drafts that wait for the same session share one commit.
// An event is durable before readers get it; a preview is written to the preview
// file, but not synced, before readers get it. Positions rise in the order
// in which readers receive facts and previews.
//
// # Deciding and storing
//
// Each request is handled in two functions. lookUp reads what the rules need from the store.
// decide turns state, open blocks, drafts and time into numbered, stamped and chained
// events, or a refusal. It changes only the state that it is given, does no I/O, reads no
// clock and takes no lock; the type decision holds everything that it may read. So the same
// input gives the same events on every machine and every time.
//
// The store only orders and writes commits. When it reports a commit conflict, the state is
// loaded again and the batch is decided again. When a commit fails, all requests of
// the batch get its error, because none of their events is stored. A panic of the
// rules fails only the request that caused it.
//
// # Concurrency
//
// All methods of Sessions may be called at the same time. There is no goroutine
// per session: one of the callers that wait for a sequencer handles all queued requests.
// Requests of AppendThen have no caller that waits: the goroutine that queues such a request
// decides it if the sequencer is idle, and the one that stores it answers it.
// Run handles deadlines and unfinished erasures.
package session
