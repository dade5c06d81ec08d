package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"
	"sync"

	"github.com/parley-hq/parley/chat"
)

// Verified is an open file whose bytes are compared with their hash before all of them have
// been returned:
//
//   - A read from the beginning to the end returns the last bytes only if the hash of
//     all is right.
//   - A read of a part returns it only if the whole file was read and compared, now or
//     earlier in this process, and its version has not changed since.
type Verified struct {
	Source
	info Info
	seen *Verifications

	at    int64     // where the next Read begins
	sum   hash.Hash // of the bytes up to done
	done  int64
	sound bool // parts may be read
}

// Source is where the bytes of a Verified file come from.
type Source interface {
	io.ReadSeekCloser
	Name() string                  // of the bytes, unique among those of one Verifications
	Version() string               // changes when the bytes do
	Whole() (io.ReadCloser, error) // reads all bytes beside the Source
}

// Verifications remembers which files were compared with their hash. The zero value works.
type Verifications struct {
	mu      sync.Mutex
	sound   map[string]identity      // by name
	reading map[string]chan struct{} // by name: closed when the whole file was read
}

// identity identifies a file that was compared before.
type identity struct {
	sum     string
	size    int64
	version string
}

// maxSound bounds the files that are remembered.
const maxSound = 10_000

// Add says that bytes were compared with the hash of info.
func (v *Verifications) Add(name string, info Info, version string) {
	v.add(name, identity{info.SHA256, info.Size, version})
}

func (v *Verifications) add(name string, id identity) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.sound == nil || len(v.sound) >= maxSound {
		v.sound = map[string]identity{}
	}
	v.sound[name] = id
}

// begin reports whether a file was compared before. If not, the caller compares it and calls end. Callers for one name wait for
// each other.
func (v *Verifications) begin(name string, id identity) (sound bool, end func()) {
	for {
		v.mu.Lock()
		if was, ok := v.sound[name]; ok && was == id {
			v.mu.Unlock()
			return true, func() {}
		}
		other := v.reading[name]
		if other == nil {
			break
		}
		v.mu.Unlock()
		<-other
	}
	defer v.mu.Unlock()
	if v.reading == nil {
		v.reading = map[string]chan struct{}{}
	}
	done := make(chan struct{})
	v.reading[name] = done
	return false, func() {
		v.mu.Lock()
		delete(v.reading, name)
		v.mu.Unlock()
		close(done)
	}
}

// Open returns a file that is compared with the hash of info while it is read.
func (v *Verifications) Open(s Source, info Info) *Verified {
	return &Verified{Source: s, info: info, seen: v, sum: sha256.New()}
}

// check wraps an open file. It returns an error when the size is wrong.
func (l *Local) check(f *os.File, info Info) (*Verified, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if fi.Size() != info.Size {
		return nil, damaged(info, "it has %d bytes instead of %d", fi.Size(), info.Size)
	}
	return l.seen.Open(&localSource{f, info.Size, fi.ModTime().String()}, info), nil
}

// localSource is a file on disk.
type localSource struct {
	*os.File
	size    int64
	version string
}

// Version returns the time of the last change.
func (s *localSource) Version() string { return s.version }

// Whole reads the file from its beginning.
func (s *localSource) Whole() (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(s.File, 0, s.size)), nil
}

func damaged(info Info, format string, args ...any) error {
	why := chat.Errorf(chat.Internal, format, args...).Msg
	return chat.Errorf(chat.Internal, "artifact %q is damaged on the server: %s; upload it again, or restore it from a backup (parley verify names all damage)", info.Path, why)
}

// Read reads on from where the last Read or Seek ended.
func (c *Verified) Read(p []byte) (int, error) {
	if c.at != c.done && !c.sound {
		if err := c.compare(); err != nil {
			return 0, err
		}
	}
	n, err := c.Source.Read(p)
	if c.at == c.done {
		c.sum.Write(p[:n])
		c.done += int64(n)
		if c.done >= c.info.Size && !c.right(c.sum) {
			return 0, damaged(c.info, "its bytes have changed")
		}
	}
	c.at += int64(n)
	if errors.Is(err, io.EOF) && c.at < c.info.Size {
		return n, damaged(c.info, "it was cut while it was read")
	}
	return n, err
}

// right compares a hash of all bytes.
func (c *Verified) right(sum hash.Hash) bool {
	if c.done > c.info.Size || hex.EncodeToString(sum.Sum(nil)) != c.info.SHA256 {
		return false
	}
	c.sound = true
	c.seen.add(c.Name(), c.identity())
	return true
}

func (c *Verified) identity() identity {
	return identity{c.info.SHA256, c.info.Size, c.Version()}
}

// compare reads the whole file, unless that was done before. Readers of one file do it once.
func (c *Verified) compare() error {
	var end func()
	if c.sound, end = c.seen.begin(c.Name(), c.identity()); c.sound {
		return nil
	}
	defer end()
	whole, err := c.Whole()
	if err != nil {
		return err
	}
	defer whole.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, whole); err != nil {
		return err
	}
	if !c.right(sum) {
		return damaged(c.info, "its bytes have changed")
	}
	return nil
}

// Seek sets where the next Read begins.
func (c *Verified) Seek(offset int64, whence int) (int64, error) {
	at, err := c.Source.Seek(offset, whence)
	if err == nil {
		c.at = at
	}
	return at, err
}
