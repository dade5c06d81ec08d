package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"
	"time"

	"github.com/parley-hq/parley/chat"
)

// checked is a file whose bytes are compared with their hash before all of them have
// been returned:
//
//   - The size is compared when the file is opened.
//   - A read from the beginning to the end returns the last bytes only if the hash of
//     all is right.
//   - A read of a part returns it only if the whole file was read and compared, now or
//     earlier in this process, and its size and time have not changed since.
type checked struct {
	f    *os.File
	l    *Local
	info Info
	id   identity

	at    int64     // where the next Read begins
	sum   hash.Hash // of the bytes up to done
	done  int64
	sound bool // parts may be read
}

// identity identifies a file that was compared before.
type identity struct {
	sum  string
	size int64
	time time.Time
}

// maxSound bounds the files that are remembered.
const maxSound = 10_000

// check wraps an open file. It returns an error when the size is wrong.
func (l *Local) check(f *os.File, info Info) (*checked, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if fi.Size() != info.Size {
		return nil, damaged(info, "it has %d bytes instead of %d", fi.Size(), info.Size)
	}
	return &checked{f: f, l: l, info: info, id: identity{info.SHA256, fi.Size(), fi.ModTime()}, sum: sha256.New()}, nil
}

func damaged(info Info, format string, args ...any) error {
	why := chat.Errorf(chat.Internal, format, args...).Msg
	return chat.Errorf(chat.Internal, "artifact %q is damaged on the server: %s; upload it again, or restore it from a backup (parley verify names all damage)", info.Path, why)
}

// Read reads on from where the last Read or Seek ended.
func (c *checked) Read(p []byte) (int, error) {
	if c.at != c.done && !c.sound {
		if err := c.compare(); err != nil {
			return 0, err
		}
	}
	n, err := c.f.Read(p)
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
func (c *checked) right(sum hash.Hash) bool {
	if c.done > c.info.Size || hex.EncodeToString(sum.Sum(nil)) != c.info.SHA256 {
		return false
	}
	c.sound = true
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if len(c.l.sound) >= maxSound {
		clear(c.l.sound)
	}
	c.l.sound[c.f.Name()] = c.id
	return true
}

// compare reads the whole file, unless that was done before.
func (c *checked) compare() error {
	c.l.mu.Lock()
	id, ok := c.l.sound[c.f.Name()]
	c.l.mu.Unlock()
	if c.sound = ok && id == c.id; c.sound {
		return nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(c.f, 0, c.info.Size)); err != nil {
		return err
	}
	if !c.right(sum) {
		return damaged(c.info, "its bytes have changed")
	}
	return nil
}

// Seek sets where the next Read begins.
func (c *checked) Seek(offset int64, whence int) (int64, error) {
	at, err := c.f.Seek(offset, whence)
	if err == nil {
		c.at = at
	}
	return at, err
}

// Close closes the file.
func (c *checked) Close() error { return c.f.Close() }
