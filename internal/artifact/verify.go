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
	err := l.files(ctx, func(file string) error {
		if !isRecord(filepath.Base(file)) {
			return nil
		}
		f, info, err := l.openLocked(file)
		if err != nil || info == nil { // nil: deleted since the folder was listed
			return err
		}
		defer f.Close()
		rel, err := filepath.Rel(l.dir, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
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

// openLocked is openName while nothing in the session changes.
func (l *Local) openLocked(record string) (*os.File, *Info, error) {
	defer l.sessions.Lock(filepath.Dir(record))()
	return openName(record)
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

// Verify reads all bytes and compares them with their hashes. It reports all damage,
// and returns an error only if it cannot continue.
func (l *Local) Verify(ctx context.Context) (Report, error) {
	report := Report{Problems: []Problem{}}
	err := l.files(ctx, func(file string) error {
		name := filepath.Base(file)
		problem := Problem{Session: filepath.Base(filepath.Dir(file)), Record: name}
		if isRecord(name) {
			report.Names++
			info, n, err := l.verifyName(ctx, file)
			report.Bytes += n
			if info != nil {
				problem.Path = info.Path
			}
			if err != nil {
				problem.What = err.Error()
			}
		} else if record, ok := l.lostRecord(file); ok {
			problem.Record, problem.What = record, "its record is missing, so that it cannot be found any more; its bytes are in "+name
		}
		if problem.What != "" && ctx.Err() == nil {
			report.Problems = append(report.Problems, problem)
		}
		return ctx.Err()
	})
	return report, failed("verify artifacts", err)
}

// lostRecord reports whether a file has bytes whose record is gone, and the record.
func (l *Local) lostRecord(file string) (record string, lost bool) {
	folder, name := filepath.Split(file)
	record, _, ok := splitBytes(name)
	if !ok || strings.HasSuffix(name, unsettled) {
		return "", false
	}
	defer l.sessions.Lock(filepath.Clean(folder))()
	return record, exists(file) && !exists(folder+record)
}

// verifyName reads the bytes of a name. info is nil when its record cannot be read.
func (l *Local) verifyName(ctx context.Context, record string) (info *Info, n int64, err error) {
	f, info, err := l.openLocked(record)
	if errors.Is(err, fs.ErrNotExist) {
		info, _ = readRecord(record)
		return info, 0, errors.New("its bytes are missing")
	}
	if err != nil || info == nil {
		return nil, 0, err
	}
	defer f.Close()
	sum := sha256.New()
	n, err = io.Copy(sum, &source{ctx: ctx, r: f})
	switch {
	case err != nil:
		err = fmt.Errorf("its bytes cannot be read: %w", err)
	case n != info.Size:
		err = fmt.Errorf("it has %d bytes instead of %d", n, info.Size)
	case hex.EncodeToString(sum.Sum(nil)) != info.SHA256:
		err = errors.New("its bytes have changed")
	}
	return info, n, err
}

// files visits every file of every session. A folder that is erased meanwhile is left out.
func (l *Local) files(ctx context.Context, visit func(file string) error) error {
	return filepath.WalkDir(filepath.Join(l.dir, sessionsDir), func(file string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || d.IsDir():
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		return visit(file)
	})
}
