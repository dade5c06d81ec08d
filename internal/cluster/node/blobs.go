package node

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/fields"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/json"
)

// Bytes move between nodes in one way: the node that needs them asks another one for chunks. A node that has got an upload
// asks another node to keep the bytes, and that node gets them in the same way.

const (
	chunkSize    = 512 << 10
	chunksAhead  = 4                // requests for chunks that wait for their replies
	minSilence   = 5 * time.Second  // after which a node counts as not there
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

// present returns the other nodes that this one hears, in random order.
func (n *Node) present() (names []string) {
	silence := max(n.opt.Takeover, minSilence)
	for _, st := range n.Status() {
		for _, h := range st.Peers {
			if time.Since(h.Heard) < silence && !slices.Contains(names, h.Node) {
				names = append(names, h.Node)
			}
		}
	}
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

// request sends a request about files to a node and waits for the answer as long as the node is heard.
func (f *Files) request(ctx context.Context, node string, b blob, m message) ([]byte, error) {
	f.node.mu.Lock()
	links := f.node.links
	f.node.mu.Unlock()
	if links == nil {
		return nil, errNotConnected
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for pause(ctx, time.Second) == nil {
			if !slices.Contains(f.node.present(), node) {
				cancel()
			}
		}
	}()
	p := f.node.partOf(b.session)
	reply, err := links.transport.Request(ctx, node, p.number, m.encode(p))()
	if err != nil {
		return nil, err
	}
	answer, _, err := decodeReply(reply)
	return answer, err
}

// copyToOther makes another node have bytes of this one. from is another session that has the same bytes; "" means none.
func (f *Files) copyToOther(ctx context.Context, id, from chat.SessionID, infos []chat.FileInfo) error {
	body, err := json.Marshal(keepCall{Session: id, From: from, Holder: f.node.opt.Name, Files: infos})
	if err != nil {
		return err
	}
	why := error(errAlone)
	for _, name := range f.node.present() {
		if _, err = f.request(ctx, name, blob{session: id}, message{msgKeep, body}); err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return chat.Errorf(chat.Unavailable, "the upload was interrupted; send it again").Because(err)
		}
		f.log.Warn("another node could not store an artifact", "node", name, "session", id, "err", err)
		if refused(err) {
			why = chat.Errorf(chat.Unavailable, "the file was not stored: it has to be on two nodes of the cluster, and node %s cannot store it: %s", name, chat.Public(err).Msg)
		}
	}
	return why
}

// copyBytes gives a session bytes of another one, here and on another node.
func (f *Files) copyBytes(ctx context.Context, from, to chat.SessionID, infos []chat.FileInfo) error {
	if len(infos) == 0 {
		return nil
	}
	for _, info := range infos {
		if err := f.fetch(ctx, blob{from, info.SHA256}, info.Size, f.node.present()); err != nil {
			return err
		}
		if err := f.link(ctx, from, to, info.SHA256); err != nil {
			return err
		}
	}
	for list := range slices.Chunk(infos, maxForkFiles) {
		if err := f.copyToOther(ctx, to, from, list); err != nil {
			return err
		}
	}
	return nil
}

// link gives a session bytes that another session has on this node.
func (f *Files) link(ctx context.Context, from, to chat.SessionID, hash string) error {
	_, err := f.local.Copy(ctx, from, hash, to, hash)
	if chat.CodeOf(err) == chat.Conflict {
		return nil
	}
	return err
}

// keep stores bytes for another node. They stay until the log names them, or for pinTime.
func (f *Files) keep(ctx context.Context, q *keepCall) error {
	for _, info := range q.Files {
		b := blob{q.Session, info.SHA256}
		f.hold(b)
		if q.From != "" && f.link(ctx, q.From, q.Session, info.SHA256) == nil {
			continue
		}
		if err := f.fetch(ctx, b, info.Size, []string{q.Holder}); err != nil {
			return err
		}
	}
	return nil
}

// hold pins bytes until the log names them, or for pinTime.
func (f *Files) hold(b blob) {
	end := sync.OnceFunc(f.pin(b))
	time.AfterFunc(pinTime, func() {
		f.mu.Lock()
		delete(f.held, b) // later ones end with their own timers
		f.mu.Unlock()
		end()
	})
	f.mu.Lock()
	f.held[b] = append(f.held[b], end)
	f.mu.Unlock()
}

// flight is a transfer to this node.
type flight struct {
	done chan struct{}
	err  error // set before done is closed
}

// fetch makes this node have bytes: it gets them from one of the nodes, unless it has them. Several callers share one transfer,
// which goes on when its caller does not wait any more.
func (f *Files) fetch(ctx context.Context, b blob, size int64, nodes []string) error {
	if _, n, err := f.local.ReadBytes(b.session, b.hash, nil, 0); err == nil && n == size {
		return nil
	}
	f.mu.Lock()
	t := f.flights[b]
	if t == nil {
		t = &flight{done: make(chan struct{})}
		f.flights[b] = t
		go func() {
			defer f.pin(b)()
			t.err = f.transfer(context.WithoutCancel(ctx), b, size, nodes)
			f.mu.Lock()
			delete(f.flights, b)
			f.mu.Unlock()
			close(t.done)
		}()
	}
	f.mu.Unlock()
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// transfer gets bytes from the first node that has them.
func (f *Files) transfer(ctx context.Context, b blob, size int64, nodes []string) error {
	err := chat.Errorf(chat.Unavailable, "the bytes of this file are on other nodes of the cluster, and none of those that have them can be reached; try again in a few seconds")
	for _, name := range nodes {
		r := &remoteBytes{ctx: ctx, files: f, node: name, of: b, size: size}
		_, why := f.local.PutBytes(ctx, b.session, b.hash, "application/octet-stream", r, size, func(got chat.FileInfo) error {
			if got.SHA256 != b.hash {
				return chat.Errorf(chat.Internal, "the bytes that node %s has sent do not have the hash %s", name, b.hash)
			}
			return nil
		})
		r.close()
		if why == nil {
			return nil
		}
		if chat.CodeOf(why) != chat.NotFound {
			f.log.Warn("a file could not be copied from another node", "node", name, "session", b.session, "hash", b.hash, "err", why)
		}
		err = err.Because(why)
	}
	return err
}

// remoteBytes reads bytes from another node.
type remoteBytes struct {
	ctx   context.Context
	files *Files
	node  string
	of    blob
	size  int64

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
	body := fields.AppendBytes(fields.AppendBytes(nil, r.of.session), r.of.hash)
	body = fields.AppendNumber(fields.AppendNumber(body, uint64(at)), uint64(want))
	go func() {
		ctx, cancel := context.WithTimeout(r.ctx, chunkTimeout)
		defer cancel()
		answer, err := r.files.request(ctx, r.node, r.of, message{msgChunk, body})
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
func (f *Files) serve(ctx context.Context, m message) ([]byte, error) {
	if m.kind == msgKeep {
		q := &keepCall{}
		if err := json.Unmarshal(m.body, q); err != nil {
			return nil, chat.Errorf(chat.Invalid, "not a request to keep files").Because(err)
		}
		return nil, f.keep(ctx, q)
	}
	r := fields.NewReader(m.body)
	id, hash := chat.SessionID(r.Bytes(255)), string(r.Bytes(64))
	at, n := r.Number(1<<62), r.Number(chunkSize)
	if !r.Done() {
		return nil, chat.Errorf(chat.Invalid, "not a request for a part of a file")
	}
	f.reads <- struct{}{}
	defer func() { <-f.reads }()
	b := make([]byte, 8+n)
	got, size, err := f.local.ReadBytes(id, hash, b[8:], int64(at))
	binary.BigEndian.PutUint64(b, uint64(size))
	return b[:8+got], err
}

// pin keeps bytes on this node until unpin is called.
func (f *Files) pin(b blob) (unpin func()) {
	f.mu.Lock()
	f.pins[b]++
	f.mu.Unlock()
	f.removing.Lock(b.key())() // a removal that did not see the pin has ended
	return func() {
		f.mu.Lock()
		f.pins[b]--
		last := f.pins[b] == 0
		if last {
			delete(f.pins, b)
		}
		f.mu.Unlock()
		if last {
			f.check(b)
		}
	}
}

func (b blob) key() string { return string(b.session) + "/" + b.hash }

// check makes run remove bytes if nothing needs them.
func (f *Files) check(list ...blob) {
	if len(list) == 0 {
		return
	}
	f.mu.Lock()
	f.unused = append(f.unused, list...)
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// run removes bytes that nothing needs until ctx ends.
func (f *Files) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		}
		f.mu.Lock()
		list := f.unused
		f.unused = nil
		f.mu.Unlock()
		for _, b := range list {
			if err := f.removeUnused(ctx, b); err != nil && ctx.Err() == nil {
				f.log.Warn("bytes of a removed artifact could not be removed", "session", b.session, "hash", b.hash, "err", err)
			}
		}
	}
}

func (f *Files) removeUnused(ctx context.Context, b blob) error {
	defer f.removing.Lock(b.key())()
	f.mu.Lock()
	pinned := f.pins[b] > 0
	f.mu.Unlock()
	if pinned {
		return nil // it is checked again with the end of the pin
	}
	named, err := f.named(ctx, b)
	if named || err != nil {
		return err
	}
	return f.local.RemoveBytes(ctx, b.session, b.hash)
}

// named reports whether a path of the session has these bytes.
func (f *Files) named(ctx context.Context, b blob) (bool, error) {
	infos, err := f.node.opt.Journal.Files(ctx, b.session)
	if code := chat.CodeOf(err); code == chat.NotFound || code == chat.Gone {
		return false, nil
	}
	return slices.ContainsFunc(infos, func(info chat.FileInfo) bool { return info.SHA256 == b.hash }), err
}

// changes are the files that a frame of changes adds, and the bytes that paths may not have any more when it is applied.
type changes struct{ added, unused []blob }

// changed returns what changes do to files. It is called before they are applied.
func (f *Files) changed(list []journal.Change) (all changes) {
	if f == nil {
		return all
	}
	for _, c := range list {
		var id chat.SessionID
		var infos []chat.FileInfo
		switch c := c.(type) {
		case *journal.CommitChange:
			id, infos = c.Session, c.Files
		case *journal.FilesChange:
			id, infos = c.Session, c.Files
		case *journal.ImportChange:
			id, infos = c.Session, c.Files
		}
		for _, info := range infos {
			if old, there, err := f.node.opt.Journal.File(context.Background(), id, info.Path); err == nil && there {
				all.unused = append(all.unused, blob{id, old.SHA256})
			}
			if info.SHA256 != "" {
				all.added = append(all.added, blob{id, info.SHA256})
			}
		}
	}
	if len(all.added) > 1 { // a path may get other bytes twice in one frame
		all.unused = append(all.unused, all.added...)
	}
	return all
}

// applied is called when changes are applied.
func (f *Files) applied(all changes) {
	if f == nil {
		return
	}
	var ends []func()
	f.mu.Lock()
	for _, b := range all.added {
		ends = append(ends, f.held[b]...)
		delete(f.held, b)
	}
	f.mu.Unlock()
	for _, end := range ends {
		end()
	}
	f.check(all.unused...)
}
