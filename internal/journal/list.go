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
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
)

const (
	defaultPage = 100
	maxPage     = 1000
	// scanBound is how many sessions are read for one page when the filter matches
	// few; the page then ends early, with a cursor.
	scanBound = 5000
	// exactBucket is the largest bucket that is sorted, which reads the head of
	// each session. The sessions of a larger bucket come in the order of the index.
	exactBucket = 512
)

// orderedCursor continues a list after the session with this position and id.
type orderedCursor struct {
	at chat.At
	id chat.SessionID
}

func (p orderedCursor) cursor() string {
	b := binary.BigEndian.AppendUint64([]byte{1}, uint64(p.at))
	return base64.RawURLEncoding.EncodeToString(append(b, p.id...))
}

// indexCursor continues a list in a bucket that is too large to be sorted, after the
// session with this number.
type indexCursor struct {
	bucket uint64
	number chat.Number
}

func (p indexCursor) cursor() string {
	b := binary.BigEndian.AppendUint64([]byte{2}, p.bucket)
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(b, uint64(p.number)))
}

// parseCursor reads a cursor of either kind; the other result is nil.
func parseCursor(s string) (*orderedCursor, *indexCursor, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	switch {
	case err == nil && len(b) >= 10 && b[0] == 1 && chat.SessionID(b[9:]).Validate() == nil:
		return &orderedCursor{chat.At(binary.BigEndian.Uint64(b[1:])), chat.SessionID(b[9:])}, nil, nil
	case err == nil && len(b) == 17 && b[0] == 2:
		return nil, &indexCursor{binary.BigEndian.Uint64(b[1:]), chat.Number(binary.BigEndian.Uint64(b[9:]))}, nil
	}
	return nil, nil, chat.Errorf(chat.Invalid, "the cursor was not made by this server: list again without one")
}

// before reports whether p comes before q in a list: the most recently active
// first, then by id.
func (p orderedCursor) before(q orderedCursor) bool {
	return cmp.Or(cmp.Compare(q.at, p.at), cmp.Compare(p.id, q.id)) < 0
}

// listed is a session of the current bucket.
type listed struct {
	orderedCursor
	number chat.Number
	seq    chat.Seq
}

// List returns sessions, the most recently active first, then by id. When more than
// exactBucket sessions were last active in the same second, their order is not
// defined. A page shows one moment. A session that becomes active between two pages
// moves to the front and is not on the later pages; every other session is shown
// exactly once. A page may have fewer sessions than the limit, even none, and still
// have a cursor.
func (j *Journal) List(ctx context.Context, f core.Filter) (page chat.SessionPage, err error) {
	workspace := cmp.Or(f.Workspace, chat.DefaultWorkspace)
	list := hashOf(workspace, "")
	if f.Actor != nil {
		list = hashOf(workspace, f.Actor.Key())
	}
	limit := defaultPage
	if f.Limit > 0 {
		limit = min(f.Limit, maxPage)
	}
	// An iterator sees the store of one moment. A snapshot does too, but it would
	// prevent the removal of sessions that are erased meanwhile.
	it, err := j.db.NewIter(&pebble.IterOptions{})
	if err != nil {
		return page, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	at := bucketReader{j: j, it: it, list: list, few: limit}
	start, err := at.seek(&f)
	if err != nil {
		return page, err
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
			if start != nil && !start.before(s.orderedCursor) || f.Until != 0 && s.at >= f.Until {
				continue
			}
			if f.Since != 0 && bucketOf(s.at) < bucketOf(f.Since) {
				return page, nil // all others are older
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
					page.Next = at.cursor(s)
				}
				return page, nil
			}
		}
	}
	return page, nil
}

// All returns the records of all sessions of all workspaces, ordered by number. A
// session that is erased meanwhile is left out.
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
	list     keyHash
	few      int    // how many sessions are read at a time of a bucket that is not sorted
	from, to []byte // the keys still to be read; from is nil at the end
	bucket   uint64 // the one that was read last
	exact    bool   // sort the next bucket whatever its size
	loose    bool   // do not sort the rest of the current bucket

	unordered bool // the sessions that were read last are in the order of the index
}

// seek goes to where the list that the filter asks for begins. Sessions of the first bucket that do not follow the
// cursor it returns are not on the page; nil means that all are.
func (r *bucketReader) seek(f *core.Filter) (*orderedCursor, error) {
	r.from, r.to = span(hashKey(nil, kActivity, r.list))
	if f.Cursor == "" {
		if f.Until != 0 {
			r.from = activityKey(nil, r.list, bucketOf(f.Until), 0)
		}
		return nil, nil
	}
	start, in, err := parseCursor(f.Cursor)
	switch {
	case err != nil:
		return nil, err
	case start != nil:
		r.from, r.exact = activityKey(nil, r.list, bucketOf(start.at), 0), true
	default:
		r.from, r.loose, r.bucket = activityKey(nil, r.list, in.bucket, in.number+1), true, in.bucket
	}
	return start, nil
}

// cursor continues the list after s, a session of the last bucket.
func (r *bucketReader) cursor(s listed) string {
	if r.unordered {
		return indexCursor{r.bucket, s.number}.cursor()
	}
	return s.cursor()
}

// next returns the sessions of the next bucket, sorted, or some of a large bucket.
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
		more, follows = true, activityKey(nil, r.list, r.bucket, numbers[r.few])
		numbers = numbers[:r.few]
	}
	r.from, r.unordered, r.loose, r.exact = follows, r.loose || more, more, false
	some, err := r.listed(numbers)
	if err == nil && !r.unordered {
		slices.SortFunc(some, func(a, b listed) int {
			if a.before(b.orderedCursor) {
				return -1
			}
			return 1
		})
	}
	return some, err
}

// get reads a key; nil means that it does not exist.
func (r *bucketReader) get(key []byte) ([]byte, error) {
	if !r.it.SeekGE(key) || !bytes.Equal(r.it.Key(), key) {
		return nil, r.it.Error()
	}
	v, err := r.it.ValueAndErr()
	return slices.Clone(v), err
}

// listed reads the positions and ids of sessions of the bucket.
func (r *bucketReader) listed(numbers []chat.Number) ([]listed, error) {
	some := make([]listed, 0, len(numbers))
	for _, n := range numbers {
		v, err := r.get(headKey(nil, n))
		if err != nil {
			return nil, err
		}
		p, ok := decodeLogEnd(v)
		if !ok || bucketOf(p.at) != r.bucket {
			continue // damage that Verify reports
		}
		name, err := r.get(numberKey(nil, kName, n))
		if err != nil {
			return nil, err
		}
		some = append(some, listed{orderedCursor{p.at, chat.SessionID(name)}, n, p.seq})
	}
	return some, nil
}

func (r *bucketReader) record(s listed) (rec chat.Session, ok bool, err error) {
	v, err := r.get(numberKey(nil, kRecord, s.number))
	if v == nil || err != nil {
		return rec, false, err
	}
	if err := json.Unmarshal(v, &rec); err != nil {
		// The other sessions must stay visible.
		r.j.opt.Logger.Error("a session is left out of a list: its record is unreadable", "session", s.id)
		return rec, false, nil
	}
	rec.Last, rec.UpdatedAt = s.seq, s.at
	return rec, true, nil
}

// matcher returns a function that reports whether a record passes the filter.
func matcher(f *core.Filter) func(*chat.Session) bool {
	words := strings.Fields(strings.ToLower(f.Query))
	return func(rec *chat.Session) bool {
		switch {
		case rec.ID.System() && !f.System, f.Agent != "" && rec.Agent != f.Agent, f.Status != "" && rec.Status != f.Status,
			f.User != "" && rec.RoleOf(chat.Actor{Kind: chat.User, ID: f.User}) == "",
			f.Archived != nil && rec.Archived != *f.Archived, f.Since != 0 && rec.UpdatedAt < f.Since:
			return false
		}
		if len(words) == 0 {
			return true
		}
		text := strings.ToLower(rec.Title + "\n" + rec.Heading + "\n" + rec.Summary + "\n" + string(rec.ID))
		for _, w := range words {
			if !strings.Contains(text, w) {
				return false
			}
		}
		return true
	}
}
