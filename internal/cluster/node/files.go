package node

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/keylock"
	"github.com/parley-hq/parley/internal/session"
)

// Files is the file store of a node. The log says which files a session has: their paths, sizes and hashes are stored with the
// events that report them, and are the same on all nodes. The bytes are in a store of their own before the log refers to them:
// on the disks of at least two nodes, see diskBlobs, or in a store that all nodes share.
//
// Bytes that no file of the session refers to are removed, except while they are pinned: by an upload that is not committed yet, or
// by a request that copies them. Bytes of a shared store are referred to by exactly one commit, so it does not
// matter which of the nodes removes them, and when. A node notes them on its disk before they are stored, and before they are removed,
// so that it continues after a kill.
type Files struct {
	node  *Node
	blobs artifact.Blobs
	disk  *diskBlobs      // the same as blobs, or nil if the nodes share a store
	notes *artifact.Local // has notes of bytes in a shared store that may have to be removed
	log   *slog.Logger

	removing keylock.Locks // by blob: held while it is checked whether bytes are removed

	mu     sync.Mutex
	pins   map[blob]int
	forks  map[chat.SessionID][]chat.FileInfo // the files of forks that this node is storing
	unused []blob                             // may have to be removed
	later  int                                // blobs that are added to unused later
	wake   chan struct{}
}

// blob names bytes.
type blob struct {
	session chat.SessionID
	key     string // see artifact.Blobs
}

const (
	// maxForkFiles is the number of files that are stored in one change.
	maxForkFiles = 1000
	// maxLater is the number of blobs that wait to be checked.
	maxLater = 100_000
)

func newFiles(n *Node, local *artifact.Local, shared artifact.Blobs) *Files {
	f := &Files{node: n, blobs: shared, notes: local, log: n.log, pins: map[blob]int{}, forks: map[chat.SessionID][]chat.FileInfo{}, wake: make(chan struct{}, 1)}
	if shared == nil {
		f.disk = newDiskBlobs(n, local, f.pin)
		f.blobs = f.disk
	}
	return f
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
	if !there && (err == nil || chat.CodeOf(err) == chat.NotFound) {
		caught := f.node.catchUp(ctx, f.node.partOf(id))
		if info, there, err = f.node.opt.Journal.File(ctx, id, path); !there && !caught {
			return chat.FileInfo{}, session.ErrBehind
		}
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
	body, err := f.blobs.Get(ctx, id, info)
	if chat.CodeOf(err) == chat.NotFound { // the path may have got other bytes meanwhile
		f.node.catchUp(ctx, f.node.partOf(id))
		was := f.blobs.Key(info)
		if info, err = f.Stat(ctx, id, path); err == nil && f.blobs.Key(info) == was {
			err = chat.Errorf(chat.Internal, "the bytes of artifact %q are missing in the store of files", path)
		} else if err == nil {
			body, err = f.blobs.Get(ctx, id, info)
		}
	}
	if err != nil {
		return nil, chat.FileInfo{}, err
	}
	return body, info, nil
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

// Put stores body under a path. The bytes are stored before w.Commit is called, which stores the path with its event. Without it
// Put stores the path.
func (f *Files) Put(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, w core.FileWrite) (chat.FileInfo, error) {
	if w.IfAbsent {
		if _, there, err := f.node.opt.Journal.File(ctx, id, path); err == nil && there {
			return chat.FileInfo{}, chat.Errorf(chat.Conflict, "there is an artifact %q already", path)
		}
	}
	p := &pinned{files: f, session: id}
	info, err := f.blobs.Put(ctx, id, path, mediaType, body, w.Max, func(info chat.FileInfo) error {
		if err := p.take(info); err != nil {
			return err
		}
		// A session that is erased later has its bytes removed by the erasure.
		if _, _, err := f.node.opt.Journal.File(ctx, id, path); chat.CodeOf(err) == chat.Gone {
			return chat.Errorf(chat.Gone, "the session was erased while the artifact was being sent")
		}
		return nil
	})
	if err != nil {
		p.unpin()
		return chat.FileInfo{}, err
	}
	if w.Commit != nil {
		err = w.Commit(info)
	} else {
		err = f.name(ctx, id, []chat.FileInfo{info}, w.IfAbsent)
	}
	p.release(err)
	if err != nil {
		return chat.FileInfo{}, err
	}
	return info, nil
}

// pinned are bytes of a session that a request has stored and the log does not name yet.
type pinned struct {
	files   *Files
	session chat.SessionID
	ends    []func()
}

// take pins the bytes of a file that is about to be stored.
func (p *pinned) take(info chat.FileInfo) error {
	b := blob{p.session, p.files.blobs.Key(info)}
	if p.files.disk == nil {
		if err := p.files.notes.NoteBlob(b.session, b.key); err != nil {
			return err
		}
	}
	p.ends = append(p.ends, p.files.pin(b))
	return nil
}

// unpin ends the pins.
func (p *pinned) unpin() {
	for _, end := range p.ends {
		end()
	}
}

// release ends the pins after a commit. When its error does not say whether it is stored, they end later.
func (p *pinned) release(err error) {
	switch chat.CodeOf(err) {
	case "", chat.Invalid, chat.Denied, chat.NotFound, chat.Conflict, chat.Gone, chat.TooLarge, chat.SlowDown:
		p.unpin()
	default:
		time.AfterFunc(p.files.node.opt.Pin, p.releaseLater)
	}
}

// releaseLater ends the pins when this node has applied what the owner of the session has.
func (p *pinned) releaseLater() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n := p.files.node
	if _, err := n.send(ctx, n.partOf(p.session), message{kind: msgAt}, true)(); err != nil {
		time.AfterFunc(p.files.node.opt.Pin, p.releaseLater)
		return
	}
	p.unpin()
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

// Copy copies a file to a path that is free.
func (f *Files) Copy(ctx context.Context, from chat.SessionID, source string, to chat.SessionID, target string) (chat.FileInfo, error) {
	if err := errors.Join(to.Validate(), artifact.CheckPath(target)); err != nil {
		return chat.FileInfo{}, chat.Public(err)
	}
	info, err := f.Stat(ctx, from, source)
	if err != nil {
		return chat.FileInfo{}, err
	}
	p := &pinned{files: f, session: to}
	copied, err := f.blobs.Copy(ctx, from, to, []chat.FileInfo{info}, p.take)
	if err != nil {
		p.unpin()
		return chat.FileInfo{}, err
	}
	info = copied[0]
	info.Path = target
	err = f.name(ctx, to, []chat.FileInfo{info}, true)
	p.release(err)
	return info, err
}

// CopySession copies all files of a session to a new one and adds others. The import that commit makes stores their paths.
func (f *Files) CopySession(ctx context.Context, from, to chat.SessionID, added []core.FilePut, commit func() error) (err error) {
	infos, _, err := f.List(ctx, from, "", "", 0)
	if err != nil {
		return err
	}
	p := &pinned{files: f, session: to}
	if infos, err = f.blobs.Copy(ctx, from, to, infos, p.take); err != nil {
		p.unpin()
		return err
	}
	for _, file := range added {
		info, err := f.blobs.Put(ctx, to, file.Path, file.MediaType, file.Body, file.Max, p.take)
		if err != nil {
			p.unpin()
			return err
		}
		infos = slices.Insert(slices.DeleteFunc(infos, func(old chat.FileInfo) bool { return old.Path == info.Path }), 0, info)
	}
	defer func() { p.release(err) }()
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

// DeleteSession removes the bytes of a session. Each node does that when it has applied the erasure.
func (f *Files) DeleteSession(ctx context.Context, id chat.SessionID) (count int, bytes int64, err error) {
	count, bytes, err = f.blobs.DeleteSession(ctx, id)
	if err == nil && f.disk == nil {
		err = f.notes.ForgetBlobs(id)
	}
	return count, bytes, err
}

// FinishChanges ends removals of bytes that the last process did not finish.
func (f *Files) FinishChanges(ctx context.Context, _ func(core.FileChange) (bool, error)) error {
	if f.disk == nil {
		return nil
	}
	return f.disk.local.FinishChanges(ctx, func(c core.FileChange) (bool, error) {
		named, err := f.named(ctx, blob{c.Session, c.Path})
		return !named, err
	})
}
