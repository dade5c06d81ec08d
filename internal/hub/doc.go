// Package hub delivers the events and previews of sessions to readers. Replay and live
// delivery are one loop: a reader that is behind is a reader with a smaller cursor.
//
// # Types
//
// Hub has a topic for each session that has readers, open blocks or a tail in memory.
// A topic has the tail (the newest events), the live ring (entries for readers that
// have caught up) and the open blocks. A reader is one watch. A codec keeps the
// encoded bytes of one encoding for all readers that use it.
//
// # Guarantees
//
// Every reader of a session gets every event after its cursor exactly once, in the
// order of the sequence and without a gap: also when it is slow, falls behind what
// is in memory and is served from the log, or joins while events are published.
//
// Of every open block a reader gets the text from the offset in its cursor on, as
// pieces that join byte by byte, until the event that finishes the block replaces it.
// A piece is cut where a reader already has a part of it, and never inside a
// character: a cursor that points into one is moved back to its beginning. A reader
// whose cursor has more of a block than there is gets nothing of the block until it
// has grown past the cursor. Old events are sent without the pieces of blocks that are
// already finished, and pieces of a block never follow the event that finished it. A
// reader that falls behind or resumes late may therefore get a block only as the
// finished event.
//
// A piece is published only if it continues its block. One that overlaps is cut, one
// that leaves a gap is refused and counted.
//
// The cursor after an entry is part of the entry. While a reader catches up the shared
// cursors are plain sequences, because such readers differ in what they have of the
// open blocks; once it is live they also contain how much there is of every open
// block. Resuming from the cursor of any entry that arrived completely gives the same
// events and the same texts as a connection that was not interrupted.
//
// For an encoding that implements core.Grouper, adjacent pieces of one block that were
// not encoded yet are joined into one. The cursor and the position after the joined
// piece are those of the last one.
//
// Events are published when they are durable. A watch that begins at the same moment
// may find an event in the log a little before it is published; the event is delivered
// once, and pieces that are published before it but after the watch began follow it
// then. So with Start.ByPosition positions rise without exception only if a publisher
// publishes a piece before it stores the next event.
//
// # Memory
//
// Entries are encoded once per session and encoding, when the first reader needs them,
// into segments that all readers share; a reader gets a slice of a segment and writes
// it. Readers that catch up from the tail share another set of segments, which has
// events alone. Encoded for one reader are pages from the log, what a joining reader lacks
// of open blocks, and everything for the only reader of an encoding. Per
// watched session the newest events are kept up to Options.Tail and
// Options.TailBytes; entries of the live ring that all readers have taken are dropped.
// A slow reader holds the one segment, or page of the log, that it is writing; beyond
// the bounds it continues from the log. It does not delay other readers or publishers.
// If one write takes longer than 30 s, package wire closes its connection
// (wire.DefaultWriteTimeout); the client reconnects with its cursor. Open blocks are kept with or without readers:
// at most chat.MaxBlock of text each, and 16 bytes for each piece. Nothing here grows
// with the length of a session.
//
// # Concurrency
//
// The hub has no permanent goroutines. A watch runs in the goroutine that ranges over
// it; a followed reader has a goroutine only while there is something to write, and a
// second longer. A followed reader whose sink takes batches without waiting
// (core.TrySink) has a goroutine only while it is behind: Publish itself gives the batch
// to a few such readers, and one goroutine to each 32 of many. Publish wakes the other
// readers that wait, without waiting for them. The
// readers of a session with many readers are woken in intervals while much is
// published, by a timer (see pace.go). There are two kinds of lock: Hub.mu over the
// table of sessions, and one per session. Hub.mu is taken first when both are needed.
// Neither is held while the log is read or a batch is written; encodings are called
// with or without the session's lock.
package hub
