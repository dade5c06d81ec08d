package artifact

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/sealed"
)

// A change that belongs to the log takes four steps; changes of one path do not
// overlap: a note of it is stored under changes, the name changes, the event is
// committed to the log, and the change is settled: what is not needed any more is
// removed, the note last. If the log refuses the event, settling restores what was
// there. A note of an earlier process is settled at the next start according to the
// log.

// change is a change in progress.
type change struct {
	core.FileChange
	record string // of the name
	file   string // the note; "" when there is none
	begun  bool   // the name may have changed
}

// note stores what is about to be changed.
func (l *Local) note(c *change) error {
	b, err := sealed.Marshal(c.FileChange)
	if err != nil {
		return err
	}
	dir := filepath.Join(l.dir, changesDir)
	file := filepath.Join(dir, rand.Text())
	if err := l.writeWhole(file, b); err != nil {
		return err
	}
	c.file = file
	return l.syncDir(dir)
}

// settle ends a change: stored reports whether the log has it. The caller holds the
// lock of the path.
func (l *Local) settle(c *change, stored bool) error {
	if !c.begun {
		return l.removeNote(c)
	}
	if err := l.settleName(c, stored); err != nil {
		return err // the note stays, and the next start settles it
	}
	return l.removeNote(c)
}

func (l *Local) removeNote(c *change) error {
	if c.file == "" {
		return nil
	}
	return l.remove(c.file)
}

func (l *Local) settleName(c *change, stored bool) error {
	folder := filepath.Dir(c.record)
	defer l.sessions.Lock(folder)()
	now, err := readRecord(c.record)
	if err != nil {
		return err
	}
	if !stored {
		if now, err = l.putBack(c, now); err != nil {
			return err
		}
	}
	for _, info := range []*Info{c.Old, c.New} {
		if info == nil {
			continue
		}
		file := bytesFile(c.record, info.SHA256)
		if now != nil && now.SHA256 == info.SHA256 {
			if !exists(file) && exists(file+unsettled) {
				err = l.rename(file+unsettled, file)
			}
		} else {
			err = errors.Join(l.remove(file+unsettled), l.remove(file))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// putBack restores what a name had before a change, unless another change followed or
// the session was erased, and returns the record of the name.
func (l *Local) putBack(c *change, now *Info) (*Info, error) {
	var err error
	switch {
	case c.New == nil && now == nil && l.has(c.record, c.Old.SHA256),
		c.New != nil && now != nil && *now == *c.New && c.Old != nil:
		err = l.writeRecord(c.record, *c.Old)
		now = c.Old
	case c.New != nil && now != nil && *now == *c.New:
		// Bytes without a record have the ending .part.
		if file := bytesFile(c.record, now.SHA256); exists(file) {
			err = l.rename(file, file+unsettled)
		}
		if err == nil {
			err = l.remove(c.record)
		}
		now = nil
	default:
		return now, nil
	}
	if err == nil {
		err = l.syncDir(filepath.Dir(c.record))
	}
	return now, err
}

// has reports whether the bytes of a name are there, settled or not.
func (l *Local) has(record, sum string) bool {
	return exists(bytesFile(record, sum)) || exists(bytesFile(record, sum)+unsettled)
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}

// Remove removes a path from the session; commit makes that part of the log. When it
// fails the path stays as it was.
func (l *Local) Remove(ctx context.Context, session chat.SessionID, path string, after chat.Seq, commit func(Info) error) error {
	if err := check(session, path); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	record := filepath.Join(l.folder(session), key(path))
	defer l.paths.Lock(record)()
	c := &change{record: record, FileChange: core.FileChange{Session: session, Path: path, After: after}}
	err := l.hide(c)
	if err == nil {
		err = commit(*c.Old)
	}
	if err == nil {
		l.count(c)
	}
	return failed("delete an artifact", errors.Join(err, l.settle(c, err == nil)))
}

// hide removes the name and keeps its bytes.
func (l *Local) hide(c *change) (err error) {
	folder := filepath.Dir(c.record)
	defer l.sessions.Lock(folder)()
	if c.Old, err = readRecord(c.record); err != nil {
		return err
	}
	if c.Old == nil {
		return notFound(c.Path)
	}
	if err := l.note(c); err != nil {
		return err
	}
	c.begun = true
	if file := bytesFile(c.record, c.Old.SHA256); exists(file) {
		if err := l.rename(file, file+unsettled); err != nil {
			return err
		}
	}
	if err := l.remove(c.record); err != nil {
		return err
	}
	return l.syncDir(folder)
}

// FinishChanges ends the changes that the last process did not finish. stored reports whether
// the log has a change. It is called before the store is used.
func (l *Local) FinishChanges(ctx context.Context, stored func(core.FileChange) (bool, error)) error {
	dir := filepath.Join(l.dir, changesDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return failed("read unfinished changes of artifacts", err)
	}
	var problems []error
	for _, entry := range entries {
		if err := l.finishChange(ctx, filepath.Join(dir, entry.Name()), stored); err != nil {
			problems = append(problems, fmt.Errorf("the unfinished change %s: %w", entry.Name(), err))
		}
	}
	return failed("finish changes of artifacts", errors.Join(problems...))
}

func (l *Local) finishChange(ctx context.Context, file string, stored func(core.FileChange) (bool, error)) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	c := &change{file: file, begun: true}
	if err := sealed.Unmarshal(b, &c.FileChange); err != nil {
		return err
	}
	if err := c.Session.Validate(); err != nil {
		return err
	}
	yes, err := stored(c.FileChange)
	if err != nil {
		return err
	}
	if c.Path == "" {
		return l.settleCopy(ctx, c, yes)
	}
	if err := check(c.Session, c.Path); err != nil || c.Old == nil && c.New == nil {
		return errors.Join(err, errors.New("it does not contain what was changed"))
	}
	c.record = filepath.Join(l.folder(c.Session), key(c.Path))
	defer l.paths.Lock(c.record)()
	return l.settle(c, yes)
}

// settleCopy ends the copying of files to a new session.
func (l *Local) settleCopy(ctx context.Context, c *change, stored bool) error {
	if !stored {
		if _, _, err := l.DeleteSession(ctx, c.Session); err != nil {
			return err
		}
	}
	return l.remove(c.file)
}
