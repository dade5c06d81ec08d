package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/artifact"
)

// Get implements artifact.Blobs. The file can be read until ctx ends.
func (s *Store) Get(ctx context.Context, id chat.SessionID, info artifact.Info) (io.ReadSeekCloser, error) {
	key, err := s.object(id, s.Key(info))
	if err != nil {
		return nil, err
	}
	res, err := s.client.do(ctx, &request{method: http.MethodHead, key: key})
	if hasStatus(err, http.StatusNotFound) {
		return nil, chat.Errorf(chat.NotFound, "the bytes of artifact %q are not in the storage of files", info.Path).Because(err)
	}
	if err != nil {
		return nil, s.failed(ctx, "the file cannot be read", nil, err)
	}
	res.Body.Close()
	if res.ContentLength != info.Size {
		return nil, damaged(info, fmt.Errorf("it has %d bytes instead of %d", res.ContentLength, info.Size))
	}
	return s.seen.Open(&object{ctx: ctx, store: s, key: key, etag: res.Header.Get("ETag"), info: info}, info), nil
}

func damaged(info artifact.Info, why error) error {
	return chat.Errorf(chat.Internal, "artifact %q is damaged in the storage of files: %v; upload it again", info.Path, why)
}

// object reads an object. It implements artifact.Source.
type object struct {
	ctx   context.Context
	store *Store
	key   string
	etag  string
	info  artifact.Info

	at     int64
	body   io.ReadCloser // of the running request; nil if there is none
	failed int           // requests that gave no byte
}

// Name returns the key.
func (o *object) Name() string { return o.key }

// Version returns the entity tag.
func (o *object) Version() string { return o.etag }

// Whole reads the object with a request of its own.
func (o *object) Whole() (io.ReadCloser, error) {
	return &object{ctx: o.ctx, store: o.store, key: o.key, etag: o.etag, info: o.info}, nil
}

// Seek implements io.Seeker. The next Read makes a request.
func (o *object) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += o.at
	case io.SeekEnd:
		offset += o.info.Size
	}
	if offset < 0 {
		return 0, errors.New("seek before the beginning of a file")
	}
	if offset != o.at {
		o.Close()
	}
	o.at = offset
	return offset, nil
}

// Read implements io.Reader. A connection that is lost is replaced by one that continues.
func (o *object) Read(p []byte) (int, error) {
	for {
		if o.at >= o.info.Size {
			return 0, io.EOF
		}
		if o.body == nil {
			if err := o.open(); err != nil {
				return 0, err
			}
		}
		n, err := o.body.Read(p[:min(int64(len(p)), o.info.Size-o.at)])
		o.at += int64(n)
		if n > 0 {
			o.failed = 0
		}
		if err != nil {
			o.Close()
		}
		if n > 0 || len(p) == 0 {
			return n, nil
		}
		if err == nil {
			continue
		}
		if o.failed++; o.failed == o.store.opt.Tries || o.ctx.Err() != nil {
			return 0, o.store.failed(o.ctx, "the file cannot be read", nil, err)
		}
	}
}

// open requests the bytes from the position on.
func (o *object) open() error {
	header := map[string]string{}
	if o.at > 0 {
		header["Range"] = fmt.Sprintf("bytes=%d-", o.at)
	}
	if o.etag != "" {
		header["If-Match"] = o.etag
	}
	res, err := o.store.client.do(o.ctx, &request{method: http.MethodGet, key: o.key, header: header})
	switch {
	case hasStatus(err, http.StatusPreconditionFailed):
		return damaged(o.info, errors.New("its bytes have changed"))
	case hasStatus(err, http.StatusNotFound):
		return chat.Errorf(chat.Unavailable, "artifact %q was removed while it was read", o.info.Path).Because(err)
	case err != nil:
		return o.store.failed(o.ctx, "the file cannot be read", nil, err)
	}
	o.body = res.Body
	if r := res.Header.Get("Content-Range"); res.StatusCode == http.StatusPartialContent && !strings.HasPrefix(r, fmt.Sprintf("bytes %d-", o.at)) {
		o.Close()
		return o.store.failed(o.ctx, "the file cannot be read", nil, errors.New("the service sends another part than the requested one"))
	}
	if o.at > 0 && res.StatusCode != http.StatusPartialContent { // the service does not know ranges
		if _, err := io.CopyN(io.Discard, res.Body, o.at); err != nil {
			o.Close()
			return o.store.failed(o.ctx, "the file cannot be read", nil, err)
		}
	}
	return nil
}

// Close ends the running request.
func (o *object) Close() error {
	if o.body == nil {
		return nil
	}
	body := o.body
	o.body = nil
	return body.Close()
}
