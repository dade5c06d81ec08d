package cluster

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"os"
)

// Secret is what all nodes of a cluster share. Every key of the cluster is derived from it.
type Secret struct{ bytes []byte }

const minSecret = 16

// ParseSecret takes the contents of a secret file. Space at its end is ignored.
func ParseSecret(b []byte) (Secret, error) {
	b = bytes.TrimRight(b, " \t\r\n")
	if len(b) < minSecret {
		return Secret{}, fmt.Errorf("the secret of the cluster has %d bytes and needs at least %d; openssl rand -hex 32 makes one", len(b), minSecret)
	}
	return Secret{bytes.Clone(b)}, nil
}

// ReadSecret reads a secret file.
func ReadSecret(name string) (Secret, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return Secret{}, err
	}
	return ParseSecret(b)
}

// Key returns the key for a purpose: 32 bytes. Keys for different purposes reveal nothing about each other or about the
// secret.
func (s Secret) Key(purpose string) []byte {
	key, err := hkdf.Key(sha256.New, s.bytes, nil, "parley cluster: "+purpose, sha256.Size)
	if err != nil {
		panic(err) // only for other lengths
	}
	return key
}
