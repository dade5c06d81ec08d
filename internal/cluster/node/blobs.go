package node

import (
	"context"
	"slices"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/journal"
)

// pin keeps bytes on this node until unpin is called.
func (f *Files) pin(b blob) (unpin func()) {
	f.mu.Lock()
	f.pins[b]++
	f.mu.Unlock()
	f.removing.Lock(b.String())() // a removal that did not see the pin has ended
	return func() {
		f.mu.Lock()
		f.pins[b]--
		last := f.pins[b] == 0
		if last {
			delete(f.pins, b)
		}
		f.mu.Unlock()
		if last {
			f.checkUnused(b)
		}
	}
}

// checkUnused makes run remove bytes if nothing needs them. Those of a shared store have some time: a reader that has found a
// path opens its bytes, and a change that is repeated finds them.
func (f *Files) checkUnused(list ...blob) {
	if f.disk == nil {
		f.checkLater(list...)
	} else {
		f.check(list...)
	}
}

func (b blob) String() string { return string(b.session) + "/" + b.key }

// check makes run remove bytes if nothing needs them.
func (f *Files) check(list ...blob) {
	if len(list) == 0 {
		return
	}
	f.mu.Lock()
	f.unused = append(f.unused, list...)
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// checkLater is check after a while. When too many wait, the bytes stay until the session is erased.
func (f *Files) checkLater(list ...blob) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(list) == 0 || f.later >= maxLater {
		return
	}
	f.later += len(list)
	time.AfterFunc(f.node.opt.Unused, func() {
		f.mu.Lock()
		f.later -= len(list)
		f.mu.Unlock()
		f.check(list...)
	})
}

// continueRemoving checks the bytes that an earlier process has noted, when this node knows what became of its commits.
func (f *Files) continueRemoving() {
	noted, err := f.notes.NotedBlobs()
	if err != nil {
		f.log.Warn("notes about bytes of artifacts could not be read; those that are not needed stay until their session is erased", "err", err)
	}
	for id, keys := range noted {
		p := &pinned{files: f, session: id}
		for _, key := range keys {
			p.ends = append(p.ends, f.pin(blob{id, key}))
		}
		time.AfterFunc(f.node.opt.Pin, p.releaseLater)
	}
}

// run removes bytes that nothing needs until ctx ends.
func (f *Files) run(ctx context.Context) {
	if f.disk == nil {
		f.continueRemoving()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		}
		f.mu.Lock()
		list := f.unused
		f.unused = nil
		f.mu.Unlock()
		for _, b := range list {
			if err := f.removeUnused(ctx, b); err != nil && ctx.Err() == nil {
				f.log.Warn("bytes of a removed artifact could not be removed; trying again", "session", b.session, "key", b.key, "err", err)
				f.checkLater(b)
			}
		}
	}
}

func (f *Files) removeUnused(ctx context.Context, b blob) error {
	if f.disk != nil { // bytes of a shared store get no pin after they were stored
		defer f.removing.Lock(b.String())()
	}
	f.mu.Lock()
	pinned := f.pins[b] > 0
	f.mu.Unlock()
	if pinned {
		return nil // it is checked again with the end of the pin
	}
	named, err := f.named(ctx, b)
	if err == nil && !named {
		err = f.blobs.Remove(ctx, b.session, b.key)
	}
	if err == nil && f.disk == nil {
		err = f.notes.ForgetBlob(b.session, b.key)
	}
	return err
}

// named reports whether a file of the session refers to these bytes.
func (f *Files) named(ctx context.Context, b blob) (bool, error) {
	infos, err := f.node.opt.Journal.Files(ctx, b.session)
	if code := chat.CodeOf(err); code == chat.NotFound || code == chat.Gone {
		return false, nil
	}
	return slices.ContainsFunc(infos, func(info chat.FileInfo) bool { return f.blobs.Key(info) == b.key }), err
}

// changes are the files that a frame of changes adds, and the bytes that files may no longer refer to when it is applied.
type changes struct{ added, unused []blob }

// changed returns what changes do to files. It is called before they are applied.
func (f *Files) changed(list []journal.Change) (all changes) {
	if f == nil {
		return all
	}
	for _, c := range list {
		var id chat.SessionID
		var infos []chat.FileInfo
		switch c := c.(type) {
		case *journal.CommitChange:
			id, infos = c.Session, c.Files
		case *journal.FilesChange:
			id, infos = c.Session, c.Files
		case *journal.ImportChange:
			id, infos = c.Session, c.Files
		}
		for _, info := range infos {
			if old, there, err := f.node.opt.Journal.File(context.Background(), id, info.Path); err == nil && there {
				all.unused = append(all.unused, blob{id, f.blobs.Key(old)})
			}
			if info.SHA256 != "" {
				all.added = append(all.added, blob{id, f.blobs.Key(info)})
			}
		}
	}
	if len(all.added) > 1 { // a path may get other bytes twice in one frame
		all.unused = append(all.unused, all.added...)
	}
	return all
}

// applied is called when changes are applied.
func (f *Files) applied(all changes) {
	if f == nil {
		return
	}
	if f.disk != nil {
		f.disk.named(all.added)
	}
	if f.disk == nil {
		for _, b := range all.unused {
			if err := f.notes.NoteBlob(b.session, b.key); err != nil {
				f.log.Warn("bytes of a removed artifact stay until their session is erased if this node is killed now", "session", b.session, "err", err)
			}
		}
	}
	f.checkUnused(all.unused...)
}
