package artifact

import (
	"github.com/parley-hq/parley/chat"
)

// Info describes one file.
type Info = chat.FileInfo

// PutOptions are the options of one Put.
type PutOptions = chat.FileWrite

// Options of a store. The zero value works.
type Options struct {
	Max  int64                   // most bytes of one file; 0 means DefaultMax
	Now  func() chat.At          // the clock; nil means the system's
	Room func(bytes int64) error // called with the number of bytes that were written, 0 before the first; an error means that there is no room. nil means no limit

	// Changed is called with how many bytes the files of a session have grown, or less
	// than 0 when they have shrunk, before a change that is part of the log is settled.
	// nil means none.
	Changed func(session chat.SessionID, bytes int64)
}

// DefaultMax is the default of Options.Max.
const DefaultMax = 1 << 30
