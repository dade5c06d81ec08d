package journal

import (
	"context"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// Record returns a session's record. Its Last and UpdatedAt are those of the
// newest durable event.
func (j *Journal) Record(_ context.Context, id chat.SessionID) (rec chat.Session, err error) {
	defer func() { err = j.unlessErased(id, err) }()
	if _, err := j.look(id); err != nil {
		return rec, err
	}
	for current := false; !current; {
		h, s, err := j.find(id)
		if err != nil {
			return rec, err
		}
		if rec, current, err = j.recordUpTo(id, h, s); err != nil {
			return chat.Session{}, err
		}
	}
	return rec, nil
}

// recordUpTo returns the record with the durable end of a head. current is false
// when the cache has dropped this head and the session has newer events.
func (j *Journal) recordUpTo(id chat.SessionID, h *head, s *shard) (rec chat.Session, current bool, err error) {
	if rec, err = j.record(id, h.number); err != nil {
		return rec, false, err
	}
	s.mu.Lock()
	for rec.Last > h.durable.seq && h.inflight > 0 && j.failure.Load() == nil {
		// The record belongs to a commit whose sync is in progress. It must not be
		// visible before, and the previous record is overwritten.
		s.settled.Wait()
	}
	end, kept := h.durable, s.heads[id] == h
	s.mu.Unlock()
	if rec.Last <= end.seq {
		rec.Last, rec.UpdatedAt = end.seq, end.at
		return rec, true, nil
	}
	if err := j.failed(); err != nil || !kept {
		return rec, false, err
	}
	return rec, false, damaged(id, rec.Last, "its record is newer than its last event")
}

// Read returns stored events. more reports whether further ones match beyond the
// limit. The caller may keep the bytes of the facts.
func (j *Journal) Read(ctx context.Context, id chat.SessionID, r chat.Range) (facts []chat.Fact, more bool, err error) {
	defer func() { err = j.unlessErased(id, err) }()
	v, err := j.look(id)
	if err != nil {
		return nil, false, err
	}
	upper := v.seq + 1
	if r.Before != 0 && r.Before < upper {
		upper = r.Before
	}
	if r.After >= upper { // also prevents an overflow of After+1
		return nil, false, nil
	}
	it, err := j.db.NewIter(&pebble.IterOptions{
		LowerBound: seqKey(nil, kEvent, v.number, r.After+1), UpperBound: seqKey(nil, kEvent, v.number, upper),
	})
	if err != nil {
		return nil, false, err
	}
	defer it.Close()
	step := it.Next
	ok := false
	expect := r.After + 1
	if r.Desc {
		step, ok, expect = it.Prev, it.Last(), upper-1
	} else {
		ok = it.First()
	}
	left := upper - r.After - 1
	var slab slab
	var size int
	for ; ok; ok = step() {
		d, _ := decodeKey(it.Key())
		if d.seq != expect {
			return nil, false, j.lost(id, expect, "the event is missing")
		}
		if r.Desc {
			expect--
		} else {
			expect++
		}
		if left--; left%1024 == 0 && ctx.Err() != nil {
			return nil, false, ctx.Err()
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, false, fmt.Errorf("read session %s: %w", id, err)
		}
		match, err := matches(&r, d.seq, value)
		if err != nil {
			return nil, false, damaged(id, d.seq, "the event is unreadable")
		}
		if !match {
			continue
		}
		if len(facts) > 0 && (r.Limit > 0 && len(facts) >= r.Limit || r.MaxBytes > 0 && size+len(value) > r.MaxBytes) {
			return facts, true, nil
		}
		size += len(value)
		facts = append(facts, chat.Fact{Seq: d.seq, JSON: slab.keep(value)})
	}
	if err := it.Error(); err != nil {
		return nil, false, fmt.Errorf("read session %s: %w", id, err)
	}
	if left != 0 {
		return nil, false, j.lost(id, expect, "the event is missing")
	}
	return facts, false, nil
}

// unlessErased returns Gone instead of err when the session was erased while it was read.
func (j *Journal) unlessErased(id chat.SessionID, err error) error {
	if err != nil && chat.CodeOf(err) == chat.Internal {
		if _, gone := j.look(id); chat.CodeOf(gone) == chat.Gone {
			return gone
		}
	}
	return err
}

func matches(r *chat.Range, seq chat.Seq, value []byte) (bool, error) {
	if r.Types == nil && r.Workstream == nil {
		return true, nil
	}
	label, err := chat.Fact{Seq: seq, JSON: value}.Label()
	if err != nil {
		return false, err
	}
	if r.Types != nil && !slices.Contains(r.Types, label.Type) {
		return false, nil
	}
	return r.Workstream == nil || *r.Workstream == label.Workstream, nil
}

// slab copies values into shared allocations that grow with what is read.
type slab struct {
	free []byte
	next int
}

func (s *slab) keep(v []byte) []byte {
	if len(v) > cap(s.free)-len(s.free) {
		s.free = make([]byte, 0, max(len(v), s.next))
		s.next = min(max(1<<10, 2*s.next), 64<<10)
	}
	from := len(s.free)
	s.free = append(s.free, v...)
	return s.free[from:len(s.free):len(s.free)]
}

// Get returns one event.
func (j *Journal) Get(_ context.Context, id chat.SessionID, seq chat.Seq) (f chat.Fact, err error) {
	defer func() { err = j.unlessErased(id, err) }()
	v, err := j.look(id)
	if err != nil {
		return chat.Fact{}, err
	}
	if seq == 0 || seq > v.seq {
		return chat.Fact{}, chat.Errorf(chat.NotFound, "session %s has no event %d; its last is %d", id, seq, v.seq)
	}
	b, err := j.get(seqKey(nil, kEvent, v.number, seq))
	if err != nil {
		return chat.Fact{}, err
	}
	if b == nil {
		return chat.Fact{}, j.lost(id, seq, "the event is missing")
	}
	return chat.Fact{Seq: seq, JSON: b}, nil
}

// ByClientID returns the event that an actor's idempotency key made; ok is
// false when there is none.
func (j *Journal) ByClientID(_ context.Context, id chat.SessionID, actorKey, clientID string) (k core.Key, ok bool, err error) {
	v, err := j.look(id)
	if err != nil {
		return k, false, err
	}
	b, err := j.get(numberHashKey(nil, kClient, v.number, hashOf(actorKey, clientID)))
	if b == nil || err != nil {
		return k, false, err
	}
	seq, digest, ok := decodeClient(b)
	if !ok {
		return k, false, damaged(id, 0, "the index entry of a client id is unreadable")
	}
	if seq > v.seq { // not durable yet
		return k, false, nil
	}
	return core.Key{Actor: actorKey, ClientID: clientID, Digest: digest, Seq: seq}, true, nil
}

// Ends returns the piece boundaries of the block that event seq finished, nil
// when none were kept.
func (j *Journal) Ends(_ context.Context, id chat.SessionID, seq chat.Seq) ([]chat.End, error) {
	v, err := j.look(id)
	if err != nil {
		return nil, err
	}
	b, err := j.get(seqKey(nil, kEnds, v.number, seq))
	if b == nil || err != nil {
		return nil, err
	}
	ends, ok := decodeEnds(b)
	if !ok {
		return nil, damaged(id, seq, "the piece boundaries are unreadable")
	}
	return ends, nil
}
