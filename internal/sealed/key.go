package sealed

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// keyFile is the content of a key's file.
type keyFile struct {
	Key []byte `json:"key"`
}

// Key reads a secret key of a size. When there is no file it makes a key, stores it and returns made true: signatures of
// an earlier key are then no longer valid.
func Key(file string, size int) (key []byte, made bool, err error) {
	var k keyFile
	err = ReadFile(file, &k)
	if err == nil && len(k.Key) != size {
		err = ErrDamaged
	}
	switch {
	case err == nil:
		return k.Key, false, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, false, fmt.Errorf("the key in %s cannot be used: %w. Restore the file from a backup, or remove it: a new key is made then, and what was signed with the old one is refused", file, err)
	}
	k.Key = make([]byte, size)
	_, _ = rand.Read(k.Key) // does not fail
	if err := WriteFile(file, k); err != nil {
		_ = os.Remove(file + ".new")
		return nil, false, fmt.Errorf("the key %s cannot be stored: %w", file, err)
	}
	return k.Key, true, nil
}
