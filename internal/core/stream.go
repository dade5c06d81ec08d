package core

import (
	"time"

	"github.com/parley-hq/parley/chat"
)

// Entry is one element of a session's stream: a fact, or a piece of an open block.
type Entry struct {
	Session chat.SessionID
	At      chat.At
	Fact    chat.Fact     // Seq is 0 for a piece
	Label   chat.Label    // of the fact
	Block   chat.BlockID  // the block that the fact finishes, or ""
	Piece   *chat.Preview // nil for a fact
	Cursor  chat.Cursor   // what a reader has after this entry; filled in by the hub
}

// Encoding turns entries into the bytes of a dialect. Readers of a session share
// the bytes where they can, so they must not depend on the reader. Either method may
// append nothing. They are called by several goroutines at once, with or without a
// lock of the session: no I/O, and nothing of dst or e is kept.
type Encoding interface {
	// Name is the same for equal encodings: one per dialect and framing, such
	// as native/sse.
	Name() string
	AppendEvent(dst []byte, e *Entry) []byte
	AppendPiece(dst []byte, e *Entry) []byte
}

// Packer is an Encoding whose bytes are compressed once for all readers, in
// units that can follow each other in any order.
type Packer interface {
	Pack(dst, plain []byte) ([]byte, Pack)
}

// Grouper is an Encoding for which adjacent pieces of one block that wait to be sent
// are joined into one, up to Group characters; a longer piece stays alone. The joined
// piece has the position of its last piece.
type Grouper interface {
	Group() int
}

// Pack describes one compressed unit.
type Pack struct {
	Len   int    // packed bytes; set by the hub
	Size  int    // plain bytes
	Sum   uint32 // CRC-32 of the plain bytes
	Extra uint32 // for the packer
}

// Start says where a reader begins.
type Start struct {
	Cursor     *chat.Cursor  // nil: from now on, preceded by the open blocks
	Idle       time.Duration // yield an empty batch after so much time without entries; 0 means never
	ByPosition bool          // pieces of open blocks come in order of position among the events
	EveryPiece bool          // with ByPosition: pieces that were written before the watch began are not joined
	Guard      func() error  // called before every batch; an error ends the watch. nil means none
}

// Batch has the next entries for a reader. Its bytes and entries are shared: they
// must not be changed, and they are valid until the reader asks for the next batch.
type Batch struct {
	Bytes   []byte      // nil when there is no encoding
	Packs   []Pack      // units in Bytes, when the encoding packs
	Entries []Entry     // when there is no encoding
	Cursor  chat.Cursor // what the reader has after this batch
	Last    chat.Seq    // the session's last event when the batch was made
	Live    bool        // the reader has caught up
	Idle    bool        // there was no entry for the time Start.Idle
}

// Sink receives the batches of a reader. It is called by goroutines of the hub, one
// call at a time.
type Sink interface {
	// Take gets a batch, or at the end the error that ends the watch. It reports
	// whether the watch continues. A slow sink delays no other reader.
	Take(b Batch, err error) bool
	// Done is called once, after the last call of Take.
	Done()
}

// TrySink is a Sink that can take a batch without waiting. The hub then needs no
// goroutine for a reader that keeps up.
type TrySink interface {
	Sink
	// TryTake is Take for a batch of events and pieces. If it would have to wait, or
	// the watch ends, it takes nothing and returns false, and Take gets the batch.
	TryTake(b Batch) bool
}

// SessionPieces are the pieces of one session in a call that handles those of several.
type SessionPieces struct {
	Session chat.SessionID
	Named   bool // Session is a name that a client uses, which may be an alias; the call sets the id
	Pieces  []chat.Preview
	Err     error // set by the call: why the pieces were refused, all of them
}
