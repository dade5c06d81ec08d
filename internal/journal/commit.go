package journal

import (
	"context"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// Commit stores c as one atomic unit and returns when it is durable. It returns
// Conflict, with the last sequence in the details, when c.After is not the
// session's last event or the session to be created exists; NotFound or Gone when
// the session does not exist; Unavailable when nothing can be written. The end of
// ctx does not interrupt a sync that has begun.
func (j *Journal) Commit(ctx context.Context, c *core.Commit) error {
	if err := j.checkWritable(c); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.After == 0 {
		return j.commitAlone(c)
	}
	m := j.groups.newMember(c, nil)
	next := lead
	if !j.groups.add(m) {
		next = <-m.wake
	}
	if next == lead {
		j.leadOne(m)
		next = <-m.wake
	}
	if next == alone {
		m.err = j.commitAlone(c)
	}
	return j.groups.end(m)
}

// checkWritable refuses a commit that is not well formed, and all commits while nothing can be written.
func (j *Journal) checkWritable(c *core.Commit) error {
	if err := checkCommit(c); err != nil {
		return err
	}
	return j.Writable()
}

// commitAlone is Commit without other commits. It is used for commits that create a session.
func (j *Journal) commitAlone(c *core.Commit) error {
	start := time.Now()
	b := j.db.NewBatch()
	lock := j.commitLock(c.Session)
	lock.Lock()
	err := j.stage(c, b)
	lock.Unlock()
	if err != nil {
		return err
	}
	j.committed(c, start)
	return nil
}

// committed does what follows a commit that is durable.
func (j *Journal) committed(c *core.Commit, start time.Time) {
	j.spend(c)
	j.previews.committed(c)
	j.metrics.committed(c, time.Since(start))
}

// checkCommit refuses a commit that is not well formed.
func checkCommit(c *core.Commit) error {
	bad := func(why string) error { return chat.Errorf(chat.Invalid, "not a commit: %s", why) }
	switch {
	case c == nil:
		return bad("there is none")
	case c.Record == nil && c.After == 0:
		return bad("the record is missing")
	}
	return checkEvents(c)
}

// checkEvents refuses a commit, or a part of an import, whose events are not well formed.
func checkEvents(c *core.Commit) error {
	bad := func(why string) error { return chat.Errorf(chat.Invalid, "not a commit: %s", why) }
	switch {
	case c.Record == nil != (len(c.RecordJSON) == 0):
		return bad("the record is missing")
	case len(c.Events) == 0 || len(c.Events) != len(c.Facts):
		return bad("it needs events and as many facts")
	case c.Number == 0 || c.Number >= 1<<core.NumberBits:
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
func (j *Journal) stage(c *core.Commit, b *pebble.Batch) error {
	fail := func(err error) error {
		b.Close()
		return err
	}
	var h *head
	if c.After == 0 {
		lock := j.createLock(c.Number)
		lock.Lock()
		defer lock.Unlock()
		if err := j.checkFree(j.db, c.Session, c.Number); err != nil {
			return fail(err)
		}
		h = &head{number: c.Number, full: true}
	} else {
		var err error
		if h, err = j.headFor(c); err != nil {
			return fail(err)
		}
	}
	if err := j.checkFollows(c, h); err != nil {
		return fail(err)
	}
	next, err := j.fillBatch(j.db, b, h, c)
	if err != nil {
		return fail(err)
	}
	j.begin(c.Session, h)
	if err := j.applyCounted(b, next.lists, next.last.bytes-h.last.bytes, j.apply); err != nil {
		return err // b may or may not be stored; readers do not see it
	}
	j.settle(c.Session, h, &next)
	return nil
}

// headFor returns the complete head of the session that c continues.
func (j *Journal) headFor(c *core.Commit) (*head, error) {
	h, _, err := j.find(c.Session)
	if err == nil {
		err = j.fill(c.Session, h)
	}
	return h, err
}

// begin makes h the cached head of a session whose commit is being stored. From here on the
// cache must contain the durable end: the head in the store is newer than the durable one
// until the sync.
func (j *Journal) begin(id chat.SessionID, h *head) {
	s := j.shard(id)
	s.mu.Lock()
	s.changes++
	h.inflight++
	if s.heads[id] != h {
		s.put(id, h)
	}
	s.mu.Unlock()
}

// settle shows a commit to readers that is durable now.
func (j *Journal) settle(id chat.SessionID, h, next *head) {
	s := j.shard(id)
	s.mu.Lock()
	h.last, h.busy, h.lists = next.last, next.busy, next.lists
	h.durable = next.last
	h.inflight--
	s.mu.Unlock()
	s.settled.Broadcast()
}

// checkFollows refuses a commit that does not follow the end of its session's log.
func (j *Journal) checkFollows(c *core.Commit, h *head) error {
	switch {
	case h.number != c.Number:
		return chat.Errorf(chat.Invalid, "session %s has another number", c.Session)
	case h.last.seq != c.After:
		j.metrics.conflicts.Inc()
		return conflict(c.Session, h.last.seq)
	case c.Events[0].Prev != h.last.hash:
		return chat.Errorf(chat.Conflict, "the first event does not follow the last one of session %s", c.Session).With("last", h.last.seq).WithReason(chat.CommitConflict)
	}
	return nil
}

// checkFree refuses to create a session whose id or number is taken.
func (j *Journal) checkFree(r pebble.Reader, id chat.SessionID, n chat.Number) error {
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
	name, err := getFrom(r, numberKey(nil, kName, n))
	if err != nil {
		return err
	}
	importing, err := getFrom(r, numberKey(nil, kImporting, n))
	if err != nil {
		return err
	}
	if name != nil || importing != nil {
		j.metrics.conflicts.Inc()
		return chat.Errorf(chat.Conflict, "the number of session %s was taken by another session meanwhile; try again", id).With("last", chat.Seq(0)).WithReason(chat.CommitConflict)
	}
	return nil
}

func conflict(id chat.SessionID, last chat.Seq) error {
	return chat.Errorf(chat.Conflict, "session %s has more events: its last sequence is %d", id, last).With("last", last).WithReason(chat.CommitConflict)
}

// fillBatch adds the events and their index entries to b. It returns the head
// after the commit; h is not changed. What is in the store already is read from r.
func (j *Journal) fillBatch(r pebble.Reader, b *pebble.Batch, h *head, c *core.Commit) (next head, err error) {
	var scratch [64]byte
	key := scratch[:0]
	if c.After == 0 {
		putName(b, c.Session, c.Number)
	}
	next = head{busy: c.Busy, lists: h.lists}
	if next.last, err = putEvents(b, h, c); err != nil {
		return next, err
	}
	var value [logEndSize]byte
	b.Set(headKey(key, h.number), next.last.append(value[:0]), nil)
	if err := putIndexes(r, b, h.number, c); err != nil {
		return next, err
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
	if c.Checkpoint != nil {
		if err := putCheckpoint(r, b, h.number, c); err != nil {
			return next, err
		}
	}
	return next, nil
}

// putName adds the entries by which a session is found.
func putName(b *pebble.Batch, id chat.SessionID, n chat.Number) {
	b.Set(hashKey(nil, kID, idHash(id)), appendNumber(nil, n), nil)
	b.Set(numberKey(nil, kName, n), []byte(id), nil)
}

// putEvents adds the events of a commit and returns the end of the log after it.
func putEvents(b *pebble.Batch, h *head, c *core.Commit) (end logEnd, err error) {
	var scratch [64]byte
	key := scratch[:0]
	bytes := h.last.bytes
	for i := range c.Facts {
		f := &c.Facts[i]
		bytes += int64(len(f.JSON))
		if err := b.Set(seqKey(key, kEvent, h.number, f.Seq), f.JSON, nil); err != nil {
			return end, err
		}
	}
	final := &c.Events[len(c.Events)-1]
	return logEnd{final.Seq, final.At, c.Head, bytes}, nil
}

// putIndexes adds what is found by the events of a commit: client ids, ends of blocks
// and prompts.
func putIndexes(r pebble.Reader, b *pebble.Batch, n chat.Number, c *core.Commit) error {
	var scratch [64]byte
	key := scratch[:0]
	var value [logEndSize]byte
	for i := range c.Keys {
		k := &c.Keys[i]
		b.Set(numberHashKey(key, kClient, n, hashOf(k.Actor, k.ClientID)), appendClient(value[:0], k.Seq, k.Digest), nil)
	}
	for i := range c.Ends {
		b.Set(seqKey(key, kEnds, n, c.Ends[i].Seq), appendEnds(nil, c.Ends[i].Ends), nil)
	}
	return putPrompts(r, b, n, c.Events)
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
