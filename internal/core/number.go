package core

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/parley-hq/parley/chat"
)

// NumberBits is how many bits of a chat.Number are used.
const NumberBits = 52

// NumberFor proposes the number of a session; try is 0, and counts up while the
// number is taken by another session.
func NumberFor(id chat.SessionID, try int) chat.Number {
	h := sha256.New()
	h.Write([]byte(id))
	if try > 0 {
		h.Write([]byte{0, byte(try)})
	}
	var sum [32]byte
	n := chat.Number(binary.BigEndian.Uint64(h.Sum(sum[:0])) >> (64 - NumberBits))
	if n == 0 {
		n = 1
	}
	return n
}
