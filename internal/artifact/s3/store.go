package s3

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/artifact"
)

// MaxSize is the largest object that one PUT can store.
const MaxSize = 5 << 30

// Options of a store. Values that are 0 have the value in brackets.
type Options struct {
	Location    *Location
	Credentials CredentialSource
	Cluster     string          // id of the cluster; clusters that share a bucket do not see each other's objects
	Received    *artifact.Local // receives uploads before they are sent

	Stall time.Duration // without progress until an attempt of a request ends [15 s]
	Tries int           // attempts of a request [3]
	Pause time.Duration // before the second attempt; it doubles [250 ms]

	Now    func() chat.At // the clock; nil means the system's
	Logger *slog.Logger   // nil means none
}

// Store is a store of bytes in a bucket; it implements artifact.Blobs.
type Store struct {
	opt    Options
	client *client
	log    *slog.Logger
	seen   artifact.Verifications

	mu      sync.Mutex
	uploads map[chat.SessionID]map[*upload]bool
	last    chat.At // the last time that stamp has returned
}

// New returns a store. It sends nothing yet.
func New(opt Options) *Store {
	opt.Stall, opt.Tries, opt.Pause = cmp.Or(opt.Stall, 15*time.Second), cmp.Or(opt.Tries, 3), cmp.Or(opt.Pause, 250*time.Millisecond)
	if opt.Now == nil {
		opt.Now = func() chat.At { return chat.AtOf(time.Now()) }
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	return &Store{opt: opt, client: newClient(&opt), log: opt.Logger, uploads: map[chat.SessionID]map[*upload]bool{}}
}

// Close closes idle connections.
func (s *Store) Close() { s.client.http.CloseIdleConnections() }

// folder is the prefix of the objects of a session.
func (s *Store) folder(id chat.SessionID) string {
	sum := sha256.Sum256([]byte(id))
	path := s.opt.Cluster + "/" + hex.EncodeToString(sum[:]) + "/"
	if s.opt.Location.Prefix != "" {
		path = s.opt.Location.Prefix + "/" + path
	}
	return path
}

// Key implements artifact.Blobs.
func (s *Store) Key(info artifact.Info) string {
	return fmt.Sprintf("%s-%016x", info.SHA256, uint64(info.StoredAt))
}

// stamp returns the time, later than all times before, so that no two objects of this node have the same key.
func (s *Store) stamp() chat.At {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.opt.Now(), s.last+1)
	return s.last
}

// object returns the key of an object. It refuses keys that Key does not make.
func (s *Store) object(id chat.SessionID, key string) (string, error) {
	hash, at, ok := strings.Cut(key, "-")
	if err := id.Validate(); err != nil {
		return "", err
	}
	if _, err := hex.DecodeString(hash + at); err != nil || !ok || len(hash) != 2*sha256.Size || len(at) != 16 {
		return "", chat.Errorf(chat.Internal, "the entry of a file has no valid hash")
	}
	return s.folder(id) + key, nil
}

// Put implements artifact.Blobs.
func (s *Store) Put(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, most int64, take func(artifact.Info) error) (artifact.Info, error) {
	f, info, err := s.opt.Received.Receive(ctx, id, path, mediaType, body, most)
	if err != nil {
		return artifact.Info{}, err
	}
	defer f.Close()
	info.StoredAt = s.stamp()
	u, end := s.begin(id)
	defer end()
	if err := take(info); err != nil {
		return artifact.Info{}, err
	}
	key, err := s.object(id, s.Key(info))
	if err != nil {
		return artifact.Info{}, err
	}
	res, err := s.client.do(ctx, &request{
		method: http.MethodPut, key: key, size: info.Size, hash: info.SHA256, ended: u.gone, header: map[string]string{"Content-Type": "application/octet-stream"},
		body: func() io.Reader { return u.reader(f, info.Size) },
		wait: s.opt.Stall + time.Duration(info.Size/storeRate)*time.Second,
	})
	if err != nil {
		return artifact.Info{}, s.failed(ctx, "the file was not stored", u, err)
	}
	res.Body.Close()
	if etag := res.Header.Get("ETag"); etag != "" { // the service has compared the hash
		s.seen.Add(key, info, etag)
	}
	return info, nil
}

// storeRate is how many bytes a service stores in a second at least, after it has received them.
const storeRate = 20 << 20

// copyWait is how long a copy within the bucket may take.
const copyWait = 5 * time.Minute

// Copy implements artifact.Blobs. The service copies the bytes.
func (s *Store) Copy(ctx context.Context, from, to chat.SessionID, infos []artifact.Info, take func(artifact.Info) error) ([]artifact.Info, error) {
	u, end := s.begin(to)
	defer end()
	copies := make([]artifact.Info, 0, len(infos))
	for _, info := range infos {
		source, err := s.object(from, s.Key(info))
		if err != nil {
			return nil, err
		}
		info.StoredAt = s.stamp()
		target, err := s.object(to, s.Key(info))
		if err == nil {
			err = take(info)
		}
		if err == nil {
			err = s.copyObject(ctx, u, source, target)
		}
		if hasStatus(err, http.StatusNotFound) {
			return nil, chat.Errorf(chat.NotFound, "the bytes of artifact %q are not there any more", info.Path).Because(err)
		}
		if err != nil {
			return nil, s.failed(ctx, "the file was not copied", u, err)
		}
		copies = append(copies, info)
	}
	return copies, nil
}

func (s *Store) copyObject(ctx context.Context, u *upload, source, target string) error {
	if u.gone() {
		return errErased
	}
	res, err := s.client.do(ctx, &request{
		method: http.MethodPut, key: target, wait: copyWait, ended: u.gone, header: map[string]string{"X-Amz-Copy-Source": "/" + s.opt.Location.Bucket + "/" + source},
	})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	// A copy that fails late has the status 200 and an error in its body.
	if code := errorCode(res); code != "" {
		return &statusError{http.StatusInternalServerError, code}
	}
	return nil
}

// Remove implements artifact.Blobs.
func (s *Store) Remove(ctx context.Context, id chat.SessionID, key string) error {
	object, err := s.object(id, key)
	if err == nil {
		err = s.remove(ctx, object)
	}
	if err != nil {
		return s.failed(ctx, "the bytes of a file were not removed", nil, err)
	}
	return nil
}

func (s *Store) remove(ctx context.Context, object string) error {
	res, err := s.client.do(ctx, &request{method: http.MethodDelete, key: object})
	if e, ok := errors.AsType[*statusError](err); ok && e.status == http.StatusNotFound && e.code != "NoSuchBucket" {
		return nil
	}
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// failed returns the error for a caller and logs what a person at the server can do about it.
func (s *Store) failed(ctx context.Context, what string, u *upload, err error) error {
	if e, ok := errors.AsType[*chat.Error](err); ok {
		return e
	}
	switch {
	case u != nil && u.gone():
		return errErased
	case ctx.Err() != nil:
		return chat.Errorf(chat.Unavailable, "%s: the request was interrupted; send it again", what).Because(err)
	}
	s.log.Warn(what+": a request to the storage of artifacts failed", "location", s.opt.Location.String(), "err", err)
	if e, ok := errors.AsType[*statusError](err); ok && !e.temporary() {
		return chat.Errorf(chat.Unavailable, "%s: the storage of files refuses the requests of this server; its log says why", what).Because(err)
	}
	return chat.Errorf(chat.Unavailable, "%s: the storage of files does not answer; try again in a few seconds", what).Because(err)
}

var errErased = chat.Errorf(chat.Gone, "the session was erased while the artifact was being sent")

// upload is an object that is being stored.
type upload struct {
	done chan struct{}

	mu     sync.Mutex
	erased bool
}

// begin registers an upload, so that DeleteSession knows it.
func (s *Store) begin(id chat.SessionID) (u *upload, end func()) {
	u = &upload{done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uploads[id] == nil {
		s.uploads[id] = map[*upload]bool{}
	}
	s.uploads[id][u] = true
	return u, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(s.uploads[id], u); len(s.uploads[id]) == 0 {
			delete(s.uploads, id)
		}
		close(u.done)
	}
}

// gone reports whether the session was erased.
func (u *upload) gone() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.erased
}

// reader reads the file from its beginning. It fails when the session was erased: the service does not store a body that is
// not complete.
func (u *upload) reader(f *os.File, size int64) io.Reader {
	return &uploadReader{io.NewSectionReader(f, 0, size), u}
}

type uploadReader struct {
	*io.SectionReader
	upload *upload
}

// Read implements io.Reader.
func (r *uploadReader) Read(p []byte) (int, error) {
	r.upload.mu.Lock()
	defer r.upload.mu.Unlock()
	if r.upload.erased {
		return 0, errErased
	}
	return r.SectionReader.Read(p)
}

// endUploads ends the uploads of a session and waits for those whose body is sent.
func (s *Store) endUploads(ctx context.Context, id chat.SessionID) error {
	s.mu.Lock()
	var list []*upload
	for u := range s.uploads[id] {
		list = append(list, u)
	}
	s.mu.Unlock()
	for _, u := range list {
		u.mu.Lock()
		u.erased = true
		u.mu.Unlock()
	}
	for _, u := range list {
		select {
		case <-u.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
