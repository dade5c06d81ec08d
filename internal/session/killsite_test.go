package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/hub"
	store "github.com/parley-hq/parley/internal/journal"
)

// These tests kill the process at every step of an operation: before and after every
// call that changes the log, the files or the archive, also where one call is made
// inside another. At each step they copy what is on the disk. Each copy is what a kill
// would have left; a new process opens it, recovers, and must find one of the allowed
// states. What happens inside a call is killed in the packages journal and artifact.

// site is a server's disk and the process that uses it.
type site struct {
	t     *testing.T
	disk  *vfs.MemFS // the store
	files string     // folder of files and of the archive

	log       *store.Journal
	artifacts *artifact.Local
	hub       *hub.Hub
	*Sessions

	recording bool
	images    []image
}

// image is the disk content after a kill.
type image struct {
	step  string
	disk  *vfs.MemFS
	files string
}

// secret is a text in all data that an erasure must remove.
const secret = "Zebra7Qx91SecretText"

func newSite(t *testing.T) *site {
	s := &site{t: t, disk: vfs.NewCrashableMem(), files: t.TempDir()}
	s.check(os.Mkdir(filepath.Join(s.files, "archive"), 0o700))
	s.open()
	t.Cleanup(s.close)
	return s
}

func (s *site) open() {
	s.t.Helper()
	var err error
	s.log, err = store.Open("/data", store.Options{FS: s.disk, MinFree: -1, MinFreePercent: -1})
	s.check(err)
	s.artifacts, err = artifact.Open(filepath.Join(s.files, "artifacts"), artifact.Options{Changed: func(id chat.SessionID, n int64) {
		s.step("count")
		s.check(s.log.AddFiles(ctx, id, n))
		s.step("counted")
	}})
	s.check(err)
	s.hub = hub.New(s.log, hub.Options{})
	for id, blocks := range s.log.OpenBlocks() {
		s.hub.Restore(id, blocks)
	}
	s.Sessions = New(&stepLog{s.log, s}, s.hub, Options{Artifacts: &stepFiles{s.artifacts, s}, Observers: []Observer{{Purge: s.forgotten}}})
}

func (s *site) close() {
	if s.log == nil {
		return
	}
	s.hub.Close(nil)
	s.check(s.log.Close())
	s.log = nil
}

func (s *site) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// archive returns the path of an observer's copy of a session.
func (s *site) archive(id chat.SessionID) string {
	return filepath.Join(s.files, "archive", string(id))
}

// forgotten is the observer's Purge: it removes the copy.
func (s *site) forgotten(_ context.Context, id chat.SessionID) error {
	s.step("Forgotten")
	err := os.Remove(s.archive(id))
	s.step("Forgotten done")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// step saves an image of the disk.
func (s *site) step(name string) {
	if !s.recording {
		return
	}
	s.t.Helper()
	dir := s.t.TempDir()
	s.check(copyTree(s.files, dir))
	s.images = append(s.images, image{name, s.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))}), dir})
}

// killAtEveryStep runs an operation and gives each image to a new process. look
// returns which of the allowed states it found; every state in want must occur.
func (s *site) killAtEveryStep(operation func() error, look func(p *site) string, want ...string) {
	s.t.Helper()
	s.recording = true
	s.step("start")
	s.check(operation())
	s.step("end")
	s.recording = false
	s.close()
	found := map[string]int{}
	for i, m := range s.images {
		s.t.Run(fmt.Sprintf("%02d %s", i, m.step), func(t *testing.T) {
			p := &site{t: t, disk: m.disk, files: m.files}
			p.open()
			defer p.close()
			p.check(p.Recover(ctx))
			p.finishErasures()
			found[look(p)]++
			if r, err := p.log.Verify(ctx, nil); err != nil || r.Found > 0 {
				t.Error(r.Damage, err)
			}
			if r, err := p.artifacts.Verify(ctx); err != nil || len(r.Problems) > 0 {
				t.Error(r.Problems, err)
			}
		})
	}
	for _, state := range want {
		if found[state] == 0 {
			s.t.Errorf("the state %q occurred in none of %d images: %v", state, len(s.images), found)
		}
		delete(found, state)
	}
	if len(found) > 0 {
		s.t.Errorf("other states: %v", found)
	}
}

// finishErasures runs the server until no erasure is left.
func (s *site) finishErasures() {
	s.t.Helper()
	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(run) }()
	defer stop()
	most := time.Now().Add(20 * time.Second)
	for left := true; left; {
		if left = false; time.Now().After(most) {
			s.t.Fatal("an erasure is not finished")
		}
		for _, err := range s.log.Erasures(ctx) {
			s.check(err)
			left = true
		}
	}
	stop()
	s.check(<-ended)
}

// stepLog is the journal with a step before and after every change.
type stepLog struct {
	*store.Journal
	s *site
}

func (l *stepLog) Commit(ctx context.Context, c *core.Commit) error {
	l.s.step("Commit")
	defer l.s.step("Commit done")
	return l.Journal.Commit(ctx, c)
}

func (l *stepLog) CommitLater(c *core.Commit, then core.CommitDone) (lead func(), err error) {
	return func() {
		then.Done(l.Commit(ctx, c))
		then.GroupDone()
	}, nil
}

func (l *stepLog) BeginErase(ctx context.Context, id chat.SessionID, files int, bytes int64) (core.Erasure, error) {
	l.s.step("BeginErase")
	defer l.s.step("BeginErase done")
	return l.Journal.BeginErase(ctx, id, files, bytes)
}

func (l *stepLog) ScrubErased(ctx context.Context, e core.Erasure) error {
	l.s.step("ScrubErased")
	defer l.s.step("ScrubErased done")
	return l.Journal.ScrubErased(ctx, e)
}

func (l *stepLog) FinishErase(ctx context.Context, e core.Erasure) error {
	l.s.step("FinishErase")
	defer l.s.step("FinishErase done")
	return l.Journal.FinishErase(ctx, e)
}

func (l *stepLog) SetFiles(ctx context.Context, id chat.SessionID, bytes int64) error {
	l.s.step("SetFiles")
	defer l.s.step("SetFiles done")
	return l.Journal.SetFiles(ctx, id, bytes)
}

func (l *stepLog) Import(ctx context.Context, id chat.SessionID, facts iter.Seq2[chat.Fact, error]) error {
	l.s.step("Import")
	defer l.s.step("Import done")
	return l.Journal.Import(ctx, id, func(yield func(chat.Fact, error) bool) {
		for f, err := range facts {
			if !yield(f, err) {
				return
			}
			l.s.step(fmt.Sprint("Import of event ", f.Seq))
		}
	})
}

// stepFiles is the file store with a step before and after every change.
type stepFiles struct {
	*artifact.Local
	s *site
}

func (f *stepFiles) DeleteSession(ctx context.Context, id chat.SessionID) (int, int64, error) {
	f.s.step("DeleteSession")
	defer f.s.step("DeleteSession done")
	return f.Local.DeleteSession(ctx, id)
}

func (f *stepFiles) Put(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, w core.FileWrite) (chat.FileInfo, error) {
	f.s.step("Put")
	defer f.s.step("Put done")
	return f.Local.Put(ctx, id, path, mediaType, body, w)
}

func (f *stepFiles) Remove(ctx context.Context, id chat.SessionID, path string, after chat.Seq, commit func(chat.FileInfo) error) error {
	f.s.step("Remove")
	defer f.s.step("Remove done")
	return f.Local.Remove(ctx, id, path, after, commit)
}

func (f *stepFiles) CopySession(ctx context.Context, from, to chat.SessionID, added []core.FilePut, commit func() error) error {
	f.s.step("CopySession")
	defer f.s.step("CopySession done")
	return f.Local.CopySession(ctx, from, to, added, commit)
}

// copyTree copies a folder. It keeps hard links.
func copyTree(from, to string) error {
	type copied struct {
		info fs.FileInfo
		path string
	}
	var done []copied
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || rel == "." {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.Mkdir(target, 0o700)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		for _, c := range done {
			if os.SameFile(c.info, info) {
				return os.Link(c.path, target)
			}
		}
		done = append(done, copied{info, target})
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, b, info.Mode().Perm())
	})
}

// fill creates a session with text, open text, a file and an archived copy.
func (s *site) fill(id chat.SessionID) {
	s.t.Helper()
	_, _, err := s.Create(ctx, ann, chat.NewSession{ID: id, Agent: "demo", Title: secret})
	s.check(err)
	evs, err := s.Append(ctx, ann, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "I say " + secret})})
	s.check(err)
	st, err := s.State(ctx, chat.Trusted, id)
	s.check(err)
	turn := st.Line("").Turn
	ref := chat.TurnRef{Session: id, Turn: turn.ID, Attempt: turn.Attempt}
	s.check(s.Preview(ctx, bot, id, piece(ref, "b", 0, "Half of "+secret)))
	s.put(id, "notes/a.txt", "first "+secret)
	s.check(os.WriteFile(s.archive(id), evs[0].Payload, 0o600))
}

func (s *site) put(id chat.SessionID, path, text string) {
	s.t.Helper()
	_, err := s.PutFile(ctx, ann, id, core.FilePut{Path: path, Body: strings.NewReader(text)})
	s.check(err)
}

// file returns the content of a path, "" if there is no file.
func (s *site) file(id chat.SessionID, path string) string {
	s.t.Helper()
	f, _, err := s.artifacts.Get(ctx, id, path)
	if chat.CodeOf(err) == chat.NotFound {
		return ""
	}
	s.check(err)
	defer f.Close()
	b, err := io.ReadAll(f)
	s.check(err)
	return string(b)
}

// facts returns the log of a session, nil if there is none.
func (s *site) facts(id chat.SessionID) []chat.Fact {
	s.t.Helper()
	facts, more, err := s.log.Read(ctx, id, chat.Range{})
	if chat.CodeOf(err) == chat.NotFound {
		return nil
	}
	if s.check(err); more {
		s.t.Fatal("there are more events")
	}
	return facts
}

// counted checks that the bytes counted for the owner are those of the session.
func (s *site) counted(id chat.SessionID) {
	s.t.Helper()
	_, want, err := s.artifacts.Usage(ctx, id)
	s.check(err)
	for _, f := range s.facts(id) {
		want += int64(len(f.JSON))
	}
	if got, err := s.log.SizeOf(ctx, id); err != nil || got != want {
		s.t.Errorf("%d bytes are counted (%v), the session has %d", got, err, want)
	}
}

// holders lists the files that contain the secret. The store must be closed: while it is
// open, it removes files at any time.
func (s *site) holders() (list []string) {
	s.t.Helper()
	s.check(filepath.WalkDir(s.files, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(secret)) {
			list = append(list, path)
		}
		return err
	}))
	var walk func(dir string)
	walk = func(dir string) {
		names, err := s.disk.List(dir)
		s.check(err)
		for _, name := range names {
			path := s.disk.PathJoin(dir, name)
			info, err := s.disk.Stat(path)
			s.check(err)
			if info.IsDir() {
				walk(path)
				continue
			}
			f, err := s.disk.Open(path)
			s.check(err)
			b, err := io.ReadAll(f)
			s.check(errors.Join(err, f.Close()))
			if bytes.Contains(b, []byte(secret)) {
				list = append(list, path)
			}
		}
	}
	walk("/data")
	return list
}

// quiet discards Pebble's log messages.
type quiet struct{}

func (quiet) Infof(string, ...any)      {}
func (quiet) Errorf(string, ...any)     {}
func (quiet) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

// tombstones counts the keys of erased sessions in the store. The store must be closed.
func (s *site) tombstones() (n int) {
	s.t.Helper()
	db, err := pebble.Open("/data/db", &pebble.Options{FS: s.disk, ReadOnly: true, FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}})
	s.check(err)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte("T"), UpperBound: []byte("U")})
	s.check(err)
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	s.check(errors.Join(it.Close(), db.Close()))
	return n
}
