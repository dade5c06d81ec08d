package model

import (
	"context"
	"sync"

	"github.com/parley-hq/parley/internal/llm"
)

// maxUnwritten is how many bytes of an answer may wait to be written before its model has to wait.
const maxUnwritten = 64 << 10

// unwritten has the deltas of an answer that wait to be written. It takes no more memory than their text: a server has one for each
// answer that is being written, and most of them are empty most of the time.
type unwritten struct {
	room chan struct{} // has room for one
	done chan struct{} // closed after the last delta

	mu      sync.Mutex
	deltas  []llm.Delta // those of a block that follow each other are one
	joined  []byte      // the text of the last one if it was several; nil if it was one
	size    int
	writing bool // a goroutine writes what waits
}

func newUnwritten() *unwritten {
	return &unwritten{room: make(chan struct{}, 1), done: make(chan struct{})}
}

// add adds a delta. It waits for room, at most until ctx ends.
func (u *unwritten) add(ctx context.Context, d llm.Delta) error {
	for !u.tryAdd(&d) {
		select {
		case <-u.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (u *unwritten) tryAdd(d *llm.Delta) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.size >= maxUnwritten {
		return false
	}
	u.size += len(d.Text)
	n := len(u.deltas)
	if n == 0 || u.deltas[n-1].Kind != d.Kind || u.deltas[n-1].Index != d.Index {
		u.join()
		u.deltas = append(u.deltas, *d)
		return true
	}
	if u.joined == nil {
		u.joined = []byte(u.deltas[n-1].Text)
	}
	u.joined = append(u.joined, d.Text...)
	return true
}

// join completes the text of the last delta. The caller holds mu.
func (u *unwritten) join() {
	if u.joined != nil {
		u.deltas[len(u.deltas)-1].Text, u.joined = string(u.joined), nil
	}
}

// take removes what waits and returns it, the deltas of a block that follow each other as one.
func (u *unwritten) take() []llm.Delta {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.join()
	all := u.deltas
	u.deltas, u.size = nil, 0
	select {
	case u.room <- struct{}{}:
	default:
	}
	return all
}

// startWriting reports whether the caller has to start the goroutine that writes.
func (u *unwritten) startWriting() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	start := !u.writing && len(u.deltas) > 0
	u.writing = u.writing || start
	return start
}

// keepWriting reports whether deltas wait. If none do, the goroutine that writes ends.
func (u *unwritten) keepWriting() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.writing = len(u.deltas) > 0
	return u.writing
}
