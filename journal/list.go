package journal

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
)

const (
	defaultPage = 100
	maxPage     = 1000
	// scanBound is how many sessions one page looks at when a filter lets few
	// through; the page then ends early, with a cursor.
	scanBound = 5000
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

func parsePlace(s string) (p place, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) < 10 || b[0] != 1 || chat.SessionID(b[9:]).Validate() != nil {
		return p, chat.Errorf(chat.Invalid, "the cursor is not one that a list gave out: begin again without one")
	}
	return place{chat.At(binary.BigEndian.Uint64(b[1:])), chat.SessionID(b[9:])}, nil
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

// List returns sessions, the most recently active first, then by id. A session
// that becomes active while somebody pages moves to the front, where the pages
// to come do not show it; every other is shown exactly once. A page may have
// fewer sessions than asked for, even none, and yet a cursor.
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
	from, to := span(tokenKey(nil, kActivity, who))
	var start *place
	if f.Cursor != "" {
		p, err := parsePlace(f.Cursor)
		if err != nil {
			return page, err
		}
		start, from = &p, activityKey(nil, who, bucketOf(p.at), 0)
	}
	page.Sessions = []chat.Session{}
	match := matcher(&f)
	var scanned int
	for from != nil {
		var bucket []listed
		if bucket, from, err = j.readBucket(from, to); err != nil {
			return page, err
		}
		for i, s := range bucket {
			if start != nil && !start.before(s.place) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return page, err
			}
			rec, ok, err := j.listedRecord(s)
			if err != nil {
				return page, err
			}
			scanned++
			if ok && match(&rec) {
				page.Sessions = append(page.Sessions, rec)
			}
			if len(page.Sessions) >= limit || scanned >= scanBound {
				if i+1 < len(bucket) || from != nil {
					page.Next = s.cursor()
				}
				return page, nil
			}
		}
	}
	return page, nil
}

// readBucket reads the sessions of the first bucket at or after from, in order,
// and says where the next bucket begins (nil when there is none).
func (j *Journal) readBucket(from, to []byte) (bucket []listed, next []byte, err error) {
	it, err := j.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return nil, nil, err
	}
	var numbers []chat.Number
	var current uint64
	for ok := it.First(); ok; ok = it.Next() {
		d, ok := decodeKey(it.Key())
		if !ok {
			continue
		}
		if len(numbers) > 0 && d.bucket != current {
			next = slices.Clone(it.Key())
			break
		}
		current = d.bucket
		numbers = append(numbers, d.number)
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return nil, nil, err
	}
	for _, n := range numbers {
		v, err := j.get(headKey(nil, n))
		if err != nil {
			return nil, nil, err
		}
		p, ok := decodePosition(v)
		if !ok || bucketOf(p.at) != current {
			continue // it moved to the front, or was erased, since the index was read
		}
		name, err := j.get(numberKey(nil, kName, n))
		if err != nil {
			return nil, nil, err
		}
		bucket = append(bucket, listed{place{p.at, chat.SessionID(name)}, n, p.seq})
	}
	slices.SortFunc(bucket, func(a, b listed) int {
		if a.before(b.place) {
			return -1
		}
		return 1
	})
	return bucket, next, nil
}

func (j *Journal) listedRecord(s listed) (rec chat.Session, ok bool, err error) {
	v, err := j.get(numberKey(nil, kRecord, s.number))
	if v == nil || err != nil {
		return rec, false, err
	}
	if err := json.Unmarshal(v, &rec); err != nil {
		// One damaged record must not hide all other sessions.
		j.opt.Logger.Error("a session is left out of a list: its record is unreadable", "session", s.id)
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
