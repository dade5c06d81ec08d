package attachment

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/url"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/text"
)

// Sessions is what a [Store] uses of the session layer.
type Sessions interface {
	Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
	MayStore(ctx context.Context, c chat.Caller, id chat.SessionID, bytes int64) error
}

// Files stores files.
type Files interface {
	Put(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, limit int64) (chat.FileInfo, error)
	Stat(ctx context.Context, id chat.SessionID, path string) (chat.FileInfo, error)
}

// Store stores the files of messages.
type Store struct {
	Sessions Sessions
	Files    Files
	Max      int64 // bytes of a file; 0 means 1 GiB
}

// Put stores files of a session. The caller has checked that c may write to the session.
func (s *Store) Put(ctx context.Context, c chat.Caller, id chat.SessionID, files []File) error {
	for _, f := range files {
		if err := s.Sessions.MayStore(ctx, c, id, int64(len(f.Data))); err != nil {
			return err
		}
		if _, err := s.Files.Put(ctx, id, f.Path, f.MediaType, bytes.NewReader(f.Data), cmp.Or(s.Max, 1<<30)); err != nil {
			return err
		}
	}
	return nil
}

// Resolve replaces links to files of this server by the paths of the files. A linked file must be a file of the session, or equal
// to one that has the same path, because a fork has copies of files. id is empty for a session that does not exist yet.
func (s *Store) Resolve(ctx context.Context, c chat.Caller, id chat.SessionID, parts []chat.Part) error {
	for i := range parts {
		p := &parts[i]
		from, path, own := parseURL(p.URL)
		if !own {
			continue
		}
		info, err := s.stat(ctx, c, id, path)
		if err == nil && from != id {
			var linked chat.FileInfo
			if linked, err = s.stat(ctx, c, from, path); err == nil && linked.SHA256 != info.SHA256 {
				err = chat.Errorf(chat.NotFound, "another file has this path")
			}
		}
		switch code := chat.CodeOf(err); {
		case err == nil:
		case code == chat.NotFound, code == chat.Denied, code == chat.Invalid:
			return chat.Errorf(chat.Invalid, "the file %q is not part of this conversation: send its data", text.Clip(path, 80))
		default:
			return err
		}
		p.URL, p.Path, p.Size, p.MediaType = "", info.Path, info.Size, cmp.Or(p.MediaType, info.MediaType)
	}
	return nil
}

func (s *Store) stat(ctx context.Context, c chat.Caller, id chat.SessionID, path string) (chat.FileInfo, error) {
	if id == "" {
		return chat.FileInfo{}, chat.Errorf(chat.NotFound, "there is no such session")
	}
	if _, err := s.Sessions.Get(ctx, c, id); err != nil {
		return chat.FileInfo{}, err
	}
	return s.Files.Stat(ctx, id, path)
}

// Parts of the address of a file.
const (
	sessionsPath  = "/parley/v1/sessions/"
	artifactsPath = "/artifacts/"
)

// URL is the address of a file of a session, relative to the server.
func URL(id chat.SessionID, path string) string {
	segments := strings.Split(path, "/")
	for i := range segments {
		segments[i] = url.PathEscape(segments[i])
	}
	return sessionsPath + url.PathEscape(string(id)) + artifactsPath + strings.Join(segments, "/")
}

// parseURL reads an address that URL has returned.
func parseURL(address string) (id chat.SessionID, path string, ok bool) {
	rest, ok := strings.CutPrefix(address, sessionsPath)
	name, path, found := strings.Cut(rest, artifactsPath)
	if !ok || !found {
		return "", "", false
	}
	session, err := url.PathUnescape(name)
	if err != nil {
		return "", "", false
	}
	path, err = url.PathUnescape(path)
	return chat.SessionID(session), path, err == nil
}
