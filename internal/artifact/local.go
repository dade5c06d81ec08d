package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/keylock"
)

// Local is a Store in a folder of the local disk.
type Local struct {
	dir    string
	max    int64
	now    func() chat.At
	create func(dir string) (*os.File, error) // a new temporary file
	room   func(bytes int64) error            // whether the disk has room; may be nil

	changed func(session chat.SessionID, bytes int64) // counts bytes of names; may be nil

	beforeStep func() error // for tests: called before every change of the folder; may be nil

	paths    keylock.Locks // by record: changes of a path, with what makes them part of the log; taken first
	sessions keylock.Locks // by folder of a session

	seen Verifications
}

// Open makes the folder ready: it removes what uploads left behind when the
// process was killed and finishes erasing sessions. The folder belongs to this
// process alone.
func Open(dir string, opt Options) (*Local, error) {
	l := Inspect(dir)
	l.max, l.now, l.room, l.changed = opt.Max, opt.Now, opt.Room, opt.Changed
	if l.max <= 0 {
		l.max = defaultMax
	}
	if l.now == nil {
		l.now = func() chat.At { return chat.AtOf(time.Now()) }
	}
	if err := os.RemoveAll(filepath.Join(dir, tmpDir)); err != nil {
		return nil, failed("clean the artifact folder", err)
	}
	for _, sub := range []string{"", sessionsDir, tmpDir, trashDir, changesDir} {
		if err := l.makeFolder(filepath.Join(dir, sub)); err != nil {
			return nil, failed("make the artifact folder", err)
		}
	}
	if err := l.emptyTrash(); err != nil {
		return nil, failed("finish erasing", err)
	}
	return l, nil
}

// Inspect opens a folder that no process uses, to verify it. It changes nothing, and the
// folder may be absent.
func Inspect(dir string) *Local {
	l := &Local{dir: dir}
	l.create = l.createTemp
	return l
}

// Dir is the folder of the store.
func (l *Local) Dir() string { return l.dir }

// Put stores body under path and returns when it is durable. Until then it is not
// visible, and a path that exists keeps its old bytes.
func (l *Local) Put(ctx context.Context, session chat.SessionID, path, mediaType string, body io.Reader, opt PutOptions) (Info, error) {
	if err := errors.Join(check(session, path), checkMediaType(mediaType)); err != nil {
		return Info{}, chat.Public(err)
	}
	record := filepath.Join(l.folder(session), key(path))
	if opt.IfAbsent {
		if err := absent(record, path); err != nil {
			return Info{}, failed("put", err)
		}
	}
	if err := l.roomFor(0); err != nil {
		return Info{}, err
	}
	if err := l.makeFolder(filepath.Dir(record)); err != nil {
		return Info{}, failed("put", err)
	}
	most := l.max
	if opt.Max > 0 {
		most = min(most, opt.Max)
	}
	info := Info{Path: path, MediaType: mediaType}
	temp, err := l.receive(ctx, &info, body, most)
	if err != nil {
		return Info{}, failed("receive an artifact", err)
	}
	defer l.remove(temp)
	if err := l.publish(session, record, temp, &info, opt); err != nil {
		return Info{}, failed("publish an artifact", err)
	}
	return info, nil
}

// roomFor asks whether the disk has room, after bytes were written to it.
func (l *Local) roomFor(bytes int64) error {
	if l.room == nil {
		return nil
	}
	return l.room(bytes)
}

// receive writes body to a temporary file and fills in what it learns.
func (l *Local) receive(ctx context.Context, info *Info, body io.Reader, most int64) (temp string, err error) {
	f, err := l.create(filepath.Join(l.dir, tmpDir))
	if err != nil {
		return "", err
	}
	defer func() {
		if err = finish(f, err); err != nil {
			l.remove(f.Name())
		}
	}()
	in := &source{ctx: ctx, r: body, took: l.roomFor}
	sum := sha256.New()
	// One byte over the limit is enough to know that it is too large.
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(in, most+1))
	switch {
	case in.err != nil:
		return "", in.err
	case err != nil:
		return "", err
	case n > most:
		return "", chat.Errorf(chat.TooLarge, "an artifact has at most %d bytes here", most).With("max", most)
	}
	info.Size, info.SHA256 = n, hex.EncodeToString(sum.Sum(nil))
	info.MediaType = mediaTypeOf(info.MediaType, info.Path, in.head)
	return f.Name(), f.Chmod(0o400)
}

// publish makes the received bytes the content of the name, and commits that to the
// log if there is one. The folder of the session was made before the bytes were
// received, so its absence means that the session was erased since.
func (l *Local) publish(session chat.SessionID, record, temp string, info *Info, opt PutOptions) error {
	defer l.paths.Lock(record)()
	c := &change{record: record, FileChange: core.FileChange{Session: session, Path: info.Path, After: opt.After, New: info}}
	if err := l.replace(temp, c, opt); err != nil {
		return errors.Join(err, l.settle(c, false))
	}
	var err error
	if opt.Commit != nil {
		err = opt.Commit(*info)
	}
	if err == nil {
		l.count(c)
	}
	return errors.Join(err, l.settle(c, err == nil))
}

// count reports the bytes that a change adds or removes.
func (l *Local) count(c *change) {
	if l.changed == nil {
		return
	}
	var bytes int64
	if c.New != nil {
		bytes += c.New.Size
	}
	if c.Old != nil {
		bytes -= c.Old.Size
	}
	l.changed(c.Session, bytes)
}

// replace gives the name its new bytes. The old ones stay until the change is settled.
func (l *Local) replace(temp string, c *change, opt PutOptions) error {
	folder, info := filepath.Dir(c.record), c.New
	defer l.sessions.Lock(folder)()
	if !exists(folder) {
		return chat.Errorf(chat.Gone, "the session was erased while the artifact was being sent")
	}
	if opt.IfAbsent {
		if err := absent(c.record, info.Path); err != nil {
			return err
		}
	}
	// An unreadable record is replaced; its bytes stay until the path is deleted.
	c.Old, _ = readRecord(c.record)
	info.StoredAt = l.now()
	if opt.Commit != nil {
		if err := l.note(c); err != nil {
			return err
		}
	}
	c.begun = true
	return l.link(temp, c.record, *info)
}

// link moves the bytes next to the record and writes the record.
func (l *Local) link(temp, record string, info Info) error {
	file := bytesFile(record, info.SHA256)
	temporary := file + unsettled
	if whole(file, info) { // put again as it was
		return errors.Join(l.writeRecord(record, info), l.syncDir(filepath.Dir(record)))
	}
	if err := l.rename(temp, temporary); err != nil {
		return err
	}
	if err := l.writeRecord(record, info); err != nil {
		return errors.Join(err, l.remove(temporary))
	}
	if err := l.syncDir(filepath.Dir(record)); err != nil {
		return err
	}
	return l.rename(temporary, file)
}

// whole reports whether a file has the right bytes. It reads them, so that an upload is
// never replaced by damaged bytes of an earlier one.
func whole(file string, info Info) bool {
	fi, err := os.Lstat(file)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() != info.Size {
		return false
	}
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return err == nil && hex.EncodeToString(sum.Sum(nil)) == info.SHA256
}

func absent(record, path string) error {
	if _, err := os.Lstat(record); err == nil {
		return chat.Errorf(chat.Conflict, "there is an artifact %q already", path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// source reads a body until the context ends and keeps its first bytes.
type source struct {
	ctx  context.Context
	r    io.Reader
	head []byte
	err  error // why the body could not be read to its end

	took func(bytes int64) error // called with the number of bytes of the last Read; may be nil
	last int64                   // what the last Read gave
}

// sniffed is how many bytes http.DetectContentType uses.
const sniffed = 512

func (s *source) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		s.err = chat.Errorf(chat.Unavailable, "the upload was interrupted; send it again").Because(err)
		return 0, s.err
	}
	if s.took != nil && s.last > 0 {
		if s.err = s.took(s.last); s.err != nil {
			return 0, s.err
		}
	}
	n, err := s.r.Read(p)
	s.last = int64(n)
	if room := sniffed - len(s.head); room > 0 {
		s.head = append(s.head, p[:min(n, room)]...)
	}
	if err != nil && err != io.EOF {
		s.err = sourceError(err)
		err = s.err
	}
	return n, err
}

func sourceError(err error) error {
	if e, ok := errors.AsType[*chat.Error](err); ok {
		return e
	}
	if big, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return chat.Errorf(chat.TooLarge, "the request has at most %d bytes", big.Limit).With("max", big.Limit)
	}
	return chat.Errorf(chat.Invalid, "the upload ended before it was complete; send it again").Because(err)
}

// Info describes one file.
type Info = chat.FileInfo

// PutOptions are the options of one Put.
type PutOptions = core.FileWrite

// Options of a store. The zero value works.
type Options struct {
	Max  int64                   // most bytes of one file; 0 means 1 GiB
	Now  func() chat.At          // the clock; nil means the system's
	Room func(bytes int64) error // called with the number of bytes that were written, 0 before the first; an error means that there is no room. nil means no limit

	// Changed is called with how many bytes the files of a session have grown, or less
	// than 0 when they have shrunk, before a change that is part of the log is settled.
	// nil means none.
	Changed func(session chat.SessionID, bytes int64)
}

// defaultMax is the default of Options.Max.
const defaultMax = 1 << 30
