package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/sealed"
)

// notesDir has a file for each noted blob: its name has the hash of the session and the key, its content the session.
const notesDir = "blobs"

type blobNote struct {
	Session chat.SessionID `json:"session"`
}

func (l *Local) noteFile(session chat.SessionID, blob string) string {
	return filepath.Join(l.dir, notesDir, key(string(session))+"-"+blob)
}

// NoteBlob notes that bytes in another store are about to be stored or removed. A process that starts after a kill finds the note.
func (l *Local) NoteBlob(session chat.SessionID, blob string) error {
	if err := session.Validate(); err != nil {
		return err
	}
	if strings.ContainsAny(blob, `/\`) {
		return fmt.Errorf("%q is not the key of a blob", blob)
	}
	b, err := sealed.Marshal(blobNote{session})
	if err == nil {
		err = l.makeFolder(filepath.Join(l.dir, notesDir))
	}
	if err == nil {
		err = l.step()
	}
	if err == nil { // without fsync: after a power cut the erasure of the session removes the bytes
		err = os.WriteFile(l.noteFile(session, blob), b, 0o600)
	}
	return failed("note an artifact", err)
}

// ForgetBlob removes a note, if there is one.
func (l *Local) ForgetBlob(session chat.SessionID, blob string) error {
	return failed("remove the note of an artifact", l.remove(l.noteFile(session, blob)))
}

// ForgetBlobs removes the notes of a session.
func (l *Local) ForgetBlobs(session chat.SessionID) error {
	list, err := filepath.Glob(l.noteFile(session, "*"))
	for _, file := range list {
		err = errors.Join(err, l.remove(file))
	}
	return failed("remove the notes of artifacts", err)
}

// NotedBlobs returns the keys of the noted blobs by session. A note that cannot be read is removed: its bytes stay until the session
// is erased.
func (l *Local) NotedBlobs() (map[chat.SessionID][]string, error) {
	dir := filepath.Join(l.dir, notesDir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	all := map[chat.SessionID][]string{}
	for _, entry := range entries {
		b, why := os.ReadFile(filepath.Join(dir, entry.Name()))
		var note blobNote
		hash, blob, _ := strings.Cut(entry.Name(), "-")
		if why == nil {
			why = sealed.Unmarshal(b, &note)
		}
		if why != nil || key(string(note.Session)) != hash {
			err = errors.Join(err, l.remove(filepath.Join(dir, entry.Name())))
			continue
		}
		all[note.Session] = append(all[note.Session], blob)
	}
	return all, failed("read the notes of artifacts", err)
}
