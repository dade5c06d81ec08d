package node

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/fields"
	"github.com/parley-hq/parley/internal/json"
)

// diskBlobs stores the bytes of files by their hash on the disks of at least two nodes. A node that does not have them gets
// them from another node, checks their hash and keeps them.
//
// Bytes move between nodes in one way: the node that needs them asks another one for chunks. A node that has got an upload
// asks another node to keep the bytes, and that node gets them in the same way.
type diskBlobs struct {
	node  *Node
	local *artifact.Local
	log   *slog.Logger
	pin   func(blob) (unpin func())

	mu       sync.Mutex
	held     map[blob][]func() // the pins of bytes that this node keeps for others, until the log names them
	incoming map[blob]*transfer
	reads    chan struct{} // bounds the chunks that are read for other nodes at the same time
}

func newDiskBlobs(n *Node, local *artifact.Local, pin func(blob) func()) *diskBlobs {
	return &diskBlobs{node: n, local: local, log: n.log, pin: pin, held: map[blob][]func(){}, incoming: map[blob]*transfer{}, reads: make(chan struct{}, 32)}
}

const (
	chunkSize    = 512 << 10
	chunksAhead  = 4                // requests for chunks that wait for their replies
	chunkTimeout = 10 * time.Second // for one chunk
)

var errAlone = chat.Errorf(chat.Unavailable, "the file was not stored: it has to be on two nodes of the cluster, and this node cannot reach another one; try again in a few seconds")

// keepCall asks a node to have bytes.
type keepCall struct {
	Session chat.SessionID  `json:"session"`
	From    chat.SessionID  `json:"from,omitempty"` // another session that has the same bytes
	Holder  string          `json:"holder"`         // a node that has them
	Files   []chat.FileInfo `json:"files"`
}

// copyToOther makes another node have bytes of this one. from is another session that has the same bytes; "" means none.
func (d *diskBlobs) copyToOther(ctx context.Context, id, from chat.SessionID, infos []chat.FileInfo) error {
	body, err := json.Marshal(keepCall{Session: id, From: from, Holder: d.node.opt.Name, Files: infos})
	if err != nil {
		return err
	}
	why := error(errAlone)
	for _, name := range d.node.present() {
		if _, err = d.node.ask(ctx, name, d.node.partOf(id), message{kind: msgKeep, body: body}); err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return chat.Errorf(chat.Unavailable, "the upload was interrupted; send it again").Because(err)
		}
		d.log.Warn("another node could not store an artifact", "node", name, "session", id, "err", err)
		if refused(err) {
			why = chat.Errorf(chat.Unavailable, "the file was not stored: it has to be on two nodes of the cluster, and node %s cannot store it: %s", name, chat.Public(err).Msg)
		}
	}
	return why
}

// Key implements artifact.Blobs.
func (d *diskBlobs) Key(info chat.FileInfo) string { return info.SHA256 }

// Put implements artifact.Blobs.
func (d *diskBlobs) Put(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, most int64, take func(chat.FileInfo) error) (chat.FileInfo, error) {
	if len(d.node.present()) == 0 { // refuse before the body is read
		return chat.FileInfo{}, errAlone
	}
	info, err := d.local.PutBytes(ctx, id, path, mediaType, body, most, take)
	if err == nil {
		err = d.copyToOther(ctx, id, "", []chat.FileInfo{info})
	}
	return info, err
}

// Get implements artifact.Blobs.
func (d *diskBlobs) Get(ctx context.Context, id chat.SessionID, info chat.FileInfo) (io.ReadSeekCloser, error) {
	b := blob{id, info.SHA256}
	defer d.pin(b)()
	file, _, err := d.local.Get(ctx, id, b.key)
	if err != nil && ctx.Err() == nil {
		if chat.CodeOf(err) != chat.NotFound {
			d.log.Warn("the bytes of an artifact are damaged on this node; getting them from another one", "session", id, "path", info.Path, "err", err)
			if err := d.local.RemoveBytes(ctx, id, b.key); err != nil {
				d.log.Warn("damaged bytes could not be removed", "session", id, "path", info.Path, "err", err)
			}
		}
		if err = d.fetch(ctx, b, info.Size, d.node.present()); err == nil {
			file, _, err = d.local.Get(ctx, id, b.key)
		}
	}
	if err != nil {
		return nil, err
	}
	return &reading{ReadSeekCloser: file, disk: d, of: b, path: info.Path}, nil
}

// reading is an open file. When its bytes turn out to be damaged they are removed, so that the next reader gets them from
// another node.
type reading struct {
	io.ReadSeekCloser
	disk *diskBlobs
	of   blob
	path string
}

// Read implements io.Reader.
func (r *reading) Read(p []byte) (int, error) {
	n, err := r.ReadSeekCloser.Read(p)
	if chat.CodeOf(err) == chat.Internal && !errors.Is(err, io.EOF) {
		r.disk.log.Warn("the bytes of an artifact are damaged on this node", "session", r.of.session, "path", r.path, "err", err)
		if err := r.disk.local.RemoveBytes(context.Background(), r.of.session, r.of.key); err != nil {
			r.disk.log.Warn("damaged bytes could not be removed", "err", err)
		}
		err = chat.Errorf(chat.Internal, "artifact %q is damaged on this node; read it again to get it from another node", r.path).Because(err)
	}
	return n, err
}

// Copy implements artifact.Blobs. Within a session there is nothing to copy.
func (d *diskBlobs) Copy(ctx context.Context, from, to chat.SessionID, infos []chat.FileInfo, take func(chat.FileInfo) error) ([]chat.FileInfo, error) {
	for _, info := range infos {
		if err := take(info); err != nil {
			return nil, err
		}
		if from == to {
			continue
		}
		if err := d.fetch(ctx, blob{from, info.SHA256}, info.Size, d.node.present()); err != nil {
			return nil, err
		}
		if err := d.link(ctx, from, to, info.SHA256); err != nil {
			return nil, err
		}
	}
	for list := range slices.Chunk(infos, maxForkFiles) {
		if from == to {
			break
		}
		if err := d.copyToOther(ctx, to, from, list); err != nil {
			return nil, err
		}
	}
	return infos, nil
}

// Remove implements artifact.Blobs.
func (d *diskBlobs) Remove(ctx context.Context, id chat.SessionID, key string) error {
	return d.local.RemoveBytes(ctx, id, key)
}

// DeleteSession implements artifact.Blobs. Each node removes the bytes that are on its disk.
func (d *diskBlobs) DeleteSession(ctx context.Context, id chat.SessionID) (count int, bytes int64, err error) {
	return d.local.DeleteSession(ctx, id)
}

// link gives a session bytes that another session has on this node.
func (d *diskBlobs) link(ctx context.Context, from, to chat.SessionID, hash string) error {
	_, err := d.local.Copy(ctx, from, hash, to, hash)
	if chat.CodeOf(err) == chat.Conflict {
		return nil
	}
	return err
}

// keep stores bytes for another node. They stay until the log names them, or for Options.Pin.
func (d *diskBlobs) keep(ctx context.Context, q *keepCall) error {
	for _, info := range q.Files {
		b := blob{q.Session, info.SHA256}
		d.hold(b)
		if q.From != "" && d.link(ctx, q.From, q.Session, info.SHA256) == nil {
			continue
		}
		if err := d.fetch(ctx, b, info.Size, []string{q.Holder}); err != nil {
			return err
		}
	}
	return nil
}

// hold pins bytes until the log names them, or for Options.Pin.
func (d *diskBlobs) hold(b blob) {
	end := sync.OnceFunc(d.pin(b))
	time.AfterFunc(d.node.opt.Pin, func() {
		d.mu.Lock()
		delete(d.held, b) // later ones end with their own timers
		d.mu.Unlock()
		end()
	})
	d.mu.Lock()
	d.held[b] = append(d.held[b], end)
	d.mu.Unlock()
}

// transfer is a transfer of bytes to this node.
type transfer struct {
	done chan struct{}
	err  error // set before done is closed
}

// fetch makes this node have bytes: it gets them from one of the nodes, unless it has them. Several callers share one transfer,
// which goes on when its caller does not wait any more.
func (d *diskBlobs) fetch(ctx context.Context, b blob, size int64, nodes []string) error {
	if _, n, err := d.local.ReadBytes(b.session, b.key, nil, 0); err == nil && n == size {
		return nil
	}
	d.mu.Lock()
	t := d.incoming[b]
	if t == nil {
		t = &transfer{done: make(chan struct{})}
		d.incoming[b] = t
		go func() {
			defer d.pin(b)()
			t.err = d.transfer(context.WithoutCancel(ctx), b, size, nodes)
			d.mu.Lock()
			delete(d.incoming, b)
			d.mu.Unlock()
			close(t.done)
		}()
	}
	d.mu.Unlock()
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// transfer gets bytes from the first node that has them.
func (d *diskBlobs) transfer(ctx context.Context, b blob, size int64, nodes []string) error {
	err := chat.Errorf(chat.Unavailable, "the bytes of this file are on other nodes of the cluster, and none of those that have them can be reached; try again in a few seconds")
	for _, name := range nodes {
		r := &remoteBytes{ctx: ctx, disk: d, node: name, of: b, size: size}
		_, why := d.local.PutBytes(ctx, b.session, b.key, "application/octet-stream", r, size, func(got chat.FileInfo) error {
			if got.SHA256 != b.key {
				return chat.Errorf(chat.Internal, "the bytes that node %s has sent do not have the hash %s", name, b.key)
			}
			return nil
		})
		r.close()
		if why == nil {
			return nil
		}
		if chat.CodeOf(why) != chat.NotFound {
			d.log.Warn("a file could not be copied from another node", "node", name, "session", b.session, "hash", b.key, "err", why)
		}
		err = err.Because(why)
	}
	return err
}

// remoteBytes reads bytes from another node.
type remoteBytes struct {
	ctx  context.Context
	disk *diskBlobs
	node string
	of   blob
	size int64

	asked   int64 // bytes that were asked for
	waiting []chan chunk
	cancel  context.CancelFunc
	chunk   []byte
	begun   bool
}

type chunk struct {
	data []byte
	err  error
}

// Read implements io.Reader.
func (r *remoteBytes) Read(p []byte) (int, error) {
	if !r.begun {
		r.begun = true
		r.ctx, r.cancel = context.WithCancel(r.ctx)
		if r.size == 0 { // the node must have it, though there is nothing to read
			r.ask()
		}
	}
	for len(r.chunk) == 0 {
		for len(r.waiting) < chunksAhead && r.asked < r.size {
			r.ask()
		}
		if len(r.waiting) == 0 {
			return 0, io.EOF
		}
		got := <-r.waiting[0]
		r.waiting = r.waiting[1:]
		if got.err != nil {
			return 0, got.err
		}
		r.chunk = got.data
	}
	n := copy(p, r.chunk)
	r.chunk = r.chunk[n:]
	return n, nil
}

// ask sends the request for the next chunk.
func (r *remoteBytes) ask() {
	c := make(chan chunk, 1)
	r.waiting = append(r.waiting, c)
	at, want := r.asked, min(chunkSize, r.size-r.asked)
	r.asked += want
	body := fields.AppendBytes(fields.AppendBytes(nil, r.of.session), r.of.key)
	body = fields.AppendNumber(fields.AppendNumber(body, uint64(at)), uint64(want))
	go func() {
		ctx, cancel := context.WithTimeout(r.ctx, chunkTimeout)
		defer cancel()
		answer, err := r.disk.node.ask(ctx, r.node, r.disk.node.partOf(r.of.session), message{kind: msgChunk, body: body})
		switch {
		case err != nil:
		case len(answer) < 8 || int64(binary.BigEndian.Uint64(answer)) != r.size || int64(len(answer)-8) != want:
			err = chat.Errorf(chat.Internal, "node %s has other bytes of this file", r.node)
		default:
			answer = answer[8:]
		}
		c <- chunk{answer, err}
	}()
}

func (r *remoteBytes) close() {
	if r.cancel != nil {
		r.cancel()
	}
}

// serve handles a request of another node about files.
func (d *diskBlobs) serve(ctx context.Context, m message) ([]byte, error) {
	if m.kind == msgKeep {
		q := &keepCall{}
		if err := json.Unmarshal(m.body, q); err != nil {
			return nil, chat.Errorf(chat.Invalid, "not a request to keep files").Because(err)
		}
		return nil, d.keep(ctx, q)
	}
	r := fields.NewReader(m.body)
	id, hash := chat.SessionID(r.Bytes(255)), string(r.Bytes(64))
	at, n := r.Number(1<<62), r.Number(chunkSize)
	if !r.Done() {
		return nil, chat.Errorf(chat.Invalid, "not a request for a part of a file")
	}
	d.reads <- struct{}{}
	defer func() { <-d.reads }()
	b := make([]byte, 8+n)
	got, size, err := d.local.ReadBytes(id, hash, b[8:], int64(at))
	binary.BigEndian.PutUint64(b, uint64(size))
	return b[:8+got], err
}

// named ends the pins of bytes that the log names now.
func (d *diskBlobs) named(list []blob) {
	var ends []func()
	d.mu.Lock()
	for _, b := range list {
		ends = append(ends, d.held[b]...)
		delete(d.held, b)
	}
	d.mu.Unlock()
	for _, end := range ends {
		end()
	}
}
