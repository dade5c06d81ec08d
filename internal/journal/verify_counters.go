package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// counters checks that the counter of every owner is the sum of its sessions. One
// iterator reads all of it, so that it sees one moment.
func (v *verifier) counters(ctx context.Context) error {
	it, err := v.j.db.NewIter(nil)
	if err != nil {
		return err
	}
	want, whole, err := v.expected(ctx, it)
	if err == nil && whole {
		v.compare(it, want)
		err = it.Error()
	}
	if err = errors.Join(err, it.Close()); err != nil {
		return v.unreadable(ctx, "counter", err)
	}
	return nil
}

// expected adds up the bytes of the sessions. whole is false when a session is
// damaged, which is reported with the session.
func (v *verifier) expected(ctx context.Context, it *pebble.Iterator) (want map[account]int64, whole bool, err error) {
	want, whole = map[account]int64{}, true
	_, end := span([]byte{kName})
	for at := []byte{kName}; ; {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		if !it.SeekGE(at) || string(it.Key()) >= string(end) {
			return want, whole, it.Error()
		}
		d, known := decodeKey(it.Key())
		at = append(append(at[:0], it.Key()...), 0)
		if !known || len(it.Value()) == 0 {
			continue
		}
		p, ok := decodeLogEnd(seek(it, headKey(nil, d.number)))
		var rec chat.Session
		if json.Unmarshal(seek(it, numberKey(nil, kRecord, d.number)), &rec) != nil || !ok {
			whole = false
			continue
		}
		lists := listsOf(&rec)
		want[account{lists[0], lists[1]}] += p.bytes + decodeSum(seek(it, numberKey(nil, kFiles, d.number)))
	}
}

// compare looks for counters that differ from what is expected.
func (v *verifier) compare(it *pebble.Iterator, want map[account]int64) {
	_, end := span([]byte{kStored})
	for ok := it.SeekGE([]byte{kStored}); ok && string(it.Key()) < string(end); ok = it.Next() {
		d, _ := decodeKey(it.Key())
		a := account{d.hash, d.second}
		if has := decodeSum(it.Value()); has != want[a] {
			v.miscounted(has, want[a])
		}
		delete(want, a)
	}
	for _, n := range want {
		if n != 0 {
			v.miscounted(0, n)
		}
	}
}

func (v *verifier) miscounted(has, want int64) {
	v.found(Damage{Kind: "counter", What: fmt.Sprintf("the counter of an owner has %d stored bytes, its sessions have %d", has, want)})
}

// seek returns the value of a key, nil when it is not there.
func seek(it *pebble.Iterator, key []byte) []byte {
	if !it.SeekGE(key) || string(it.Key()) != string(key) {
		return nil
	}
	v, err := it.ValueAndErr()
	if err != nil {
		return nil // reported with the session
	}
	return v
}
