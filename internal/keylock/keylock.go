// Package keylock serialises work by key with a fixed number of locks.
package keylock

import (
	"hash/maphash"
	"sync"
)

// Locks is a set of locks. Different keys may have the same lock, so a goroutine that holds one must not take a second.
type Locks [64]sync.Mutex

var seed = maphash.MakeSeed()

// Lock takes the lock of a key; the caller must call unlock.
func (l *Locks) Lock(key string) (unlock func()) {
	m := &l[maphash.String(seed, key)%uint64(len(l))]
	m.Lock()
	return m.Unlock
}
