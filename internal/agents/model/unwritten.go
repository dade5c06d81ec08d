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
	arrived chan struct{} // has room for one
	room    chan struct{} // has room for one
	done    chan struct{} // closed after the last delta

	mu    sync.Mutex
	parts []unwrittenPart
	size  int
}

// unwrittenPart is the text of deltas of one block.
type unwrittenPart struct {
	kind  llm.DeltaKind
	index int
	text  []byte
}

func newUnwritten() *unwritten {
	return &unwritten{arrived: make(chan struct{}, 1), room: make(chan struct{}, 1), done: make(chan struct{})}
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
	notify(u.arrived)
	return nil
}

func (u *unwritten) tryAdd(d *llm.Delta) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.size >= maxUnwritten {
		return false
	}
	u.size += len(d.Text)
	if n := len(u.parts); n == 0 || u.parts[n-1].kind != d.Kind || u.parts[n-1].index != d.Index {
		u.parts = append(u.parts, unwrittenPart{kind: d.Kind, index: d.Index})
	}
	last := &u.parts[len(u.parts)-1]
	last.text = append(last.text, d.Text...)
	return true
}

// take removes what waits and returns it, the deltas of a block that follow each other as one.
func (u *unwritten) take() []llm.Delta {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := make([]llm.Delta, len(u.parts))
	for i, p := range u.parts {
		all[i] = llm.Delta{Kind: p.kind, Index: p.index, Text: string(p.text)}
	}
	u.parts, u.size = nil, 0
	notify(u.room)
	return all
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
