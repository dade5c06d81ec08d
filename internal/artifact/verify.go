package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/sealed"
)

// Entry is one file of a copy of the store.
type Entry struct {
	Path   string // relative, with slashes
	Size   int64
	SameAs string           // the Path of an earlier entry with the same bytes; "" when it has its own
	Body   func() io.Reader // the bytes, during the visit; nil with SameAs
}

// Walk visits every file that a copy needs: for each name its record and its
// bytes, bytes first. A copy made while the store is in use holds each name as
// it was at some moment of the walk. The files, put into an empty folder, are a
// store that Open takes. Equal bytes are marked.
func (l *Local) Walk(ctx context.Context, visit func(Entry) error) error {
	seen := map[string]string{} // hash of bytes → path of the entry that has them
	err := l.names(ctx, func(record string, _ *Info, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(l.dir, record)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		unlock := l.sessions.lock(filepath.Dir(record))
		f, info, err := openName(record)
		unlock()
		if err != nil {
			return err
		}
		if info == nil {
			return nil // deleted a moment ago
		}
		defer f.Close()
		entry := Entry{Path: bytesFile(rel, info.SHA256), Size: info.Size, SameAs: seen[info.SHA256]}
		if entry.SameAs == "" {
			seen[info.SHA256] = entry.Path
			entry.Body = func() io.Reader { return f }
		}
		if err := visit(entry); err != nil {
			return err
		}
		b, err := sealed.Marshal(info)
		if err != nil {
			return err
		}
		return visit(Entry{Path: rel, Size: int64(len(b)), Body: func() io.Reader { return bytes.NewReader(b) }})
	})
	return failed("copy artifacts", err)
}

// Report is what Verify found.
type Report struct {
	Names    int       `json:"names"` // that were checked
	Bytes    int64     `json:"bytes"`
	Problems []Problem `json:"problems"`
}

// Problem is one damaged name.
type Problem struct {
	Session string `json:"session"`        // the hash of the session's id, as its folder is called
	Path    string `json:"path,omitempty"` // "" when the record cannot be read
	Record  string `json:"record"`         // the hash of the path, as its record is called
	What    string `json:"what"`
}

// SessionHash is how Problem names a session.
func SessionHash(id chat.SessionID) string { return key(string(id)) }

// Verify reads every byte again and compares. It reports all damage, and fails
// only when it cannot go on.
func (l *Local) Verify(ctx context.Context) (Report, error) {
	report := Report{Problems: []Problem{}}
	err := l.names(ctx, func(record string, info *Info, err error) error {
		report.Names++
		problem := Problem{Session: filepath.Base(filepath.Dir(record)), Record: filepath.Base(record)}
		if err == nil {
			problem.Path = info.Path
			var n int64
			n, err = l.verifyName(ctx, record)
			report.Bytes += n
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			problem.What = err.Error()
			report.Problems = append(report.Problems, problem)
		}
		return nil
	})
	if err == nil {
		err = l.folders(ctx, func(folder string) error { return l.lostRecords(folder, &report) })
	}
	return report, failed("verify artifacts", err)
}

// lostRecords reports bytes whose record is gone.
func (l *Local) lostRecords(folder string, report *Report) error {
	defer l.sessions.lock(folder)()
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // erased a moment ago
	}
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, entry := range entries {
		there[entry.Name()] = true
	}
	for _, entry := range entries {
		record, _, ok := splitBytes(entry.Name())
		if ok && !there[record] && !strings.HasSuffix(entry.Name(), unsettled) {
			report.Problems = append(report.Problems, Problem{
				Session: filepath.Base(folder), Record: record, What: "its record is missing, so that it cannot be found any more; its bytes are in " + entry.Name(),
			})
		}
	}
	return nil
}

func (l *Local) verifyName(ctx context.Context, record string) (int64, error) {
	unlock := l.sessions.lock(filepath.Dir(record))
	f, info, err := openName(record)
	unlock()
	if errors.Is(err, fs.ErrNotExist) {
		return 0, errors.New("its bytes are missing")
	}
	if err != nil || info == nil {
		return 0, err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, &source{ctx: ctx, r: f})
	if err != nil {
		return n, fmt.Errorf("its bytes cannot be read: %w", err)
	}
	if n != info.Size {
		return n, fmt.Errorf("it has %d bytes instead of %d", n, info.Size)
	}
	if hex.EncodeToString(sum.Sum(nil)) != info.SHA256 {
		return n, errors.New("its bytes have changed")
	}
	return n, nil
}

// folders visits the folder of every session.
func (l *Local) folders(ctx context.Context, visit func(folder string) error) error {
	root := filepath.Join(l.dir, sessionsDir)
	shards, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was ever stored
	}
	if err != nil {
		return err
	}
	for _, shard := range shards {
		folders, err := os.ReadDir(filepath.Join(root, shard.Name()))
		if err != nil {
			return err
		}
		for _, folder := range folders {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := visit(filepath.Join(root, shard.Name(), folder.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// names visits every record, or the error of reading it.
func (l *Local) names(ctx context.Context, visit func(record string, info *Info, err error) error) error {
	return l.folders(ctx, func(folder string) error {
		entries, err := os.ReadDir(folder)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // erased a moment ago
		}
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if !isRecord(entry.Name()) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			record := filepath.Join(folder, entry.Name())
			info, err := readRecord(record)
			if info == nil && err == nil {
				continue
			}
			if err := visit(record, info, err); err != nil {
				return err
			}
		}
		return nil
	})
}
