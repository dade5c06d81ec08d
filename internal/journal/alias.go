package journal

import (
	"context"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
)

// Alias returns the session that a foreign id of an actor refers to; ok is false
// when there is none. It returns Gone when that session was erased.
func (j *Journal) Alias(_ context.Context, workspace, actorKey, foreign string) (id chat.SessionID, ok bool, err error) {
	v, err := j.get(hashKey(nil, kAlias, hashOf(workspace, actorKey, foreign)))
	if v == nil || err != nil {
		return "", false, err
	}
	if len(v) == 0 {
		return "", false, chat.Errorf(chat.Gone, "the session was erased")
	}
	return chat.SessionID(v), true, nil
}

// SetAlias makes a foreign id refer to a session unless it refers to one already.
// It returns the session that the id refers to afterwards.
func (j *Journal) SetAlias(ctx context.Context, workspace, actorKey, foreign string, id chat.SessionID) (chat.SessionID, error) {
	if err := j.mayAlias(id); err != nil {
		return "", err
	}
	j.alias.Lock()
	defer j.alias.Unlock()
	if first, ok, err := j.Alias(ctx, workspace, actorKey, foreign); ok || err != nil {
		return first, err
	}
	if err := j.writeAlias(hashOf(workspace, actorKey, foreign), id, j.db.NewBatch()); err != nil {
		return "", err
	}
	return id, nil
}

// ReplaceAlias makes a foreign id refer to a session and replaces an alias that exists.
func (j *Journal) ReplaceAlias(ctx context.Context, workspace, actorKey, foreign string, id chat.SessionID) error {
	if err := j.mayAlias(id); err != nil {
		return err
	}
	j.alias.Lock()
	defer j.alias.Unlock()
	t, b := hashOf(workspace, actorKey, foreign), j.db.NewBatch()
	was, ok, err := j.Alias(ctx, workspace, actorKey, foreign)
	switch {
	case ok && was == id:
		return b.Close()
	case ok:
		b.Delete(aliasOfKey(nil, idHash(was), t), nil)
	case err != nil && chat.CodeOf(err) != chat.Gone:
		return err
	}
	return j.writeAlias(t, id, b)
}

func (j *Journal) mayAlias(id chat.SessionID) error {
	if err := id.Validate(); err != nil {
		return err
	}
	return j.writable()
}

// writeAlias stores an alias in one batch with what b contains. The caller holds the alias lock.
func (j *Journal) writeAlias(t keyHash, id chat.SessionID, b *pebble.Batch) error {
	if erased, err := j.has(hashKey(nil, kTombstone, idHash(id))); err != nil {
		return err
	} else if erased {
		return errGone(id)
	}
	b.Set(hashKey(nil, kAlias, t), []byte(id), nil)
	b.Set(aliasOfKey(nil, idHash(id), t), nil, nil)
	return j.write(b)
}

// closeAliases empties the aliases of an erased session, so that Alias returns Gone.
func (j *Journal) closeAliases(b *pebble.Batch, id keyHash) error {
	it, err := j.iter(hashKey(nil, kAliasOf, id))
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if d, ok := decodeKey(it.Key()); ok {
			b.Set(hashKey(nil, kAlias, d.second), nil, nil)
		}
	}
	from, to := span(hashKey(nil, kAliasOf, id))
	b.DeleteRange(from, to, nil)
	return it.Error()
}
