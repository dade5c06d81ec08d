// Package record stores data of the server itself (grants, shares, agents of a dialect, vector collections) as events
// of system sessions, and keeps what follows from the events in memory. It has two forms:
//
//   - [Logs]: one system session is folded into one value. For data that is kept for good, such as grants.
//   - [Sets]: each record has a system session of its own, so that it can be erased without a trace. For data that a
//     person can delete, such as the agents of a dialect.
//
// # Invariants
//
//   - The log decides. A value in memory is always the fold of a prefix of the log, in the log's order. Before every
//     use the new events are read, so a change whose answer was lost is seen by the next use.
//   - A change is durable when the call that makes it returns. When the call fails, the change may be durable or not;
//     an idempotency key, or a look at the value, makes it safe to repeat.
//   - Changes of one log or set run one after the other. A change sees all changes before it, so a check inside a
//     change holds until its events are stored. The process that has the data folder open is the only writer.
//   - Looking at a log that was never written leaves nothing in memory, so anonymous requests may do so. When there are
//     more than [MaxLogs], the one that was unused for longest leaves memory. A set is small and stays: there is one for
//     each workspace whose callers use it.
//
// # Order of commits in a set
//
// The index session of a workspace names the records and holds no text of people. The session of a record holds its
// fields.
//
// Creating a record takes two commits:
//
//  1. the index gets an entry that names the record
//  2. the session of the record is created and gets the fields
//
// Changing a record takes one: its session gets all fields again.
//
// Deleting a record takes these steps:
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
