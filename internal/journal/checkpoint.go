package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
)

// putCheckpoint stores the state of a commit and deletes all older checkpoints but
// one, which is used when the newest is unreadable.
func putCheckpoint(r pebble.Reader, b *pebble.Batch, n chat.Number, c *core.Commit) error {
	it, err := iterOf(r, numberKey(nil, kState, n))
	if err != nil {
		return err
	}
	var old [][]byte
	if it.Last() {
		for it.Prev() {
			old = append(old, bytes.Clone(it.Key()))
		}
	}
	for _, key := range old {
		b.Delete(key, nil)
	}
	last := c.Events[len(c.Events)-1].Seq
	b.Set(seqKey(nil, kState, n, last), c.Checkpoint, nil)
	return errors.Join(it.Error(), it.Close())
}

// Load returns the state of a session: its newest checkpoint and the fold of
// the events after it. It checks the chain of those events up to the head and
// names the sequence at which it is broken.
func (j *Journal) Load(ctx context.Context, id chat.SessionID) (*chat.State, error) {
	v, err := j.look(id)
	if err != nil {
		return nil, err
	}
	s, err := j.checkpoint(id, v)
	if err == nil {
		err = j.fold(ctx, id, v, s)
	}
	if err != nil {
		return nil, j.unlessErased(id, err)
	}
	return s, nil
}

// checkpoint returns the newest readable state at or before the durable end, an
// empty one when there is none.
func (j *Journal) checkpoint(id chat.SessionID, v view) (*chat.State, error) {
	it, err := j.db.NewIter(&pebble.IterOptions{
		LowerBound: seqKey(nil, kState, v.number, 0), UpperBound: seqKey(nil, kState, v.number, v.seq+1),
	})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for ok := it.Last(); ok; ok = it.Prev() {
		d, _ := decodeKey(it.Key())
		var s chat.State
		if err := json.Unmarshal(it.Value(), &s); err == nil && s.Last == d.seq && s.Number == v.number {
			return &s, nil
		}
		// The events are in the log: loading only takes longer.
		j.opt.Logger.Error("a checkpoint is unreadable, using the log instead", "session", id, "sequence", d.seq)
	}
	return &chat.State{Number: v.number}, it.Error()
}

// fold applies the events after s up to the durable end.
func (j *Journal) fold(ctx context.Context, id chat.SessionID, v view, s *chat.State) error {
	it, err := j.db.NewIter(&pebble.IterOptions{
		// The event before the first one is read for its hash.
		LowerBound: seqKey(nil, kEvent, v.number, s.Last), UpperBound: seqKey(nil, kEvent, v.number, v.seq+1),
	})
	if err != nil {
		return err
	}
	defer it.Close()
	expect := max(s.Last, 1)
	for ok := it.First(); ok; ok = it.Next() {
		if expect%512 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		d, _ := decodeKey(it.Key())
		if d.seq != expect {
			return j.lost(id, expect, "the event is missing")
		}
		fact := chat.Fact{Seq: d.seq, JSON: append([]byte(nil), it.Value()...)}
		if d.seq > s.Last {
			e, err := fact.Event()
			switch {
			case err != nil:
				return damaged(id, d.seq, "the event is unreadable")
			case e.Seq != d.seq || e.Session != id:
				return damaged(id, d.seq, "another event is stored in its place")
			case e.Prev != s.Head:
				return damaged(id, d.seq, "it does not follow the event before it")
			}
			s.Apply(&e)
		}
		s.Head = fact.Hash()
		expect++
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("read session %s: %w", id, err)
	}
	if expect != v.seq+1 {
		return j.lost(id, expect, "the event is missing")
	}
	if s.Head != v.hash {
		return damaged(id, v.seq, "the last event is not the one that the head refers to")
	}
	return nil
}
