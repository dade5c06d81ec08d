package journal

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Count returns how many sessions of a workspace an actor is a member of, up to
// most. With owned it counts only those that the actor owns, which reads the record
// of each.
func (j *Journal) Count(ctx context.Context, workspace string, member chat.Actor, owned bool, most int) (n int, err error) {
	list := tokenOf(cmp.Or(workspace, chat.DefaultWorkspace), member.Key())
	from, to := span(tokenKey(nil, kActivity, list))
	it, err := j.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok && n < most; ok = it.Next() {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if owned {
			key := it.Key()
			number := chat.Number(binary.BigEndian.Uint64(key[len(key)-8:]))
			mine, err := j.ownedBy(number, member)
			if err != nil {
				return 0, err
			}
			if !mine {
				continue
			}
		}
		n++
	}
	return n, it.Error()
}

// ownedBy reports whether an actor owns the session with a number.
func (j *Journal) ownedBy(n chat.Number, actor chat.Actor) (bool, error) {
	b, closer, err := j.db.Get(numberKey(nil, kRecord, n))
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil // erased meanwhile
	}
	if err != nil {
		return false, err
	}
	defer closer.Close()
	var rec struct {
		Owner chat.Actor `json:"owner"`
	}
	if err := json.Unmarshal(b, &rec); err != nil {
		return false, err
	}
	return rec.Owner.Same(actor), nil
}
