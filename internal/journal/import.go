package journal

import (
	"context"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
)

// importBatch is how many bytes of events go to Pebble at once.
const importBatch = 1 << 20

// Import stores a whole log under a free id and keeps its bytes. The events must
// be contiguous from 1, belong to the session and follow one another by hash.
// All of it becomes readable at the end, at once; when it fails, or the process
// ends before, nothing of it stays. Piece boundaries of finished blocks
// are not part of a log and are not restored.
func (j *Journal) Import(ctx context.Context, id chat.SessionID, facts iter.Seq2[chat.Fact, error]) error {
	if err := id.Validate(); err != nil {
		return err
	}
	if err := j.Writable(); err != nil {
		return err
	}
	end := &head{}
	return j.SplitImport(ctx, id, facts, func(c *ImportChange) error {
		if c.Step == ImportDrop {
			return j.dropImport(c.Number)
		}
		return j.storeImport(c, end)
	})
}

// SplitImport checks the log of Import and calls emit with its parts, in their order,
// instead of storing them. When the log is not valid, or emit fails after the first
// part, the last call has ImportDrop.
func (j *Journal) SplitImport(ctx context.Context, id chat.SessionID, facts iter.Seq2[chat.Fact, error], emit func(*ImportChange) error) (err error) {
	m := &importer{id: id, state: &chat.State{}, emit: emit}
	defer func() {
		if err == nil || !m.begun {
			return
		}
		if dropped := emit(&ImportChange{&core.Commit{Session: id, Number: m.state.Number}, ImportDrop}); dropped != nil {
			// It is not readable, and the next Open removes it.
			j.opt.Logger.Error("what an import left could not be removed yet", "session", id, "err", dropped)
		}
	}()
	number := func(e *chat.Event) (chat.Number, error) { return j.importNumber(id, e) }
	for f, err := range facts {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = m.add(f, number)
		}
		if err != nil {
			return err
		}
	}
	if m.part == nil {
		return chat.Errorf(chat.Invalid, "there is nothing to import: the log has no events")
	}
	return m.flush(ImportEnd)
}

// importer checks a log and divides it into parts.
type importer struct {
	id    chat.SessionID
	state *chat.State
	part  *core.Commit // what was not emitted yet
	size  int          // bytes of its events
	begun bool         // a part was emitted
	emit  func(*ImportChange) error
}

// add takes the next event.
func (m *importer) add(f chat.Fact, number func(*chat.Event) (chat.Number, error)) error {
	bad := func(why string) error {
		return chat.Errorf(chat.Invalid, "event %d of the import: %s", m.state.Last+1, why).With("sequence", m.state.Last+1)
	}
	e, err := f.Event()
	switch {
	case err != nil:
		return bad(chat.Public(err).Msg)
	case e.Session != m.id:
		return bad("it belongs to session " + string(e.Session))
	case e.Seq != m.state.Last+1 || f.Seq != e.Seq || e.Seq > chat.MaxSeq:
		return bad("the sequence is not the next one")
	case e.Prev != m.state.Head:
		return bad("prev is not the hash of the event before it")
	case e.At <= m.state.LastAt && e.Seq > 1:
		return bad("its time is not after that of the event before it")
	}
	if e.Seq == 1 {
		if m.state.Number, err = number(&e); err != nil {
			return err
		}
	}
	if e.ID != "" {
		if got, ok := chat.ParseID(chat.EventPrefix, string(e.ID)); !ok || got != chat.MakeID(m.state.Number, e.Seq) {
			return bad("its id does not belong to this session and sequence")
		}
	}
	if m.size > importBatch {
		if err := m.flush(ImportPart); err != nil {
			return err
		}
	}
	if m.part == nil {
		m.part, m.size = &core.Commit{Session: m.id, Number: m.state.Number, After: m.state.Last}, 0
	}
	c := m.part
	c.Events, c.Facts = append(c.Events, e), append(c.Facts, f)
	m.size += len(f.JSON)
	if e.ClientID != "" {
		d := chat.Draft{Type: e.Type, Workstream: e.Workstream, Payload: e.Payload}
		c.Keys = append(c.Keys, core.Key{Actor: e.Actor.Key(), ClientID: e.ClientID, Digest: d.Digest(), Seq: e.Seq})
	}
	m.state.Apply(&e)
	m.state.Head = f.Hash()
	return nil
}

// flush emits the part that was collected.
func (m *importer) flush(step ImportStep) error {
	c := m.part
	c.Head = m.state.Head
	if step == ImportEnd {
		if err := c.SetState(m.state, true); err != nil {
			return err
		}
		if c.Checkpoint == nil && m.state.Last >= core.CheckpointEvery {
			var err error
			if c.Checkpoint, err = json.Marshal(m.state); err != nil {
				return err
			}
		}
	}
	m.part = nil
	if err := m.emit(&ImportChange{c, step}); err != nil {
		return err
	}
	m.begun = true
	return nil
}

// importNumber returns the number for the session of an import, by its first event.
func (j *Journal) importNumber(id chat.SessionID, e *chat.Event) (chat.Number, error) {
	n, exists, err := j.Number(context.Background(), id)
	if err != nil {
		return 0, err
	}
	if exists {
		return 0, chat.Errorf(chat.Conflict, "there is a session %s here already: a log is imported into a server that does not have its session", id)
	}
	if e.ID != "" {
		own, ok := chat.ParseID(chat.EventPrefix, string(e.ID))
		if ok {
			n, _, ok = own.Parts()
		}
		found := false
		for try := range 256 {
			found = found || core.NumberFor(id, try) == n
		}
		if !ok || !found {
			return 0, chat.Errorf(chat.Invalid, "event 1 of the import: its id was not made for session %s", id)
		}
	}
	return n, nil
}

// storeImport stores a part of an import of this process. h is the end of the parts
// before it.
func (j *Journal) storeImport(c *ImportChange, h *head) error {
	lock := j.commitLock(c.Session)
	lock.Lock()
	defer lock.Unlock()
	if c.After == 0 {
		lock := j.createLock(c.Number)
		lock.Lock()
		defer lock.Unlock()
		if err := j.checkFree(j.db, c.Session, c.Number); err != nil {
			return err
		}
		*h = head{number: c.Number, full: true}
	}
	b := j.db.NewBatch()
	next, err := putImport(j.db, b, h, c, false)
	if err != nil {
		b.Close()
		return err
	}
	if c.Step == ImportEnd {
		return j.applyCounted(b, next.lists, next.last.bytes, j.write)
	}
	h.last = next.last
	return j.apply(b)
}

// putImport adds a part of an import. resume says that the import continues after a
// restart; otherwise the next Open removes it. It returns the head after the part.
func putImport(r pebble.Reader, b *pebble.Batch, h *head, c *ImportChange, resume bool) (next head, err error) {
	if next.last, err = putEvents(b, h, c.Commit); err != nil {
		return next, err
	}
	if err := putIndexes(r, b, h.number, c.Commit); err != nil {
		return next, err
	}
	if c.Step == ImportPart {
		var progress []byte
		if resume {
			progress = next.last.append(nil)
		}
		return next, b.Set(numberKey(nil, kImporting, h.number), progress, nil)
	}
	next.busy, next.lists = c.Busy, listsOf(c.Record)
	putName(b, c.Session, h.number)
	b.Set(headKey(nil, h.number), next.last.append(nil), nil)
	b.Set(numberKey(nil, kRecord, h.number), c.RecordJSON, nil)
	if c.Busy {
		b.Set(numberKey(nil, kWorking, h.number), nil, nil)
	}
	for _, w := range next.lists {
		b.Set(activityKey(nil, w, bucketOf(next.last.at), h.number), nil, nil)
	}
	if c.Checkpoint != nil {
		b.Set(seqKey(nil, kState, h.number, next.last.seq), c.Checkpoint, nil)
	}
	return next, b.Delete(numberKey(nil, kImporting, h.number), nil)
}

// dropImports removes the keys of imports of an earlier process that did not end.
func (j *Journal) dropImports() error {
	for e, err := range j.walk(context.Background(), []byte{kImporting}) {
		if err != nil {
			return err
		}
		if len(e.value) > 0 {
			continue // the frames after it continue it, or drop it
		}
		if err := j.dropImport(e.number); err != nil {
			return err
		}
	}
	return nil
}

func (j *Journal) dropImport(n chat.Number) error {
	b := j.db.NewBatch()
	if err := removeImport(j.db, b, n); err != nil {
		b.Close()
		return err
	}
	return j.write(b)
}

func removeImport(r pebble.Reader, b *pebble.Batch, n chat.Number) error {
	if err := removeAll(r, b, n); err != nil {
		return err
	}
	return b.Delete(numberKey(nil, kImporting, n), nil)
}
