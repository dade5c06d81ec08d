package x1

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/sealed"
)

// watermark is a file with the time up to which all stored events are in the archive.
// The next start compares only sessions that were active since then.
type watermark struct {
	file    string
	from    chat.At       // written by the last process
	clean   bool          // the last process shut down
	damage  string        // why the file cannot be trusted
	absent  bool          // there was no file
	archive *archiveState // when it was written; nil when unknown

	mu    sync.Mutex
	known []string // workspaces
	saved chat.At
}

// marked is the content of the file.
type marked struct {
	At         chat.At  `json:"archived_until"`
	Workspaces []string `json:"workspaces"`
	Clean      bool     `json:"clean"`

	Archive *archiveState `json:"archive,omitempty"`
}

// watermarkFile is the name of the file.
const watermarkFile = "x1-archive.json"

// HasArchive reports whether x1 was used with a data folder, so that an archive may
// have copies of its events.
func HasArchive(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, watermarkFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// openWatermark reads the file. Without a file it begins now: a new archive is not
// filled with old events.
func openWatermark(dir string, now func() time.Time) (*watermark, error) {
	w := &watermark{known: []string{chat.DefaultWorkspace}, from: chat.AtOf(now())}
	if dir == "" {
		return w, nil
	}
	w.file = filepath.Join(dir, watermarkFile)
	var m marked
	err := sealed.ReadFile(w.file, &m)
	switch {
	case err == nil:
		w.from, w.clean, w.archive = m.At, m.Clean, m.Archive
		for _, s := range m.Workspaces {
			w.add(s)
		}
	case errors.Is(err, fs.ErrNotExist):
		w.absent = true
		return w, nil // it is written after inspect
	case errors.Is(err, sealed.ErrDamaged):
		w.damage = w.file + " is damaged"
		return w, nil
	default:
		return nil, err
	}
	return w, w.write(marked{At: w.from, Workspaces: w.known, Archive: w.archive})
}

// addWorkspaceOf adds the workspace of a session that begins.
func (w *watermark) addWorkspaceOf(f *chat.Fact) {
	e, err := f.Event()
	if err != nil {
		return
	}
	if b, ok := e.Body.(chat.SessionStarted); ok && b.Workspace != "" {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.add(b.Workspace)
	}
}

func (w *watermark) add(workspace string) {
	if !slices.Contains(w.known, workspace) {
		w.known = append(w.known, workspace)
		w.saved = 0
	}
}

func (w *watermark) workspaces() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.known)
}

// save writes the file. Until recover is done the time does not change. The state of
// the archive is read only when the file is written.
func (w *watermark) save(at chat.At, restored, clean bool, archive func() *archiveState) error {
	w.mu.Lock()
	if !restored {
		at = w.from
	}
	// A start looks back by slack, so a smaller step need not be written.
	if !clean && w.saved != 0 && at-w.saved < chat.At((slack/10).Microseconds()) {
		w.mu.Unlock()
		return nil
	}
	w.mu.Unlock() // take must not wait for NATS
	var state *archiveState
	if restored {
		state = archive()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.archive = state
	if err := w.write(marked{At: at, Workspaces: w.known, Clean: clean && restored, Archive: w.archive}); err != nil {
		return err
	}
	w.saved = at
	return nil
}

// forgetArchiveState removes the state of the archive from the file, before messages
// are erased.
func (w *watermark) forgetArchiveState() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.archive == nil {
		return nil
	}
	w.archive = nil
	return w.write(marked{At: cmp.Or(w.saved, w.from), Workspaces: w.known})
}

func (w *watermark) write(m marked) error {
	if w.file == "" {
		return nil
	}
	return sealed.WriteFile(w.file, m)
}
