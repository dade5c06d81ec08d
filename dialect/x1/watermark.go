package x1

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// watermark remembers, over the end of the process, up to which moment all that
// is stored is in the archive. Only sessions that were active since then are
// looked at when the next process starts, however many there are.
type watermark struct {
	file  string
	from  chat.At // what the last process left
	clean bool    // it ended in order

	mu    sync.Mutex
	known []string // workspaces
	saved chat.At
}

// marked is the file.
type marked struct {
	At         chat.At  `json:"archived_until"`
	Workspaces []string `json:"workspaces"`
	Clean      bool     `json:"clean"`
}

// openWatermark reads the file, or begins with now: an archive that was never
// there is not filled with the past.
func openWatermark(dir string, now func() time.Time) (*watermark, error) {
	w := &watermark{known: []string{chat.DefaultWorkspace}, from: chat.AtOf(now())}
	if dir == "" {
		return w, nil
	}
	w.file = filepath.Join(dir, "x1-archive.json")
	b, err := os.ReadFile(w.file)
	switch {
	case err == nil:
		var m marked
		if err := json.Unmarshal(b, &m); err != nil {
			return nil, fmt.Errorf("%s is damaged (remove it to begin anew from now on): %w", w.file, err)
		}
		w.from, w.clean = m.At, m.Clean
		for _, s := range m.Workspaces {
			w.add(s)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return w, w.write(marked{At: w.from, Workspaces: w.known})
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
func (w *watermark) save(at chat.At, whole, clean bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !whole {
		at = w.from
	}
	// Less than the slack behind is as good as now.
	if !clean && w.saved != 0 && at-w.saved < chat.At((slack/10).Microseconds()) {
		return nil
	}
	if err := w.write(marked{At: at, Workspaces: w.known, Clean: clean && whole}); err != nil {
		return err
	}
	w.saved = at
	return nil
}

func (w *watermark) write(m marked) error {
	if w.file == "" {
		return nil
	}
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := os.WriteFile(w.file+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(w.file+".new", w.file)
}
