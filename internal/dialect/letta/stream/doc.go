// Package stream turns events into the messages of Letta's API. It does no I/O of its own.
//
// An [Item] is one message as a client sees it. [Expand] makes items of a whole message, for lists. A [Feed] makes items of
// the events and previews of one run, for streams and answers. Both give an item the same id and otid.
//
// seq_id, the position of an item, is the position of the event or preview that the item shows (see chat.At). It follows
// from the log and not from the connection, so a client can resume any stream after any seq_id.
package stream
