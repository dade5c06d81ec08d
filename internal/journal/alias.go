package journal

import (
	"context"
	"errors"

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
	if err := j.writeAlias(&AliasChange{Alias: hashOf(workspace, actorKey, foreign), Session: id}); err != nil {
		return "", err
	}
	return id, nil
}

// ReplaceAlias makes a foreign id refer to a session and replaces an alias that exists.
func (j *Journal) ReplaceAlias(_ context.Context, workspace, actorKey, foreign string, id chat.SessionID) error {
	if err := j.mayAlias(id); err != nil {
		return err
	}
	j.alias.Lock()
	defer j.alias.Unlock()
	return j.writeAlias(&AliasChange{Alias: hashOf(workspace, actorKey, foreign), Session: id, Replace: true})
}

func (j *Journal) mayAlias(id chat.SessionID) error {
	if err := id.Validate(); err != nil {
		return err
	}
	return j.Writable()
}

// writeAlias stores an alias. The caller holds the alias lock.
func (j *Journal) writeAlias(c *AliasChange) error {
	if erased, err := j.has(hashKey(nil, kTombstone, idHash(c.Session))); err != nil {
		return err
	} else if erased {
		return errGone(c.Session)
	}
	b := j.db.NewBatch()
	if err := putAlias(j.db, b, c); err != nil || b.Empty() {
		b.Close()
		return err
	}
	return j.write(b)
}

// putAlias adds an alias unless it is there already. An alias of an erased session is
// stored as Gone, as if it had been made before: sessions and their aliases may be in
// different partitions, whose frames have no order.
func putAlias(r pebble.Reader, b *pebble.Batch, c *AliasChange) error {
	id := idHash(c.Session)
	was, err := getFrom(r, hashKey(nil, kAlias, c.Alias))
	switch {
	case err != nil:
		return err
	case was != nil && string(was) == string(c.Session):
		return nil
	case was != nil && !c.Replace:
		return chat.Errorf(chat.Conflict, "the alias refers to another session")
	case len(was) > 0:
		b.Delete(aliasOfKey(nil, idHash(chat.SessionID(was)), c.Alias), nil)
	}
	erased, err := getFrom(r, hashKey(nil, kTombstone, id))
	if err != nil {
		return err
	}
	if erased != nil {
		return b.Set(hashKey(nil, kAlias, c.Alias), nil, nil)
	}
	b.Set(hashKey(nil, kAlias, c.Alias), []byte(c.Session), nil)
	return b.Set(aliasOfKey(nil, id, c.Alias), nil, nil)
}

// closeAliases empties the aliases of an erased session, so that Alias returns Gone.
func closeAliases(r pebble.Reader, b *pebble.Batch, id keyHash) error {
	it, err := iterOf(r, hashKey(nil, kAliasOf, id))
	if err != nil {
		return err
	}
	var aliases []keyHash
	for ok := it.First(); ok; ok = it.Next() {
		if d, ok := decodeKey(it.Key()); ok {
			aliases = append(aliases, d.second)
		}
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return err
	}
	for _, t := range aliases {
		b.Set(hashKey(nil, kAlias, t), nil, nil)
	}
	from, to := span(hashKey(nil, kAliasOf, id))
	b.DeleteRange(from, to, nil)
	return nil
}
