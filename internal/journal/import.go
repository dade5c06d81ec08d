package journal

import (
	"context"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// importBatch is how many bytes of events go to Pebble at once.
const importBatch = 1 << 20

// Import stores a whole log under a free id and keeps its bytes. The events must
// be contiguous from 1, belong to the session and follow one another by hash.
// All of it becomes readable at the end, at once; when it fails, or the process
// ends before, nothing of it stays. Piece boundaries of finished blocks
// are not part of a log and are not restored.
func (j *Journal) Import(ctx context.Context, id chat.SessionID, facts iter.Seq2[chat.Fact, error]) (err error) {
	if err := id.Validate(); err != nil {
		return err
	}
	if err := j.writable(); err != nil {
		return err
	}
	m := &importer{j: j, id: id, state: &chat.State{}, batch: j.db.NewBatch()}
	defer func() {
		if m.batch != nil {
			m.batch.Close()
		}
		if err != nil && m.begun {
			if cleanup := j.dropImport(m.number); cleanup != nil {
				// It is not readable, and the next Open removes it.
				j.opt.Logger.Error("what an import left could not be removed yet", "session", id, "err", cleanup)
			}
		}
	}()
	for f, err := range facts {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = m.add(f)
		}
		if err != nil {
			return err
		}
	}
	if m.state.Last == 0 {
		return chat.Errorf(chat.Invalid, "there is nothing to import: the log has no events")
	}
	return m.finish()
}

type importer struct {
	j      *Journal
	id     chat.SessionID
	number chat.Number
	begun  bool
	state  *chat.State
	batch  *pebble.Batch
	bytes  int64 // of events
}

func (m *importer) add(f chat.Fact) error {
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
		if err := m.begin(&e); err != nil {
			return err
		}
	}
	if e.ID != "" {
		if got, ok := chat.ParseID(chat.EventPrefix, string(e.ID)); !ok || got != chat.MakeID(m.number, e.Seq) {
			return bad("its id does not belong to this session and sequence")
		}
	}
	b := m.batch
	b.Set(seqKey(nil, kEvent, m.number, e.Seq), f.JSON, nil)
	m.bytes += int64(len(f.JSON))
	if e.ClientID != "" {
		d := chat.Draft{Type: e.Type, Workstream: e.Workstream, Payload: e.Payload}
		b.Set(numberHashKey(nil, kClient, m.number, hashOf(e.Actor.Key(), e.ClientID)), appendClient(nil, e.Seq, d.Digest()), nil)
	}
	if mayAsk(e.Body) || chat.AnswerOf(e.Body) != "" {
		// The prompt that an answer ends is looked up in the store.
		if err := m.flush(); err != nil {
			return err
		}
		if err := m.j.putPrompts(m.batch, m.number, []chat.Event{e}); err != nil {
			return err
		}
	}
	m.state.Apply(&e)
	m.state.Head = f.Hash()
	if m.batch.Len() > importBatch {
		return m.flush()
	}
	return nil
}

// begin takes the number and leaves a note for the case that the process ends.
func (m *importer) begin(e *chat.Event) error {
	n, exists, err := m.j.Number(context.Background(), m.id)
	if err != nil {
		return err
	}
	if exists {
		return chat.Errorf(chat.Conflict, "there is a session %s here already: a log is imported into a server that does not have its session", m.id)
	}
	if e.ID != "" {
		id, ok := chat.ParseID(chat.EventPrefix, string(e.ID))
		if ok {
			n, _, ok = id.Parts()
		}
		own := false
		for try := range 256 {
			own = own || chat.NumberFor(m.id, try) == n
		}
		if !ok || !own {
			return chat.Errorf(chat.Invalid, "event 1 of the import: its id was not made for session %s", m.id)
		}
	}
	lock := m.j.createLock(n)
	lock.Lock()
	defer lock.Unlock()
	if err := m.j.checkFree(m.id, n); err != nil {
		return err
	}
	b := m.j.db.NewBatch()
	b.Set(numberKey(nil, kImporting, n), nil, nil)
	if err := m.j.write(b); err != nil {
		return err
	}
	m.number, m.begun, m.state.Number = n, true, n
	return nil
}

func (m *importer) flush() error {
	b := m.batch
	m.batch = m.j.db.NewBatch()
	if b.Empty() {
		return b.Close()
	}
	return m.j.apply(b)
}

// finish makes the log readable.
func (m *importer) finish() error {
	if err := m.flush(); err != nil {
		return err
	}
	lock := m.j.commitLock(m.id)
	lock.Lock()
	defer lock.Unlock()
	rec, err := json.Marshal(&m.state.Session)
	if err != nil {
		return err
	}
	end := logEnd{m.state.Last, m.state.LastAt, m.state.Head, m.bytes}
	n, b := m.number, m.j.db.NewBatch()
	b.Set(hashKey(nil, kID, idHash(m.id)), appendNumber(nil, n), nil)
	b.Set(numberKey(nil, kName, n), []byte(m.id), nil)
	b.Set(headKey(nil, n), end.append(nil), nil)
	b.Set(numberKey(nil, kRecord, n), rec, nil)
	if m.state.Busy() {
		b.Set(numberKey(nil, kWorking, n), nil, nil)
	}
	lists := listsOf(&m.state.Session)
	for _, w := range lists {
		b.Set(activityKey(nil, w, bucketOf(end.at), n), nil, nil)
	}
	if end.seq >= chat.CheckpointEvery {
		state, err := json.Marshal(m.state)
		if err != nil {
			b.Close()
			return err
		}
		b.Set(seqKey(nil, kState, n, end.seq), state, nil)
	}
	b.Delete(numberKey(nil, kImporting, n), nil)
	if err := m.j.count(b, lists, m.bytes, m.j.write); err != nil {
		return err
	}
	m.begun = false
	return nil
}

// dropImports removes the keys of imports that did not end.
func (j *Journal) dropImports() error {
	for e, err := range j.walk(context.Background(), []byte{kImporting}) {
		if err != nil {
			return err
		}
		if err := j.dropImport(e.number); err != nil {
			return err
		}
	}
	return nil
}

func (j *Journal) dropImport(n chat.Number) error {
	b := j.db.NewBatch()
	if _, err := j.removeAll(b, n); err != nil {
		b.Close()
		return err
	}
	b.Delete(numberKey(nil, kImporting, n), nil)
	return j.write(b)
}
