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

// watermark remembers, over the end of the process, up to which moment all that
// is stored is in the archive. Only sessions that were active since then are
// looked at when the next process starts, however many there are.
type watermark struct {
	file    string
	from    chat.At       // what the last process left
	clean   bool          // it ended in order
	doubt   string        // why the file cannot be trusted
	absent  bool          // there was none
	archive *archiveState // when it was written; nil means not known

	mu    sync.Mutex
	known []string // workspaces
	saved chat.At
}

// marked is the file.
type marked struct {
	At         chat.At  `json:"archived_until"`
	Workspaces []string `json:"workspaces"`
	Clean      bool     `json:"clean"`

	Archive *archiveState `json:"archive,omitempty"`
}

// watermarkFile is the name of the file.
const watermarkFile = "x1-archive.json"

// HasArchive reports whether sessions of a data folder may be in an archive: x1 was
// in use with it.
func HasArchive(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, watermarkFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// openWatermark reads the file, or begins with now: an archive that was never
// there is not filled with the past.
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
		return w, nil // written once the archive was looked at
	case errors.Is(err, sealed.ErrDamaged):
		w.doubt = w.file + " is damaged"
		return w, nil
	default:
		return nil, err
	}
	return w, w.write(marked{At: w.from, Workspaces: w.known, Archive: w.archive})
}

// learn notes the workspace that a session begins in.
func (w *watermark) learn(f *chat.Fact) {
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

// save writes the mark. Until the past was looked at it stays where it was.
// It asks for the state of the archive only when it writes.
func (w *watermark) save(at chat.At, whole, clean bool, archive func() *archiveState) error {
	w.mu.Lock()
	if !whole {
		at = w.from
	}
	// Less than the slack behind is as good as now.
	if !clean && w.saved != 0 && at-w.saved < chat.At((slack/10).Microseconds()) {
		w.mu.Unlock()
		return nil
	}
	w.mu.Unlock() // what is stored must not wait for NATS
	var state *archiveState
	if whole {
		state = archive()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.archive = state
	if err := w.write(marked{At: at, Workspaces: w.known, Clean: clean && whole, Archive: w.archive}); err != nil {
		return err
	}
	w.saved = at
	return nil
}

// disown forgets the state of the archive, because messages are about to be removed
// from it.
func (w *watermark) disown() error {
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
