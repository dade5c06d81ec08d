package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
)

// markErased makes a session unreadable and stores the intention to erase it, with one
// batch. complete is called before the batch is written and fills in what the
// journal does not have. The intention stays until FinishErase.
func (j *Journal) markErased(id chat.SessionID, complete func(*core.Erasure)) (e core.Erasure, err error) {
	s, lock := j.shard(id), j.commitLock(id)
	lock.Lock() // waits for a commit of this session that is in progress
	defer lock.Unlock()
	j.alias.Lock() // no alias may be made for it meanwhile
	defer j.alias.Unlock()
	h, _, err := j.find(id)
	if err != nil {
		return e, err
	}
	// A session with a damaged record can be erased: List skips its entries and
	// Verify reports them.
	if err := j.fill(id, h); err != nil && chat.CodeOf(err) != chat.Internal {
		return e, err
	}
	if e, err = j.intention(id, h); err != nil {
		return e, err
	}
	complete(&e)
	b := j.db.NewBatch()
	bytes, err := putErasure(j.db, b, h, &e)
	if err != nil {
		b.Close()
		return e, err
	}
	if err := j.applyCounted(b, h.lists, -bytes, j.write); err != nil {
		return e, err
	}
	s.mu.Lock()
	s.changes++
	delete(s.heads, id)
	s.mu.Unlock()
	return e, nil
}

// intention returns the erasure of a session, without what is kept outside the journal.
func (j *Journal) intention(id chat.SessionID, h *head) (e core.Erasure, err error) {
	e = core.Erasure{Number: h.number, Receipt: chat.Receipt{
		Session: id, Events: uint64(h.last.seq), ErasedAt: chat.AtOf(j.opt.Now()),
		Note: "backups and copies made before are not covered: erase them too",
	}}
	e.Receipt.Bytes, err = j.eventBytes(h.number)
	return e, err
}

// putErasure adds what makes a session unreadable, and the intention to erase it. It
// returns how many bytes of events and files the session had.
func putErasure(r pebble.Reader, b *pebble.Batch, h *head, e *core.Erasure) (bytes int64, err error) {
	t := idHash(e.Receipt.Session)
	note, err := json.Marshal(e)
	if err != nil {
		return 0, err
	}
	files, err := filesOfSession(r, h.number)
	if err != nil {
		return 0, err
	}
	if err := removeAll(r, b, h.number); err != nil {
		return 0, err
	}
	if err := closeAliases(r, b, t); err != nil {
		return 0, err
	}
	for _, w := range h.lists {
		b.Delete(activityKey(nil, w, bucketOf(h.last.at), h.number), nil)
	}
	b.Delete(hashKey(nil, kID, t), nil)
	b.Set(numberKey(nil, kName, h.number), nil, nil)
	b.Set(hashKey(nil, kTombstone, t), binary.BigEndian.AppendUint64(appendNumber(nil, h.number), uint64(e.Receipt.ErasedAt)), nil)
	b.Set(numberKey(nil, kErasing, h.number), append(t[:], note...), nil)
	return h.last.bytes + files, nil
}

// ErasedSince reports whether a session was erased at a moment or later, for
// callers that keep copies elsewhere. It reads all tombstones.
func (j *Journal) ErasedSince(ctx context.Context, at chat.At) (found bool, err error) {
	it, err := j.iter([]byte{kTombstone})
	if err != nil {
		return false, err
	}
	for ok := it.First(); ok && !found && ctx.Err() == nil; ok = it.Next() {
		v := it.Value()
		found = len(v) < 8 || chat.At(binary.BigEndian.Uint64(v[len(v)-8:])) >= at // an unreadable tombstone counts
	}
	return found, errors.Join(it.Error(), it.Close(), ctx.Err())
}

// eventBytes returns how many bytes the events of a number have.
func (j *Journal) eventBytes(n chat.Number) (bytes int64, err error) {
	it, err := j.iter(numberKey(nil, kEvent, n))
	if err != nil {
		return 0, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if d, _ := decodeKey(it.Key()); d.kind == kEvent {
			bytes += int64(len(it.Value()))
		}
	}
	return bytes, errors.Join(it.Error(), it.Close())
}

// removeAll deletes all keys of a number.
func removeAll(r pebble.Reader, b *pebble.Batch, n chat.Number) error {
	it, err := iterOf(r, numberKey(nil, kPrompt, n))
	if err != nil {
		return err
	}
	var deadlines [][]byte
	for ok := it.First(); ok; ok = it.Next() {
		d, okKey := decodeKey(it.Key())
		p, okValue := decodePrompt(it.Value())
		if okKey && okValue && p.deadline != 0 && p.ref.Ended == 0 {
			deadlines = append(deadlines, deadlineKey(nil, p.deadline, n, d.hash))
		}
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return err
	}
	for _, key := range deadlines {
		b.Delete(key, nil)
	}
	for _, kind := range ranged {
		from, to := span(numberKey(nil, kind, n))
		b.DeleteRange(from, to, nil)
	}
	return nil
}

// finishErasures continues erasures that were interrupted. When an intention is
// stored, it removes the text and keeps the intention, because FinishErase was not
// called yet.
func (j *Journal) finishErasures(ctx context.Context) error {
	for e, err := range j.walk(ctx, []byte{kErasing}) {
		if err != nil {
			return err
		}
		if _, ok := decodeIntention(e.value); ok {
			err = j.scrubIntended(ctx, e.number)
		} else if len(e.value) >= len(keyHash{}) {
			err = j.finishErasure(ctx, e.number, "", keyHash(e.value))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// finishErasure removes the text of an erased session from the files and then
// deletes its kErasing entry. id is empty when the erasure was interrupted and the
// id is not stored any more.
func (j *Journal) finishErasure(ctx context.Context, n chat.Number, id chat.SessionID, t keyHash) error {
	j.scrub.Lock()
	defer j.scrub.Unlock()
	key := numberKey(nil, kErasing, n)
	if pending, err := j.has(key); err != nil || !pending {
		return err // another call has finished it
	}
	if err := j.previews.erase(id); err != nil {
		return fmt.Errorf("rewrite the preview file: %w", err)
	}
	// The intention contains the id. Replace it by the hash before the files are rewritten.
	if err := j.scrubFiles(ctx, n, t[:]); err != nil {
		return err
	}
	return j.db.Delete(key, pebble.NoSync)
}

// scrubFiles rewrites the tables that contain keys of the number and waits until
// the old tables and log files are removed. A note that is not nil replaces the
// stored value of kErasing.
func (j *Journal) scrubFiles(ctx context.Context, n chat.Number, note []byte) error {
	// The deletions are written again: a table is rewritten only when a newer
	// key overlaps it, and an interrupted attempt may have compacted the first ones.
	kinds := append([]byte{kName}, ranged...)
	b := j.db.NewBatch()
	for _, kind := range ranged {
		from, to := span(numberKey(nil, kind, n))
		b.DeleteRange(from, to, nil)
	}
	b.Set(numberKey(nil, kName, n), nil, nil)
	if note != nil {
		b.Set(numberKey(nil, kErasing, n), note, nil)
		kinds = append(kinds, kErasing)
	}
	if err := j.write(b); err != nil {
		return err
	}
	old, err := j.filesOf(n, kinds)
	if err != nil {
		return err
	}
	if err := j.flush(ctx); err != nil {
		return err
	}
	for _, kind := range kinds {
		from, to := span(numberKey(nil, kind, n))
		if err := j.guard(func() error { return j.db.Compact(ctx, from, to, false) }); err != nil {
			return fmt.Errorf("compact: %w", err)
		}
	}
	return j.awaitRemoval(ctx, old)
}

// filesOf returns the files that may contain keys of the number: all log files, and
// the tables whose bounds include its keys of the kinds.
func (j *Journal) filesOf(n chat.Number, kinds []byte) (map[string]bool, error) {
	names, err := j.opt.FS.List(j.opt.FS.PathJoin(j.dir, "db"))
	if err != nil {
		return nil, err
	}
	files := map[string]bool{}
	for _, name := range names {
		if isLog(name) {
			files[name] = true
		}
	}
	for _, kind := range kinds {
		tables, err := j.tables(pebble.WithKeyRangeFilter(span(numberKey(nil, kind, n))))
		if err != nil {
			return nil, err
		}
		maps.Copy(files, tables)
	}
	return files, nil
}

// flush writes the tables in memory to disk, so that the log files are not needed any more.
func (j *Journal) flush(ctx context.Context) error {
	var done <-chan struct{}
	err := j.guard(func() (err error) { done, err = j.db.AsyncFlush(); return err })
	if err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitRemoval waits until Pebble has removed the files. A table stays as long as
// an iterator of a reader uses it.
func (j *Journal) awaitRemoval(ctx context.Context, old map[string]bool) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		names, err := j.opt.FS.List(j.opt.FS.PathJoin(j.dir, "db"))
		if err != nil {
			return err
		}
		left := ""
		for _, name := range names {
			if old[name] {
				left = name
			}
		}
		if left == "" {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("file %s of the store is still in use: %w", left, ctx.Err())
		}
	}
}
