package artifact

import (
	"context"
	"crypto/rand"
	"errors"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// Copy copies a file to a path that is free, in the same session or in another one.
// The copy is a hard link where the file system has them. Deleting one path does not
// change the other.
func (l *Local) Copy(ctx context.Context, from chat.SessionID, source string, to chat.SessionID, target string) (Info, error) {
	if err := check(to, target); err != nil {
		return Info{}, err
	}
	old, err := l.Stat(ctx, from, source)
	if err != nil {
		return Info{}, err
	}
	record := filepath.Join(l.folder(to), key(target))
	if err := l.makeFolder(filepath.Dir(record)); err != nil {
		return Info{}, failed("copy an artifact", err)
	}
	info := old
	info.Path = target
	// A link under a temporary name is what an upload would have left there.
	file := bytesFile(filepath.Join(l.folder(from), key(source)), old.SHA256)
	temp := filepath.Join(l.dir, tmpDir, rand.Text())
	if l.hardLink(file, temp) == nil {
		defer l.remove(temp)
		if err := l.publish(to, record, temp, &info, PutOptions{IfAbsent: true}); err != nil {
			return Info{}, failed("copy an artifact", err)
		}
		return info, nil
	}
	body, _, err := l.Get(ctx, from, source)
	if err != nil {
		return Info{}, err
	}
	defer body.Close()
	return l.Put(ctx, to, target, old.MediaType, body, PutOptions{IfAbsent: true})
}

// CopySession gives a new session all the files of another one and those in added;
// commit makes it part of the log. When it fails the new one has none.
func (l *Local) CopySession(ctx context.Context, from, to chat.SessionID, added []core.FilePut, commit func() error) error {
	if err := to.Validate(); err != nil {
		return err
	}
	if err := l.roomFor(0); err != nil {
		return err
	}
	c := &change{FileChange: core.FileChange{Session: to}}
	if err := l.note(c); err != nil {
		return failed("copy artifacts", err)
	}
	err := l.copyAll(ctx, from, to)
	for i := 0; i < len(added) && err == nil; i++ {
		_, err = l.Put(ctx, to, added[i].Path, added[i].MediaType, added[i].Body, PutOptions{Max: added[i].Max})
	}
	if err == nil {
		err = commit()
	}
	// Also when the caller has gone away.
	return errors.Join(err, l.settleCopy(context.WithoutCancel(ctx), c, err == nil))
}

func (l *Local) copyAll(ctx context.Context, from, to chat.SessionID) error {
	infos, _, err := l.List(ctx, from, "", "", 0)
	if err != nil {
		return err
	}
	for _, info := range infos {
		_, err := l.Copy(ctx, from, info.Path, to, info.Path)
		switch chat.CodeOf(err) {
		case "", chat.Conflict, chat.NotFound: // there already, or deleted meanwhile
		default:
			return err
		}
	}
	return nil
}

// Merge lets the files of folders, named with the slash at their end, appear
// under another folder as well, and returns their paths there. A file never
// takes the place of another: one whose name is taken by other bytes gets a
// number. What is there already with the same bytes is left as it is, so a merge
// may be repeated.
func (l *Local) Merge(ctx context.Context, id chat.SessionID, folders []string, into string) ([]string, error) {
	return Merge(ctx, l, id, folders, into)
}

// Names has what Merge needs of a store.
type Names interface {
	List(ctx context.Context, session chat.SessionID, prefix, after string, limit int) ([]Info, bool, error)
	Stat(ctx context.Context, session chat.SessionID, path string) (Info, error)
	Copy(ctx context.Context, from chat.SessionID, source string, to chat.SessionID, target string) (Info, error)
}

// Merge does for any store what Local.Merge does.
func Merge(ctx context.Context, l Names, id chat.SessionID, folders []string, into string) ([]string, error) {
	var paths []string
	seen := map[string]bool{}
	for _, folder := range folders {
		infos, _, err := l.List(ctx, id, folder, "", 0)
		if err != nil {
			return paths, err
		}
		for _, info := range infos {
			to, err := mergeOne(ctx, l, id, info, into+strings.TrimPrefix(info.Path, folder))
			if chat.CodeOf(err) == chat.NotFound {
				continue // deleted meanwhile
			}
			if err != nil {
				return paths, err
			}
			if !seen[to] { // the same file in two folders is one
				seen[to], paths = true, append(paths, to)
			}
		}
	}
	return paths, nil
}

func mergeOne(ctx context.Context, l Names, id chat.SessionID, info Info, target string) (string, error) {
	const most = 1000
	for try := 1; ; try++ {
		to := numbered(target, try)
		there, err := l.Stat(ctx, id, to)
		if chat.CodeOf(err) == chat.NotFound {
			if _, err = l.Copy(ctx, id, info.Path, id, to); chat.CodeOf(err) != chat.Conflict {
				return to, err
			}
			there, err = l.Stat(ctx, id, to) // another merge stored it first, maybe with the same bytes
		}
		switch {
		case err == nil && there.SHA256 == info.SHA256:
			return to, nil
		case err != nil && chat.CodeOf(err) != chat.NotFound:
			return "", err
		}
		if try == most {
			return "", chat.Errorf(chat.Conflict, "there are %d artifacts called %q already", most, target)
		}
	}
}

// numbered is the path for a further try: a.csv, a-2.csv, a-3.csv.
func numbered(target string, try int) string {
	if try == 1 {
		return target
	}
	ext := path.Ext(target)
	return strings.TrimSuffix(target, ext) + "-" + strconv.Itoa(try) + ext
}
