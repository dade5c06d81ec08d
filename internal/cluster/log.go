package cluster

import (
	"context"
	"errors"
	"iter"
)

// Log orders the frames of each partition and stores them on a majority of the nodes. Its methods may be called at the same
// time.
type Log interface {
	// Append adds a frame at the end of a partition's log. After nil a majority of the nodes has the frame: on
	// disk, unless the server runs without fsync (--sync). After an error
	// it is not known whether the frame is stored: it may be in the log already, get there later, or never.
	Append(ctx context.Context, part int, frame []byte) error

	// Tail returns the entries after a position, in order, without gaps and without repeats, and waits for new ones. It ends
	// with an error: that of ctx, ErrTrimmed, ErrShort, or one that says why the log cannot be read. It bridges lost connections
	// and changes of the log's leader itself.
	Tail(ctx context.Context, part int, after Pos) iter.Seq2[Entry, error]

	// Trim removes the entries up to a position. Positions of other entries do not change.
	Trim(ctx context.Context, part int, upTo Pos) error

	// Ends returns the positions of the first and the last entry. In an empty log first is last+1. While the log changes its
	// leader, the answer may be older than the last Append.
	Ends(ctx context.Context, part int) (first, last Pos, err error)
}

// Limited is a Log that may take smaller records than MaxRecord.
type Limited interface{ MaxRecord() int }

// Stored is a Log that knows which servers store a partition, also those that are down. Their names are those of the nodes.
type Stored interface {
	Servers(ctx context.Context, part int) ([]string, error)
}

// Sized is a Log that knows how many bytes the log of a partition takes.
type Sized interface {
	Size(ctx context.Context, part int) (bytes int64, err error)
}

// Renewable is a Log that can replace the log of a partition by an empty one whose first position is after+1. If it fails, the
// partition may have its log, none, or an empty one.
type Renewable interface {
	Renew(ctx context.Context, part int, after Pos) error
}

// Entry is a frame at its position.
type Entry struct {
	Pos   Pos
	Frame []byte // must not be changed
}

var (
	// ErrTrimmed means that the log no longer has the entry after the position. The node needs a copy from another node.
	ErrTrimmed = errors.New("the log of the partition no longer has the next frame")

	// ErrShort means that the log ends before a position that was read from it earlier. The log lost what a majority had stored.
	ErrShort = errors.New("the log of the partition ends before what was read from it earlier")
)
