package node

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/fields"
	"github.com/parley-hq/parley/internal/json"
)

// A node without a usable store gets that of another node. The other node makes a checkpoint, whose files do not change, and the
// node that needs it asks for their bytes. The checkpoint has the positions up to which the logs are in it.

// A request about a copy: one of these bytes, and what it needs.
const (
	copyBegin = 'b' // make a checkpoint; the answer is a manifest
	copyChunk = 'c' // a part of a file: the id of the copy, the number of the file, offset and length
	copyEnd   = 'e' // the checkpoint is not needed any more: the id of the copy
)

const (
	copyIdle     = time.Minute // without a request until a checkpoint is removed
	copyBeginMax = 2 * time.Minute
	copyAhead    = 8 // requests for chunks that wait for their replies
)

// copyManifest describes a checkpoint.
type copyManifest struct {
	ID    string     `json:"id"`
	Files []copyFile `json:"files"`
}

type copyFile struct {
	Path string `json:"path"` // below the folder, with slashes
	Size int64  `json:"size"`
}

func (m *copyManifest) bytes() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// outgoing are the checkpoints for other nodes.
type outgoing struct {
	mu  sync.Mutex
	all map[string]*checkpoint
}

type checkpoint struct {
	dir   string
	files []copyFile
	idle  *time.Timer
}

// serveCopy handles a request of a node that needs a copy.
func (n *Node) serveCopy(ctx context.Context, body []byte) ([]byte, error) {
	r := fields.NewReader(body)
	switch kind := r.Byte(); {
	case kind == copyBegin && r.Done():
		return n.beginCopy(ctx)
	case kind == copyChunk:
		id, file := string(r.Bytes(64)), r.Number(1<<31)
		at, want := r.Number(1<<62), r.Number(chunkSize)
		if r.Done() {
			return n.outgoing.read(id, int(file), int64(at), int(want))
		}
	case kind == copyEnd:
		if id := string(r.Bytes(64)); r.Done() {
			n.outgoing.remove(id)
			return nil, nil
		}
	}
	return nil, chat.Errorf(chat.Invalid, "not a request for a copy of the store")
}

// beginCopy makes a checkpoint.
func (n *Node) beginCopy(ctx context.Context) ([]byte, error) {
	if n.opt.Folder == "" {
		return nil, chat.Errorf(chat.Unavailable, "this node does not send its store")
	}
	if n.opt.MaySend != nil {
		if err := n.opt.MaySend(); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp(n.opt.Folder, n.opt.FolderPrefix)
	if err != nil {
		return nil, err
	}
	c := &checkpoint{dir: dir}
	if err = n.opt.Journal.Backup(ctx, filepath.Join(dir, "store")); err == nil {
		c.files, err = listFiles(filepath.Join(dir, "store"))
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	m := copyManifest{ID: rand.Text(), Files: c.files}
	b, err := json.Marshal(m)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	n.outgoing.mu.Lock()
	if n.outgoing.all == nil {
		n.outgoing.all = map[string]*checkpoint{}
	}
	n.outgoing.all[m.ID] = c
	c.idle = time.AfterFunc(copyIdle, func() { n.outgoing.remove(m.ID) })
	n.outgoing.mu.Unlock()
	n.log.Info("another node copies the store of this one", "bytes", m.bytes(), "files", len(m.Files))
	return b, nil
}

// listFiles returns the files below a folder.
func listFiles(dir string) (files []copyFile, err error) {
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		files = append(files, copyFile{filepath.ToSlash(rel), info.Size()})
		return err
	})
	return files, err
}

// read returns a part of a file, behind its hash.
func (o *outgoing) read(id string, file int, at int64, n int) ([]byte, error) {
	o.mu.Lock()
	c := o.all[id]
	if c != nil {
		c.idle.Reset(copyIdle)
	}
	o.mu.Unlock()
	if c == nil || file >= len(c.files) || at+int64(n) > c.files[file].Size {
		return nil, chat.Errorf(chat.NotFound, "this node does not have that copy of its store any more")
	}
	f, err := os.Open(filepath.Join(c.dir, "store", filepath.FromSlash(c.files[file].Path)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, sha256.Size+n)
	if _, err := f.ReadAt(b[sha256.Size:], at); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	sum := sha256.Sum256(b[sha256.Size:])
	copy(b, sum[:])
	return b, nil
}

func (o *outgoing) remove(id string) {
	o.mu.Lock()
	c := o.all[id]
	delete(o.all, id)
	o.mu.Unlock()
	if c != nil {
		c.idle.Stop()
		_ = os.RemoveAll(c.dir) // the next start removes what is left
	}
}

// empty returns an error while another node copies the store of this one: the checkpoint has what was erased since.
func (o *outgoing) empty() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.all) > 0 {
		return chat.Errorf(chat.Unavailable, "another node is copying the store of this one")
	}
	return nil
}

func (o *outgoing) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.all)
}

// close removes all checkpoints.
func (o *outgoing) close() {
	o.mu.Lock()
	ids := make([]string, 0, len(o.all))
	for id := range o.all {
		ids = append(ids, id)
	}
	o.mu.Unlock()
	for _, id := range ids {
		o.remove(id)
	}
}

// FetchStore copies the store of another node into an empty folder and syncs its files. room is asked whether the disk has room
// for all bytes; progress is called now and then. Both may be nil.
func FetchStore(ctx context.Context, t Transport, node, dir string, room func(bytes int64) error, progress func(done, total int64)) error {
	ask := func(ctx context.Context, body []byte) ([]byte, error) {
		reply, err := t.Request(ctx, node, 0, message{kind: msgCopy, body: body}.encode(&part{}))()
		if err != nil {
			return nil, err
		}
		answer, _, err := decodeReply(reply)
		return answer, err
	}
	begin, cancel := context.WithTimeout(ctx, copyBeginMax)
	b, err := ask(begin, []byte{copyBegin})
	cancel()
	if err != nil {
		return fmt.Errorf("node %s does not send its store: %w", node, err)
	}
	m := &copyManifest{}
	if err := json.Unmarshal(b, m); err != nil {
		return fmt.Errorf("the list of files of node %s: %w", node, err)
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = ask(end, fields.AppendBytes([]byte{copyEnd}, m.ID)) // without it the node removes the checkpoint later
	}()
	if room != nil {
		if err := room(m.bytes()); err != nil {
			return err
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var done int64
	for i, f := range m.Files {
		got := func(n int) {
			done += int64(n)
			if progress != nil {
				progress(done, m.bytes())
			}
		}
		if err := fetchFile(ctx, root, m.ID, i, f, ask, got); err != nil {
			return fmt.Errorf("copy %s of node %s: %w", f.Path, node, err)
		}
	}
	return nil
}

// fetchFile writes one file of a copy.
func fetchFile(ctx context.Context, root *os.Root, id string, number int, f copyFile, ask func(context.Context, []byte) ([]byte, error), got func(int)) (err error) {
	name := filepath.FromSlash(f.Path)
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var waiting []chan chunk
	for asked := int64(0); asked < f.Size || len(waiting) > 0; {
		for ; asked < f.Size && len(waiting) < copyAhead; asked += chunkSize {
			c, at, want := make(chan chunk, 1), asked, min(chunkSize, f.Size-asked)
			waiting = append(waiting, c)
			go func() {
				body := fields.AppendBytes([]byte{copyChunk}, id)
				for _, v := range []int64{int64(number), at, want} {
					body = fields.AppendNumber(body, uint64(v))
				}
				ctx, cancel := context.WithTimeout(ctx, chunkTimeout)
				defer cancel()
				b, err := ask(ctx, body)
				if err == nil && int64(len(b)) != sha256.Size+want {
					err = errors.New("a part of it has another length")
				}
				c <- chunk{b, err}
			}()
		}
		part := <-waiting[0]
		waiting = waiting[1:]
		if part.err != nil {
			return part.err
		}
		data := part.data[sha256.Size:]
		if sum := sha256.Sum256(data); !slices.Equal(sum[:], part.data[:sha256.Size]) {
			return errors.New("a part of it does not have its hash")
		}
		if _, err := out.Write(data); err != nil {
			return err
		}
		got(len(data))
	}
	return out.Sync()
}
