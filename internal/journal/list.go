package journal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

const (
	defaultPage = 100
	maxPage     = 1000
	// scanBound is how many sessions one page looks at when a filter lets few
	// through; the page then ends early, with a cursor.
	scanBound = 5000
	// exactBucket is up to how many sessions of one bucket are put in order: it
	// takes a look at each. Those of a larger one come as the index has them.
	exactBucket = 512
)

// place is where a list goes on: behind the session with this position and id.
type place struct {
	at chat.At
	id chat.SessionID
}

func (p place) cursor() string {
	b := binary.BigEndian.AppendUint64([]byte{1}, uint64(p.at))
	return base64.RawURLEncoding.EncodeToString(append(b, p.id...))
}

// spot is where a list goes on in a bucket too large to be put in order: behind
// the session with this number.
type spot struct {
	bucket uint64
	number chat.Number
}

func (p spot) cursor() string {
	b := binary.BigEndian.AppendUint64([]byte{2}, p.bucket)
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(b, uint64(p.number)))
}

// parsePlace reads a cursor; exactly one of the two is given.
func parsePlace(s string) (*place, *spot, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	switch {
	case err == nil && len(b) >= 10 && b[0] == 1 && chat.SessionID(b[9:]).Validate() == nil:
		return &place{chat.At(binary.BigEndian.Uint64(b[1:])), chat.SessionID(b[9:])}, nil, nil
	case err == nil && len(b) == 17 && b[0] == 2:
		return nil, &spot{binary.BigEndian.Uint64(b[1:]), chat.Number(binary.BigEndian.Uint64(b[9:]))}, nil
	}
	return nil, nil, chat.Errorf(chat.Invalid, "the cursor is not one that a list gave out: begin again without one")
}

// before reports whether p comes before q in a list: the most recently active
// first, then by id.
func (p place) before(q place) bool {
	return cmp.Or(cmp.Compare(q.at, p.at), cmp.Compare(p.id, q.id)) < 0
}

// listed is a session of the bucket at hand.
type listed struct {
	place
	number chat.Number
	seq    chat.Seq
}

// List returns sessions, the most recently active first, then by id. Of several
// hundred that were last active in the same second the order is any. A page is of
// one moment. A session that becomes active between two pages moves to the front,
// where the pages to come do not show it; every other is shown exactly once. A page
// may have fewer sessions than asked for, even none, and yet a cursor.
func (j *Journal) List(ctx context.Context, f chat.Filter) (page chat.SessionPage, err error) {
	workspace := cmp.Or(f.Workspace, chat.DefaultWorkspace)
	who := tokenOf(workspace, "")
	if f.Actor != nil {
		who = tokenOf(workspace, f.Actor.Key())
	}
	limit := defaultPage
	if f.Limit > 0 {
		limit = min(f.Limit, maxPage)
	}
	// An iterator sees the store as it was. A snapshot would too, but keep what is
	// erased meanwhile from being removed.
	it, err := j.db.NewIter(&pebble.IterOptions{})
	if err != nil {
		return page, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	at := bucketReader{j: j, it: it, who: who, few: limit}
	at.from, at.to = span(tokenKey(nil, kActivity, who))
	var start *place
	if f.Cursor != "" {
		var in *spot
		if start, in, err = parsePlace(f.Cursor); err != nil {
			return page, err
		}
		if start != nil {
			at.from, at.exact = activityKey(nil, who, bucketOf(start.at), 0), true
		} else {
			at.from, at.loose, at.bucket = activityKey(nil, who, in.bucket, in.number+1), true, in.bucket
		}
	}
	page.Sessions = []chat.Session{}
	match := matcher(&f)
	var scanned int
	for at.from != nil {
		some, err := at.next()
		if err != nil {
			return page, err
		}
		for i, s := range some {
			if start != nil && !start.before(s.place) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return page, err
			}
			rec, ok, err := at.record(s)
			if err != nil {
				return page, err
			}
			scanned++
			if ok && match(&rec) {
				page.Sessions = append(page.Sessions, rec)
			}
			if len(page.Sessions) >= limit || scanned >= scanBound {
				if i+1 < len(some) || at.from != nil {
					page.Next = s.cursor()
					if at.unordered {
						page.Next = spot{at.bucket, s.number}.cursor()
					}
				}
				return page, nil
			}
		}
	}
	return page, nil
}

// All gives the records of all sessions of all workspaces, in the order in which
// they were begun. One that is erased meanwhile is left out.
func (j *Journal) All(ctx context.Context) iter.Seq2[chat.Session, error] {
	return func(yield func(chat.Session, error) bool) {
		for e, err := range j.walk(ctx, []byte{kRecord}) {
			var rec chat.Session
			if err == nil {
				var id chat.SessionID
				if id, err = j.SessionOf(ctx, e.number); err == nil {
					rec, err = j.Record(ctx, id)
				}
				if chat.CodeOf(err) == chat.Gone || chat.CodeOf(err) == chat.NotFound {
					continue
				}
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// bucketReader reads a list's index bucket by bucket.
type bucketReader struct {
	j        *Journal
	it       *pebble.Iterator // over all keys, at one moment
	who      token
	few      int    // how many are taken at a time of a bucket that is not put in order
	from, to []byte // what is still to be read; from is nil at the end
	bucket   uint64 // the one that was read last
	exact    bool   // the next one is to be put in order whatever its size
	loose    bool   // the next ones of that bucket are not

	unordered bool // what was read last is in the index's order
}

// next reads the sessions of the next bucket in order, or some of a large one.
func (r *bucketReader) next() ([]listed, error) {
	var numbers []chat.Number
	var follows []byte // the key behind them
	more := false      // it is of the same bucket
	it := r.it
	for ok := it.SeekGE(r.from); ok && bytes.Compare(it.Key(), r.to) < 0; ok = it.Next() {
		d, ok := decodeKey(it.Key())
		if !ok {
			continue
		}
		if len(numbers) == 0 {
			r.loose = r.loose && d.bucket == r.bucket
			r.bucket = d.bucket
		}
		more = d.bucket == r.bucket
		if !more || len(numbers) == exactBucket && !r.exact {
			follows = slices.Clone(it.Key())
			break
		}
		numbers = append(numbers, d.number)
	}
	if err := it.Error(); err != nil {
		return nil, err
	}
	more = more && follows != nil
	if (r.loose || more) && len(numbers) > r.few {
		more, follows = true, activityKey(nil, r.who, r.bucket, numbers[r.few])
		numbers = numbers[:r.few]
	}
	r.from, r.unordered, r.loose, r.exact = follows, r.loose || more, more, false
	some, err := r.listed(numbers)
	if err == nil && !r.unordered {
		slices.SortFunc(some, func(a, b listed) int {
			if a.before(b.place) {
				return -1
			}
			return 1
		})
	}
	return some, err
}

// get reads a key; nil means that it is not there.
func (r *bucketReader) get(key []byte) ([]byte, error) {
	if !r.it.SeekGE(key) || !bytes.Equal(r.it.Key(), key) {
		return nil, r.it.Error()
	}
	v, err := r.it.ValueAndErr()
	return slices.Clone(v), err
}

// listed looks up where sessions of the bucket stand.
func (r *bucketReader) listed(numbers []chat.Number) ([]listed, error) {
	some := make([]listed, 0, len(numbers))
	for _, n := range numbers {
		v, err := r.get(headKey(nil, n))
		if err != nil {
			return nil, err
		}
		p, ok := decodePosition(v)
		if !ok || bucketOf(p.at) != r.bucket {
			continue // damage that verify tells of
		}
		name, err := r.get(numberKey(nil, kName, n))
		if err != nil {
			return nil, err
		}
		some = append(some, listed{place{p.at, chat.SessionID(name)}, n, p.seq})
	}
	return some, nil
}

func (r *bucketReader) record(s listed) (rec chat.Session, ok bool, err error) {
	v, err := r.get(numberKey(nil, kRecord, s.number))
	if v == nil || err != nil {
		return rec, false, err
	}
	if err := json.Unmarshal(v, &rec); err != nil {
		// One damaged record must not hide all other sessions.
		r.j.opt.Logger.Error("a session is left out of a list: its record is unreadable", "session", s.id)
		return rec, false, nil
	}
	rec.Last, rec.UpdatedAt = s.seq, s.at
	return rec, true, nil
}

// matcher returns the test that a record must pass.
func matcher(f *chat.Filter) func(*chat.Session) bool {
	words := strings.Fields(strings.ToLower(f.Query))
	return func(rec *chat.Session) bool {
		if rec.ID.System() && !f.System || f.Agent != "" && rec.Agent != f.Agent || f.Status != "" && rec.Status != f.Status {
			return false
		}
		if len(words) == 0 {
			return true
		}
		text := strings.ToLower(rec.Title + "\n" + rec.Summary + "\n" + string(rec.ID))
		for _, w := range words {
			if !strings.Contains(text, w) {
				return false
			}
		}
		return true
	}
}
