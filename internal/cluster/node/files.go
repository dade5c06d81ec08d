package node

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/keylock"
)

// Files is the file store of a node. The log says which files a session has: their paths, sizes and hashes are stored with the
// events that report them, and are the same on all nodes. The bytes are stored by session and hash on the disks of at least two
// nodes before the log names them. A node that does not have them gets them from another node, checks their hash and keeps
// them.
//
// Bytes that no path of the session has are removed, except while they are pinned: by an upload that is not committed yet, or
// by a request that copies them.
type Files struct {
	node  *Node
	local *artifact.Local
	log   *slog.Logger

	removing keylock.Locks // by blob: held while it is checked whether bytes are removed

	mu      sync.Mutex
	pins    map[blob]int
	held    map[blob][]func() // the pins of bytes that this node keeps for others, until the log names them
	flights map[blob]*flight
	forks   map[chat.SessionID][]chat.FileInfo // the files of forks that this node is storing
	unused  []blob                             // may have to be removed
	wake    chan struct{}
	reads   chan struct{} // bounds the chunks that are read for other nodes at the same time
}

// blob names bytes.
type blob struct {
	session chat.SessionID
	hash    string
}

const (
	// pinTime is how long bytes are kept for a commit of which this node does not know the outcome.
	pinTime = 2 * time.Minute
	// maxForkFiles is the number of files that are stored in one change.
	maxForkFiles = 1000
)

func newFiles(n *Node, local *artifact.Local) *Files {
	return &Files{
		node: n, local: local, log: n.log, pins: map[blob]int{}, held: map[blob][]func(){}, flights: map[blob]*flight{}, forks: map[chat.SessionID][]chat.FileInfo{},
		wake: make(chan struct{}, 1), reads: make(chan struct{}, 32),
	}
}

// Files returns the file store, or nil if Options has none.
func (n *Node) Files() *Files { return n.files }

func notFound(path string) error {
	return chat.Errorf(chat.NotFound, "the session has no artifact %q", path)
}

// Stat returns the record of a path.
func (f *Files) Stat(ctx context.Context, id chat.SessionID, path string) (chat.FileInfo, error) {
	if err := errors.Join(id.Validate(), artifact.CheckPath(path)); err != nil {
		return chat.FileInfo{}, chat.Public(err)
	}
	info, there, err := f.node.opt.Journal.File(ctx, id, path)
	if !there && (err == nil || chat.CodeOf(err) == chat.NotFound) && f.node.CatchUp(ctx, id) {
		info, there, err = f.node.opt.Journal.File(ctx, id, path)
	}
	if code := chat.CodeOf(err); !there && (err == nil || code == chat.NotFound || code == chat.Gone) {
		err = notFound(path)
	}
	return info, err
}

// Get opens the bytes of a path.
func (f *Files) Get(ctx context.Context, id chat.SessionID, path string) (io.ReadSeekCloser, chat.FileInfo, error) {
	info, err := f.Stat(ctx, id, path)
	if err != nil {
		return nil, chat.FileInfo{}, err
	}
	b := blob{id, info.SHA256}
	defer f.pin(b)()
	file, _, err := f.local.Get(ctx, id, info.SHA256)
	if err != nil && ctx.Err() == nil {
		if chat.CodeOf(err) != chat.NotFound {
			f.log.Warn("the bytes of an artifact are damaged on this node; getting them from another one", "session", id, "path", path, "err", err)
			if err := f.local.RemoveBytes(ctx, id, info.SHA256); err != nil {
				f.log.Warn("damaged bytes could not be removed", "session", id, "path", path, "err", err)
			}
		}
		if err = f.fetch(ctx, b, info.Size, f.node.present()); err == nil {
			file, _, err = f.local.Get(ctx, id, info.SHA256)
		}
	}
	if err != nil {
		return nil, chat.FileInfo{}, err
	}
	return &reading{ReadSeekCloser: file, files: f, of: b, path: path}, info, nil
}

// reading is an open file. When its bytes turn out to be damaged they are removed, so that the next reader gets them from
// another node.
type reading struct {
	io.ReadSeekCloser
	files *Files
	of    blob
	path  string
}

// Read implements io.Reader.
func (r *reading) Read(p []byte) (int, error) {
	n, err := r.ReadSeekCloser.Read(p)
	if chat.CodeOf(err) == chat.Internal && !errors.Is(err, io.EOF) {
		r.files.log.Warn("the bytes of an artifact are damaged on this node", "session", r.of.session, "path", r.path, "err", err)
		if err := r.files.local.RemoveBytes(context.Background(), r.of.session, r.of.hash); err != nil {
			r.files.log.Warn("damaged bytes could not be removed", "err", err)
		}
		err = chat.Errorf(chat.Internal, "artifact %q is damaged on this node; read it again to get it from another node", r.path).Because(err)
	}
	return n, err
}

// List returns the files of a session in the order of their paths.
func (f *Files) List(ctx context.Context, id chat.SessionID, prefix, after string, limit int) (infos []chat.FileInfo, more bool, err error) {
	if err := id.Validate(); err != nil {
		return nil, false, err
	}
	all, err := f.node.opt.Journal.Files(ctx, id)
	if code := chat.CodeOf(err); err != nil && code != chat.NotFound && code != chat.Gone {
		return nil, false, err
	}
	infos = []chat.FileInfo{}
	for _, info := range all {
		if !strings.HasPrefix(info.Path, prefix) || info.Path <= after {
			continue
		}
		if limit > 0 && len(infos) == limit {
			return infos, true, nil
		}
		infos = append(infos, info)
	}
	return infos, false, nil
}

// Usage returns the number and the size of a session's files.
func (f *Files) Usage(ctx context.Context, id chat.SessionID) (count int, bytes int64, err error) {
	infos, _, err := f.List(ctx, id, "", "", 0)
	for _, info := range infos {
		bytes += info.Size
	}
	return len(infos), bytes, err
}

// Put stores body under a path. The bytes are on two nodes before w.Commit is called, which stores the path with its event.
// Without it Put stores the path.
func (f *Files) Put(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, w chat.FileWrite) (chat.FileInfo, error) {
	if w.IfAbsent {
		if _, there, err := f.node.opt.Journal.File(ctx, id, path); err == nil && there {
			return chat.FileInfo{}, chat.Errorf(chat.Conflict, "there is an artifact %q already", path)
		}
	}
	if len(f.node.present()) == 0 { // refuse before the body is read
		return chat.FileInfo{}, errAlone
	}
	unpin := func() {}
	info, err := f.local.PutBytes(ctx, id, path, mediaType, body, w.Max, func(info chat.FileInfo) error {
		unpin = f.pin(blob{id, info.SHA256})
		return nil
	})
	if err == nil {
		err = f.copyToOther(ctx, id, "", []chat.FileInfo{info})
	}
	if err != nil {
		unpin()
		return chat.FileInfo{}, err
	}
	if w.Commit != nil {
		err = w.Commit(info)
	} else {
		err = f.name(ctx, id, []chat.FileInfo{info}, w.IfAbsent)
	}
	f.release(unpin, err)
	if err != nil {
		return chat.FileInfo{}, err
	}
	return info, nil
}

// release ends a pin. When the error of a commit does not say whether it is stored, the pin ends later.
func (f *Files) release(unpin func(), err error) {
	switch chat.CodeOf(err) {
	case "", chat.Invalid, chat.Denied, chat.NotFound, chat.Conflict, chat.Gone, chat.TooLarge, chat.SlowDown:
		unpin()
	default:
		time.AfterFunc(pinTime, unpin)
	}
}

// name stores paths without an event.
func (f *Files) name(ctx context.Context, id chat.SessionID, infos []chat.FileInfo, ifAbsent bool) error {
	return f.node.submit(ctx, f.node.partOf(id), &journal.FilesChange{Session: id, Files: infos, IfAbsent: ifAbsent}, !ifAbsent)
}

// Named stores the path of a file after commit has stored the event that reports it. It is for events that do not carry the
// path's change themselves.
func (f *Files) Named(ctx context.Context, id chat.SessionID, info chat.FileInfo, commit func() error) error {
	if err := commit(); err != nil {
		return err
	}
	return f.name(context.WithoutCancel(ctx), id, []chat.FileInfo{info}, false)
}

// Remove removes a path: commit stores its removal with the event. The nodes remove the bytes when they apply it.
func (f *Files) Remove(ctx context.Context, id chat.SessionID, path string, _ chat.Seq, commit func(chat.FileInfo) error) error {
	info, err := f.Stat(ctx, id, path)
	if err != nil {
		return err
	}
	return commit(info)
}

// Copy copies a file to a path that is free. Within a session only the log changes.
func (f *Files) Copy(ctx context.Context, from chat.SessionID, source string, to chat.SessionID, target string) (chat.FileInfo, error) {
	if err := errors.Join(to.Validate(), artifact.CheckPath(target)); err != nil {
		return chat.FileInfo{}, chat.Public(err)
	}
	info, err := f.Stat(ctx, from, source)
	if err != nil {
		return chat.FileInfo{}, err
	}
	defer f.pin(blob{to, info.SHA256})()
	if from != to {
		if err := f.copyBytes(ctx, from, to, []chat.FileInfo{info}); err != nil {
			return chat.FileInfo{}, err
		}
	}
	info.Path = target
	return info, f.name(ctx, to, []chat.FileInfo{info}, true)
}

// CopySession copies all files of a session to a new one. The import that commit makes stores their paths.
func (f *Files) CopySession(ctx context.Context, from, to chat.SessionID, commit func() error) error {
	infos, _, err := f.List(ctx, from, "", "", 0)
	if err != nil {
		return err
	}
	for _, info := range infos {
		defer f.pin(blob{to, info.SHA256})()
	}
	if err := f.copyBytes(ctx, from, to, infos); err != nil {
		return err
	}
	first := infos[:min(len(infos), maxForkFiles)]
	f.mu.Lock()
	f.forks[to] = first
	f.mu.Unlock()
	err = commit()
	f.mu.Lock()
	delete(f.forks, to)
	f.mu.Unlock()
	for rest := infos[len(first):]; err == nil && len(rest) > 0; {
		n := min(len(rest), maxForkFiles)
		err = f.name(context.WithoutCancel(ctx), to, rest[:n], false)
		rest = rest[n:]
	}
	return err
}

// forked returns the files that the import of a fork has to store.
func (f *Files) forked(id chat.SessionID) []chat.FileInfo {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.forks[id]
}

// Merge lets the files of folders appear under another folder as well, see artifact.Local.Merge.
func (f *Files) Merge(ctx context.Context, id chat.SessionID, folders []string, into string) ([]string, error) {
	return artifact.Merge(ctx, f, id, folders, into)
}

// DeleteSession removes the bytes of a session from this node. Each node does that when it has applied the erasure.
func (f *Files) DeleteSession(ctx context.Context, id chat.SessionID) (count int, bytes int64, err error) {
	return f.local.DeleteSession(ctx, id)
}

// FinishChanges ends removals of bytes that the last process did not finish.
func (f *Files) FinishChanges(ctx context.Context, _ func(chat.FileChange) (bool, error)) error {
	return f.local.FinishChanges(ctx, func(c chat.FileChange) (bool, error) {
		named, err := f.named(ctx, blob{c.Session, c.Path})
		return !named, err
	})
}
