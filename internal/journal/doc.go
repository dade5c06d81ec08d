// Package journal is the durable log: every session's events, and the indexes
// that follow from them, in one Pebble store on one machine.
//
// # Promise
//
// Commit stores what the rules decided as one atomic unit, or not at all. With
// SyncAlways, the default, it returns nil only after the bytes have been synced
// to disk, and no read shows an event before that moment. Events of a session
// are contiguous from 1; of two commits that follow the same event exactly one
// succeeds and the other is told Conflict. Sessions are independent: there is
// no order between events of different sessions, and their commits share syncs.
//
// A write or sync error of the log is final. The commit that met it is not
// acknowledged, every later one is refused with Unavailable, and Options.Fatal
// is called once; a restart recovers everything that was acknowledged. Pebble
// may be left holding its locks then, so the process should end: the default
// Fatal does that. What was not acknowledged may or may not be there after the
// restart, whole in either case.
//
// # Concurrency
//
// All methods of Journal may be called at the same time, except Close, which
// must come last. The constructors start nothing of ours; Run does the
// background work (interval sync, free-space check, compaction of the preview
// file, unfinished erasures) and returns when its context ends. Pebble's own
// background work ends with Close.
//
// Locks, in the order in which they are taken: commitLocks (one session's commit, its
// sync included), createLocks (the creation of sessions that share a number), alias,
// scrub, shard.mu (a few lines on the head cache), previews.mu, inventory.saving,
// inventory.mu.
//
// # Files
//
//	DIR/db/           the Pebble store
//	DIR/db.inventory  which files a start must find in db/, see inventory.go
//	DIR/db.synced     how much of the newest log file is on disk
//	DIR/previews/     open.log: pieces of blocks that are being written
//
// Open compares db/ with the inventory before Pebble may change anything. When a
// file is missing, cut, changed or replaced by an older one it refuses, and names
// the file. Accept gives up what is missing.
//
// A backup has the same layout and backup.json beside it, written last. To
// restore one, copy it to where DIR was while no process uses it.
//
// No key holds text: ids, names and client ids are hashed into keys, so that
// nothing of an erased session can linger in the bounds of a table or in
// Pebble's manifest.
package journal
