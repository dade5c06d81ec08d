// Package record stores data of the server itself (grants, shares, agents of a dialect, vector collections) as events
// of system sessions, and keeps what follows from the events in memory. There are two kinds:
//
//   - [Logs]: one system session is folded into one value. For data that is never deleted, such as grants.
//   - [Sets]: each record has a system session of its own, so that all of it can be erased. For data that a
//     person can delete, such as the agents of a dialect.
//
// # Invariants
//
//   - A value in memory is the fold of a prefix of the log, in the log's order. New events are read before every use.
//     A set reads those of its index; [Sets.Published] says which sessions of records have new ones.
//   - A change is durable when the call that makes it returns. When the call fails, the change may be durable or not;
//     an idempotency key, or a look at the value, makes it safe to repeat.
//   - Changes of one log or set run one after the other, so a check inside a change holds until its events are stored.
//     If another node adds an event to a log meanwhile, a change of a log is decided again.
//   - Looking at a log that was never written leaves nothing in memory, so anonymous requests may do so. When there are
//     more than maxLogs, the one that was unused for longest leaves memory. A set stays.
//
// # Order of commits in a set
//
// The index session of a workspace names the records and holds no text of people. The session of a record holds its
// fields.
//
// Creating a record takes two commits: the index gets an entry that names the record, then its session gets the fields.
// Changing it takes one: its session gets all fields again. Deleting a record takes these steps:
//
//  1. the index gets an entry "leaving" for the record and for each record that is deleted with it, in one commit;
//     from now on none of them is found
//  2. the conversation that the record describes is erased, then the session of the record
//  3. the index gets an entry "gone"
//
// Every step can be repeated. When the process ends between two steps, the next one finishes: [Sets.Run] deletes
// records with an entry "leaving" but none "gone", records that were named but never written, and records of
// conversations that were erased while no process was listening.
package record
