package journal

import (
	"context"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
)

// Alias returns the session that a foreign id of an actor stands for; ok is
// false when it stands for none. It answers Gone when that session was erased.
func (j *Journal) Alias(_ context.Context, workspace, actorKey, foreign string) (id chat.SessionID, ok bool, err error) {
	v, err := j.get(tokenKey(nil, kAlias, tokenOf(workspace, actorKey, foreign)))
	if v == nil || err != nil {
		return "", false, err
	}
	if len(v) == 0 {
		return "", false, chat.Errorf(chat.Gone, "the session was erased")
	}
	return chat.SessionID(v), true, nil
}

// SetAlias lets a foreign id stand for a session unless it stands for one
// already. It returns the one it stands for afterwards.
func (j *Journal) SetAlias(ctx context.Context, workspace, actorKey, foreign string, id chat.SessionID) (chat.SessionID, error) {
	if err := id.Validate(); err != nil {
		return "", err
	}
	if err := j.writable(); err != nil {
		return "", err
	}
	j.alias.Lock()
	defer j.alias.Unlock()
	if first, ok, err := j.Alias(ctx, workspace, actorKey, foreign); ok || err != nil {
		return first, err
	}
	if erased, err := j.has(tokenKey(nil, kTombstone, idToken(id))); err != nil {
		return "", err
	} else if erased {
		return "", errGone(id)
	}
	t := tokenOf(workspace, actorKey, foreign)
	b := j.db.NewBatch()
	b.Set(tokenKey(nil, kAlias, t), []byte(id), nil)
	b.Set(aliasOfKey(nil, idToken(id), t), nil, nil)
	return id, j.write(b)
}

// closeAliases leaves the aliases of an erased session without its id, so that
// they answer Gone.
func (j *Journal) closeAliases(b *pebble.Batch, id token) error {
	it, err := j.iter(tokenKey(nil, kAliasOf, id))
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if d, ok := decodeKey(it.Key()); ok {
			b.Set(tokenKey(nil, kAlias, d.second), nil, nil)
		}
	}
	from, to := span(tokenKey(nil, kAliasOf, id))
	b.DeleteRange(from, to, nil)
	return it.Error()
}
