package journal

import (
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// Change is one change of the store, in a form that can be sent to other nodes and
// applied there with the same result: *CommitChange, *AliasChange, *EraseChange,
// *FilesChange or *ImportChange.
type Change interface {
	kind() byte
	// append appends the encoding.
	append(b []byte) ([]byte, error)
	// lock names the locks that Apply holds while it stages the change.
	lock(l *lockSet)
	// stage adds the change to a batch. It returns an error of the kind that
	// isRefusal reports, and adds nothing, when the change does not fit the store.
	stage(s *staging) error
}

// CommitChange stores a commit.
type CommitChange struct {
	*core.Commit

	// Previews is the number of the last message with unfinished text that the node that decided the commit had sent to the others. The
	// journal stores nothing of it.
	Previews uint64
}

// AliasChange makes a foreign id of an actor refer to a session.
type AliasChange struct {
	Alias   AliasID
	Session chat.SessionID
	Replace bool // an alias that exists is replaced; otherwise the change is refused with Conflict
}

// AliasID is the hash of workspace, actor and foreign id.
type AliasID = keyHash

// AliasIDOf returns the hash that AliasChange has.
func AliasIDOf(workspace, actorKey, foreign string) AliasID {
	return hashOf(workspace, actorKey, foreign)
}

// EraseChange makes a session unreadable and stores the intention to erase it.
// FinishErase removes its text from the files of each node.
type EraseChange struct{ core.Erasure }

// FilesChange adds and removes files of a session. The bytes of the files are stored elsewhere.
type FilesChange struct {
	Session  chat.SessionID
	Files    []chat.FileInfo // without SHA256: the path is removed
	IfAbsent bool            // the change is refused with Conflict when one of the paths is there already
}

// ImportChange stores a part of an imported log. A part follows the one before like
// a commit. Nothing of the log is readable before its end.
type ImportChange struct {
	*core.Commit // only Session and Number with ImportDrop; the record and the checkpoint only with ImportEnd
	Step         ImportStep
}

// ImportStep says what an ImportChange does.
type ImportStep byte

// The steps.
const (
	ImportPart ImportStep = iota // more parts follow
	ImportEnd                    // the last part; the session becomes readable
	ImportDrop                   // the import was given up; what was stored is removed
)

// The kinds of changes, as they are encoded.
const (
	changeCommit     = 1
	changeAlias      = 2
	changeErase      = 3
	changeFiles      = 4
	changeImportPart = 5
	changeImportEnd  = 6
	changeImportDrop = 7
)

func (c *CommitChange) kind() byte { return changeCommit }
func (c *AliasChange) kind() byte  { return changeAlias }
func (c *EraseChange) kind() byte  { return changeErase }
func (c *FilesChange) kind() byte  { return changeFiles }
func (c *ImportChange) kind() byte { return changeImportPart + byte(c.Step) }
