package journal

import (
	"context"
	"fmt"
	"iter"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
)

// Erasing a session takes two calls, because it also has files and copies outside
// the journal. BeginErase stores the intention in the batch that makes the session
// unreadable; from then on the id returns Gone. The caller removes what is kept
// elsewhere and calls FinishErase. After a restart Erasures lists the erasures that
// are not finished.

// BeginErase makes a session unreadable and stores the intention to erase it. files
// and bytes are what the session has outside the journal; they are added to the
// receipt.
func (j *Journal) BeginErase(ctx context.Context, id chat.SessionID, files int, bytes int64) (core.Erasure, error) {
	if err := j.failed(); err != nil {
		return core.Erasure{}, err
	}
	if j.readOnly {
		return core.Erasure{}, chat.Errorf(chat.Unavailable, "the store is open for reading only")
	}
	rec, err := j.Record(ctx, id)
	if err != nil && chat.CodeOf(err) != chat.Internal {
		return core.Erasure{}, err // a session with a damaged record can be erased
	}
	return j.markErased(id, func(e *core.Erasure) { complete(e, &rec, files, bytes) })
}

// PlanErase returns the erasure that BeginErase would store, for an EraseChange.
func (j *Journal) PlanErase(ctx context.Context, id chat.SessionID, files int, bytes int64) (core.Erasure, error) {
	rec, err := j.Record(ctx, id)
	if err != nil && chat.CodeOf(err) != chat.Internal {
		return core.Erasure{}, err
	}
	h, _, err := j.find(id)
	if err != nil {
		return core.Erasure{}, err
	}
	e, err := j.intention(id, h)
	complete(&e, &rec, files, bytes)
	return e, err
}

// complete adds what the journal does not know, and what the record says.
func complete(e *core.Erasure, rec *chat.Session, files int, bytes int64) {
	e.Workspace, e.Owner = rec.Workspace, rec.Owner
	e.Receipt.Artifacts, e.Receipt.Bytes = files, e.Receipt.Bytes+bytes
}

// Erasure returns the intention to erase a session, and whether there is one.
func (j *Journal) Erasure(_ context.Context, id chat.SessionID) (core.Erasure, bool, error) {
	v, err := j.get(hashKey(nil, kTombstone, idHash(id)))
	if err != nil || len(v) < 8 {
		return core.Erasure{}, false, err
	}
	n, _ := decodeNumber(v[:8])
	if v, err = j.get(numberKey(nil, kErasing, n)); err != nil {
		return core.Erasure{}, false, err
	}
	e, ok := decodeIntention(v)
	return e, ok && e.Receipt.Session == id, nil
}

// Erasures returns all erasures that are not finished.
func (j *Journal) Erasures(ctx context.Context) iter.Seq2[core.Erasure, error] {
	return func(yield func(core.Erasure, error) bool) {
		for entry, err := range j.walk(ctx, []byte{kErasing}) {
			if err != nil {
				yield(core.Erasure{}, err)
				return
			}
			if e, ok := decodeIntention(entry.value); ok && !yield(e, nil) {
				return
			}
		}
	}
}

// ScrubErased removes the text of an erased session from the journal's files and
// keeps the intention. It is for a session of which a copy elsewhere cannot be
// removed yet.
func (j *Journal) ScrubErased(ctx context.Context, e core.Erasure) error {
	return j.scrubIntended(ctx, e.Number)
}

// FinishErase removes the text of an erased session from the journal's files, and
// then the intention. The tombstone stays.
func (j *Journal) FinishErase(ctx context.Context, e core.Erasure) error {
	id := e.Receipt.Session
	if err := j.finishErasure(ctx, e.Number, id, idHash(id)); err != nil {
		return chat.Errorf(chat.Unavailable, "session %s is erased for all readers, but old files of the store still contain it; the server removes them in the background", id).Because(err)
	}
	j.metrics.erased.Inc()
	return nil
}

func (j *Journal) scrubIntended(ctx context.Context, n chat.Number) error {
	j.scrub.Lock()
	defer j.scrub.Unlock()
	if j.scrubbed[n] {
		return nil
	}
	if err := j.previews.erase(""); err != nil {
		return fmt.Errorf("rewrite the preview file: %w", err)
	}
	if err := j.scrubFiles(ctx, n, nil); err != nil {
		return err
	}
	if j.scrubbed == nil {
		j.scrubbed = map[chat.Number]bool{}
	}
	j.scrubbed[n] = true
	return nil
}

// decodeIntention reads the value of kErasing; ok is false when the value has only
// the hash of the id, or is unreadable.
func decodeIntention(v []byte) (e core.Erasure, ok bool) {
	if len(v) <= len(keyHash{}) || json.Unmarshal(v[len(keyHash{}):], &e) != nil {
		return e, false
	}
	return e, e.Receipt.Session != ""
}
