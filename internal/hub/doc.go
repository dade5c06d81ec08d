// Package hub delivers sessions live. A watch is replay and live in one loop: a
// reader that is behind is only a reader with a smaller cursor.
//
// # What is promised
//
// Every reader of a session gets every event after its cursor exactly once, in
// the order of the sequence and without a hole, whatever happens in between: it
// may be slow, fall out of memory and be served from the log, or join while
// events are being published.
//
// Of every block that is being written a reader gets the text from the offset in
// its cursor on, as pieces that join byte by byte, until the event that finishes
// the block replaces it. A piece is cut where a reader already has a part of it,
// and never inside a character: a cursor that points into one is moved back to
// its beginning. A reader that claims more of a block than there is gets nothing
// of the block until it has grown past the claim. Old events are sent without the
// pieces of blocks that are already finished, and pieces of a block never follow
// the event that finished it. A reader that falls behind or resumes late may
// therefore see a block only as the finished event.
//
// A piece is passed on only if it continues its block. One that overlaps is cut,
// one that leaves a hole is refused and counted.
//
// The cursor after an entry is part of the entry. While a reader catches up the
// shared cursors are plain sequences, because such readers differ in what they
// have of the open blocks; once it is live they also hold how much there is of
// every open block. Resuming from the cursor of any entry that arrived whole
// gives the same events and the same texts as not having been cut.
//
// For an encoding that asks for it (chat.Grouper) pieces that follow each other in
// one block, and have not been encoded yet, become one. Only neighbours do, so that
// the cursor and the position after it still stand for all before.
//
// Events reach readers only after they were published, and they are published
// when they are durable. A watch that begins at the same moment may find an
// event in the log a little before it is published; it is delivered once, and
// pieces that are published before it but after the watch began follow it then.
// So with Start.ByPosition positions rise without exception only if a publisher
// passes a piece on before it stores the next event.
//
// # Memory
//
// Entries are encoded once per session and encoding, when the first reader needs
// them, into segments that all readers share; a reader gets a slice of a segment
// and writes it. Readers that catch up from the tail share another set of
// segments, which holds events alone. Per watched session the newest events are
// kept up to Options.Tail and Options.TailBytes; what all readers have taken of
// the live stream is dropped. A slow reader holds the one segment, or page of the
// log, that it is writing; when it is out of the bounds it goes on from the log.
// Open blocks are kept whether or not anybody watches: chat.MaxBlock of text each,
// and 16 bytes for each piece. Nothing here grows with the length of a session.
//
// # Concurrency
//
// The hub has no goroutines that stay. A watch runs in the goroutine that ranges
// over it; one that is followed has a goroutine only while something happens, and
// a second longer. Publish wakes the watches that wait, without waiting for them. A
// session with many readers is woken in pauses while much is published, by a
// timer (see pace). There are
// two kinds of lock: Hub.mu over the table of sessions, and one per session. Who
// needs both takes Hub.mu first. Neither is held while the log is read or a
// batch is being written; encodings are called under the session's lock.
package hub
