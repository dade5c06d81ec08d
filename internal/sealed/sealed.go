// Package sealed reads and writes small JSON files with a checksum, so that a changed
// file is reported instead of used.
//
// [Marshal] and [Unmarshal] add and check the checksum, which is the last member of the
// JSON object; [WriteFile] and [ReadFile] do the same with a file. WriteFile replaces the
// file atomically and syncs it. [Key] reads a secret key or makes a new one.
//
// All functions may be called concurrently, but for one file one WriteFile at a time.
package sealed

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/parley-hq/parley/internal/json"
)

// ErrDamaged means that a file has changed since it was written.
var ErrDamaged = errors.New("the checksum does not match: the file was changed, cut or replaced")

var table = crc32.MakeTable(crc32.Castagnoli)

// The checksum is the last member of the object.
const member = `,"crc32c":"%08x"}`

const memberLen = len(`,"crc32c":"00000000"}`)

// Marshal returns v, which must be a JSON object with at least one member, and
// its checksum.
func Marshal(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(b) < 3 || b[len(b)-1] != '}' {
		return nil, fmt.Errorf("%T is not a JSON object with members", v)
	}
	sum := crc32.Checksum(b, table)
	return fmt.Appendf(b[:len(b)-1], member, sum), nil
}

// Unmarshal checks what Marshal returned and decodes it. Its error is
// ErrDamaged when a bit has changed.
func Unmarshal(b []byte, v any) error {
	cut := len(b) - memberLen
	if cut < 2 {
		return ErrDamaged
	}
	text := append(bytes.Clone(b[:cut]), '}')
	if !bytes.Equal(b[cut:], fmt.Appendf(nil, member, crc32.Checksum(text, table))) {
		return ErrDamaged
	}
	return json.Unmarshal(text, v)
}

// ReadFile decodes a file. Its error is ErrDamaged, or that of reading it.
func ReadFile(file string, v any) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return Unmarshal(b, v)
}

// WriteFile replaces a file by v. A crash leaves the old file or the new one.
func WriteFile(file string, v any) error {
	b, err := Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(file+".new", file); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
