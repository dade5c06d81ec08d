package journal

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Count returns how many sessions of a workspace an actor is a member of, up to
// most. With owned it counts only those that the actor owns, which reads the record
// of each.
func (j *Journal) Count(ctx context.Context, workspace string, member chat.Actor, owned bool, most int) (n int, err error) {
	list := hashOf(cmp.Or(workspace, chat.DefaultWorkspace), member.Key())
	it, err := j.iter(hashKey(nil, kActivity, list))
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
	b, err := j.get(numberKey(nil, kRecord, n))
	if b == nil || err != nil {
		return false, err // erased meanwhile
	}
	var rec struct {
		Owner chat.Actor `json:"owner"`
	}
	err = json.Unmarshal(b, &rec)
	return rec.Owner.Same(actor), err
}
