package journal

import (
	"context"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
)

// Commit stores c as one atomic unit and returns when it is durable. It returns
// Conflict, with the last sequence in the details, when c.After is not the
// session's last event or the session to be created exists; NotFound or Gone when
// the session does not exist; Unavailable when nothing can be written. The end of
// ctx does not interrupt a sync that has begun.
func (j *Journal) Commit(ctx context.Context, c *chat.Commit) error {
	start := time.Now()
	if err := checkCommit(c); err != nil {
		return err
	}
	if err := j.writable(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	b := j.db.NewBatch()
	lock := j.commitLock(c.Session)
	lock.Lock()
	err := j.stage(c, b)
	lock.Unlock()
	if err != nil {
		return err
	}
	j.spend(c)
	j.previews.committed(c)
	j.metrics.committed(c, time.Since(start))
	return nil
}

// checkCommit refuses a commit that is not well formed.
func checkCommit(c *chat.Commit) error {
	bad := func(why string) error { return chat.Errorf(chat.Invalid, "not a commit: %s", why) }
	switch {
	case c == nil:
		return bad("there is none")
	case c.Record == nil != (len(c.RecordJSON) == 0) || c.Record == nil && c.After == 0:
		return bad("the record is missing")
	case len(c.Events) == 0 || len(c.Events) != len(c.Facts):
		return bad("it needs events and as many facts")
	case c.Number == 0 || c.Number >= 1<<chat.NumberBits:
		return bad("the session has no number")
	}
	for i := range c.Events {
		if seq := c.After + chat.Seq(i) + 1; c.Events[i].Seq != seq || c.Facts[i].Seq != seq || seq > chat.MaxSeq {
			return bad("the events are not contiguous")
		}
	}
	if c.After == 0 {
		return c.Session.Validate()
	}
	return nil
}

// stage checks c against the head, fills b and stores it. The caller holds the
// session's commit lock.
func (j *Journal) stage(c *chat.Commit, b *pebble.Batch) error {
	fail := func(err error) error {
		b.Close()
		return err
	}
	s := j.shard(c.Session)
	var h *head
	if c.After == 0 {
		lock := j.createLock(c.Number)
		lock.Lock()
		defer lock.Unlock()
		if err := j.checkFree(c.Session, c.Number); err != nil {
			return fail(err)
		}
		h = &head{number: c.Number, full: true}
		b.Set(hashKey(nil, kID, idHash(c.Session)), appendNumber(nil, c.Number), nil)
		b.Set(numberKey(nil, kName, c.Number), []byte(c.Session), nil)
	} else {
		var err error
		if h, _, err = j.find(c.Session); err != nil {
			return fail(err)
		}
		if h.number != c.Number {
			return fail(chat.Errorf(chat.Invalid, "session %s has another number", c.Session))
		}
		if h.last.seq != c.After {
			j.metrics.conflicts.Inc()
			return fail(conflict(c.Session, h.last.seq))
		}
		if err := j.fill(c.Session, h); err != nil {
			return fail(err)
		}
	}
	if c.Events[0].Prev != h.last.hash {
		return fail(chat.Errorf(chat.Conflict, "the first event does not follow the last one of session %s", c.Session).With("last", h.last.seq).WithReason(chat.CommitConflict))
	}
	next, err := j.fillBatch(b, h, c)
	if err != nil {
		return fail(err)
	}
	// From here on the cache must contain the durable end: the head in the store
	// is newer than the durable one until the sync.
	s.mu.Lock()
	s.changes++
	h.inflight++
	if s.heads[c.Session] != h {
		s.put(c.Session, h)
	}
	s.mu.Unlock()
	if err := j.count(b, next.lists, next.last.bytes-h.last.bytes, j.apply); err != nil {
		return err // b may or may not be stored; readers do not see it
	}
	s.mu.Lock()
	h.last, h.busy, h.lists = next.last, next.busy, next.lists
	h.durable = next.last
	h.inflight--
	s.mu.Unlock()
	s.settled.Broadcast()
	return nil
}

// checkFree refuses to create a session whose id or number is taken.
func (j *Journal) checkFree(id chat.SessionID, n chat.Number) error {
	h, s, err := j.find(id)
	switch {
	case err == nil:
		s.mu.Lock()
		defer s.mu.Unlock()
		j.metrics.conflicts.Inc()
		return conflict(id, h.last.seq)
	case chat.CodeOf(err) != chat.NotFound:
		return err
	}
	name, err := j.get(numberKey(nil, kName, n))
	if err != nil {
		return err
	}
	importing, err := j.has(numberKey(nil, kImporting, n))
	if err != nil {
		return err
	}
	if name != nil || importing {
		j.metrics.conflicts.Inc()
		return chat.Errorf(chat.Conflict, "the number of session %s was taken by another session meanwhile; try again", id).With("last", chat.Seq(0)).WithReason(chat.CommitConflict)
	}
	return nil
}

func conflict(id chat.SessionID, last chat.Seq) error {
	return chat.Errorf(chat.Conflict, "session %s has more events: its last sequence is %d", id, last).With("last", last).WithReason(chat.CommitConflict)
}

// fillBatch adds the events and their index entries to b. It returns the head
// after the commit; h is not changed.
func (j *Journal) fillBatch(b *pebble.Batch, h *head, c *chat.Commit) (next head, err error) {
	var scratch [64]byte
	key := scratch[:0]
	bytes := h.last.bytes
	for i := range c.Facts {
		f := &c.Facts[i]
		bytes += int64(len(f.JSON))
		if err = b.Set(seqKey(key, kEvent, h.number, f.Seq), f.JSON, nil); err != nil {
			return next, err
		}
	}
	final := len(c.Events) - 1
	next = head{busy: c.Busy, lists: h.lists}
	next.last = logEnd{c.Events[final].Seq, c.Events[final].At, c.Head, bytes}
	var value [logEndSize]byte
	b.Set(headKey(key, h.number), next.last.append(value[:0]), nil)

	for i := range c.Keys {
		k := &c.Keys[i]
		b.Set(numberHashKey(key, kClient, h.number, hashOf(k.Actor, k.ClientID)), appendClient(value[:0], k.Seq, k.Digest), nil)
	}
	for i := range c.Ends {
		b.Set(seqKey(key, kEnds, h.number, c.Ends[i].Seq), appendEnds(nil, c.Ends[i].Ends), nil)
	}
	if c.Record != nil {
		b.Set(numberKey(key, kRecord, h.number), c.RecordJSON, nil)
		if who := listsOf(c.Record); !slices.Equal(who, h.lists) {
			next.lists = who
		}
	}
	if next.busy != h.busy {
		if k := numberKey(key, kWorking, h.number); next.busy {
			b.Set(k, nil, nil)
		} else {
			b.Delete(k, nil)
		}
	}
	moveActivity(b, h, &next)
	if err := j.putPrompts(b, h.number, c.Events); err != nil {
		return next, err
	}
	if c.Checkpoint != nil {
		if err := j.putCheckpoint(b, h.number, c); err != nil {
			return next, err
		}
	}
	return next, nil
}

// moveActivity updates the activity index of a session when its bucket or its
// lists changed.
func moveActivity(b *pebble.Batch, h, next *head) {
	from, to := bucketOf(h.last.at), bucketOf(next.last.at)
	if h.last.seq != 0 && from == to && slices.Equal(h.lists, next.lists) {
		return
	}
	var key [40]byte
	if h.last.seq != 0 {
		for _, w := range h.lists {
			if from != to || !slices.Contains(next.lists, w) {
				b.Delete(activityKey(key[:0], w, from, h.number), nil)
			}
		}
	}
	n := h.number
	for _, w := range next.lists {
		b.Set(activityKey(key[:0], w, to, n), nil, nil)
	}
}
