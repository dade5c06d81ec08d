package core

import (
	"context"
	"io"

	"github.com/parley-hq/parley/chat"
)

// FileWrite says how a file is stored.
type FileWrite struct {
	Max      int64 // most bytes to take; 0 means the store's limit, and never more than that
	IfAbsent bool  // refuse with a conflict when the path is there already

	// Commit stores the event of the change; nil means that there is none. It is
	// called when the file is stored. If it fails, the path gets its old content
	// back. Commits of one path are called one after the other.
	Commit func(chat.FileInfo) error
	After  chat.Seq // the last event of the session; Commit stores its event after it
}

// FileChange is a change of a file, or of all files of a session, that was
// interrupted: the log may have its event or not.
type FileChange struct {
	Session chat.SessionID `json:"session"`
	Path    string         `json:"path,omitempty"` // "" means all files of a session that is a copy and may not have been created
	After   chat.Seq       `json:"after,omitempty"`
	Old     *chat.FileInfo `json:"old,omitempty"` // nil when there was none
	New     *chat.FileInfo `json:"new,omitempty"` // nil when it was removed
}

// FilePut is a file that is put into a session, see FileUploaded.
type FilePut struct {
	Path       string
	MediaType  string
	Body       io.Reader
	Max        int64
	IfAbsent   bool
	Workstream string
	Via        string
}

// StoreFunc stores a file of a session. It calls commit with the size once the file is in place; if commit fails, the path
// has its former content.
type StoreFunc func(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, commit func(size int64) error) error
