// Package journal is the durable log: the events of all sessions, and the indexes
// that follow from them, in one Pebble store on one machine.
//
// # Types
//
// Journal is an open store: Open, Commit, Read, Load, List, BeginErase, Import,
// Backup, Verify. Options configures it. Change is a change in a form that other nodes
// can apply; Apply stores a Frame of them. A session has a number; all its keys begin
// with a kind and that number (see keys.go). previews is the file of blocks that are
// being written, inventory the list of files that a start must find, head the cached
// end of one session's log.
//
// # Guarantees
//
// Commit stores the events of one decision as one atomic unit, or not at all. With
// SyncAlways, the default, it returns nil only after the bytes have been synced to
// disk, and no read returns an event before that. Events of a session are contiguous
// from 1. Of two commits that follow the same event exactly one succeeds; the other
// returns Conflict. There is no order between events of different sessions, and
// their commits share syncs.
//
// A write or sync error of the log is final. The commit that caused it is not
// acknowledged, every later one returns Unavailable, and Options.Fatal is called
// once, which ends the process by default: Pebble may still hold its locks. A
// restart recovers everything that was acknowledged. A commit that was not
// acknowledged is stored completely or not at all.
//
// Open compares db/ with the inventory before Pebble changes anything. When a file
// is missing, shortened, changed or replaced by an older one it returns an error that
// names the file. Accept writes a new inventory and gives up what is missing.
//
// No key contains text: ids, names and client ids are hashed into keys, so that no
// text of an erased session stays in the bounds of a table or in Pebble's manifest.
//
// # Concurrency
//
// All methods of Journal may be called at the same time, except Close, which must
// come last. Open starts no goroutine that stays; Run does the background work
// (interval sync, free-space check, compaction of the preview file, interrupted
// erasures) until its context ends. Pebble's own background work ends with Close.
//
// Commits that wait at the same time are stored in one batch by one of their callers, see
// commit_group.go.
//
// Locks, in the order in which they are taken: commitLocks (one session's commit,
// including its sync; Apply takes several, by index, and a group of commits takes several
// without waiting), createLocks (the creation of sessions that share a lock),
// alias, scrub, shard.mu (the head cache), previews.mu, inventory.saving,
// inventory.mu.
//
// # Files
//
//	DIR/db/           the Pebble store
//	DIR/db.inventory  the files that a start must find in db/, see inventory.go
//	DIR/db.synced     how much of the newest log file is on disk
//	DIR/previews/     open.log: pieces of blocks that are being written
//
// A backup has the same layout, and backup.json, which is written last. To restore
// it, copy it to DIR while no process uses DIR.
package journal
