package artifact

import (
	"context"
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

// Blobs stores the bytes of files whose paths are kept elsewhere: in the log of a cluster. Its methods may be called at the same
// time.
type Blobs interface {
	// Key names the bytes of a file within its session. It depends on SHA256 and StoredAt only.
	Key(info Info) string

	// Put stores body and returns when another node can read it, whatever happens to this one. The path and the media type are
	// those of the returned Info. take is called with it before the bytes are stored, and may refuse them.
	Put(ctx context.Context, session chat.SessionID, path, mediaType string, body io.Reader, most int64, take func(Info) error) (Info, error)

	// Get opens the bytes of a file. They are compared with their hash, see Verified.
	Get(ctx context.Context, session chat.SessionID, info Info) (io.ReadSeekCloser, error)

	// Copy gives a session bytes of files of a session, which may be the same one, and returns the files with their new
	// StoredAt. It returns when another node can read them. take is called for each file before its bytes are stored.
	Copy(ctx context.Context, from, to chat.SessionID, infos []Info, take func(Info) error) ([]Info, error)

	// Remove removes the bytes with a key, if they are there.
	Remove(ctx context.Context, session chat.SessionID, key string) error

	// DeleteSession removes all bytes of a session. Running puts fail with Gone or are complete before it returns.
	DeleteSession(ctx context.Context, session chat.SessionID) (count int, bytes int64, err error)
}

// Receive writes body to a temporary file without a name, which disappears when it is closed, and returns it with what is known
// of the file. It is for stores that send the bytes elsewhere.
func (l *Local) Receive(ctx context.Context, session chat.SessionID, path, mediaType string, body io.Reader, most int64) (*os.File, Info, error) {
	if err := errors.Join(check(session, path), checkMediaType(mediaType)); err != nil {
		return nil, Info{}, chat.Public(err)
	}
	if err := l.roomFor(0); err != nil {
		return nil, Info{}, err
	}
	if most <= 0 || most > l.max {
		most = l.max
	}
	info := Info{Path: path, MediaType: mediaType}
	temp, err := l.receive(ctx, &info, body, most)
	if err != nil {
		return nil, Info{}, failed("receive an artifact", err)
	}
	f, err := os.Open(temp)
	if err = errors.Join(err, l.remove(temp)); err != nil {
		return nil, Info{}, failed("receive an artifact", err)
	}
	info.StoredAt = l.now()
	return f, info, nil
}

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
