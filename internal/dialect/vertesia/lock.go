package vertesia

import (
	"hash/maphash"
	"sync"

	"github.com/parley-hq/parley/chat"
)

// locks serialises changes to the files and to the posted chunks of one session.
// Sessions share a fixed number of locks.
type locks [64]sync.Mutex

var lockSeed = maphash.MakeSeed()

// hold locks a session; the caller calls release when it is done.
func (l *locks) hold(id chat.SessionID) (release func()) {
	m := &l[maphash.String(lockSeed, string(id))%uint64(len(l))]
	m.Lock()
	return m.Unlock
}
