package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
)

// VerifyProgress counts what was verified so far.
type VerifyProgress struct {
	Sessions uint64
	Events   uint64
	Session  chat.SessionID // the current or last one
}

// VerifyReport is the outcome of a verification.
type VerifyReport struct {
	Sessions uint64
	Events   uint64
	Bytes    uint64   // of events
	Found    uint64   // number of damages
	Damage   []Damage // the first maxDamage of it
}

const maxDamage = 1000

// Damage describes one fault.
type Damage struct {
	Session chat.SessionID // "" when it belongs to none
	Seq     chat.Seq       // 0 when it is not about one event
	Kind    string         // file, previews, event, head, record, name, client id, prompt, deadline, checkpoint, block ends, working, list, counter, other
	What    string
}

func (d Damage) String() string {
	where := "store"
	if d.Session != "" {
		where = "session " + string(d.Session)
	}
	if d.Seq != 0 {
		where += fmt.Sprintf(", sequence %d", d.Seq)
	}
	return where + ": " + d.Kind + ": " + d.What
}

// Verify checks every session: the chain of its events, its head, and whether every
// index agrees with the log; then it looks for entries that belong to no session.
// Last it compares the files with the inventory and reads every table. It continues
// after damage. Commits may continue meanwhile; progress may be nil. An error means
// that the verification could not be completed.
func (j *Journal) Verify(ctx context.Context, progress func(VerifyProgress)) (VerifyReport, error) {
	v := &verifier{j: j, progress: progress}
	for e, err := range j.walk(ctx, []byte{kName}) {
		if err != nil {
			if err := v.unreadable(ctx, "name", err); err != nil {
				return v.report, err
			}
			break
		}
		if len(e.value) == 0 {
			continue // erased
		}
		if err := v.session(ctx, chat.SessionID(e.value), e.number); err != nil {
			return v.report, err
		}
	}
	if err := v.orphans(ctx); err != nil {
		return v.report, err
	}
	if err := v.indexes(ctx); err != nil {
		return v.report, err
	}
	if err := v.counters(ctx); err != nil {
		return v.report, err
	}
	for _, d := range j.losses {
		v.found(d)
	}
	return v.report, v.files(ctx)
}

type verifier struct {
	j        *Journal
	progress func(VerifyProgress)
	report   VerifyReport
}

func (v *verifier) found(d Damage) {
	v.report.Found++
	if len(v.report.Damage) < maxDamage {
		v.report.Damage = append(v.report.Damage, d)
	}
}

// unreadable reports a part of the store that cannot be read. It returns an error
// only when ctx has ended.
func (v *verifier) unreadable(ctx context.Context, kind string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	v.found(Damage{Kind: kind, What: cannotRead(err)})
	return nil
}

// cannotRead returns the text of a damage for a read error.
func cannotRead(err error) string {
	return "the store cannot be read: " + cleanText(err)
}

// cleanText is the text of an error without Pebble's marker for its own log.
func cleanText(err error) string {
	text, _, _ := strings.Cut(err.Error(), "<corruption detail")
	return strings.TrimSpace(text)
}

// session checks one session without blocking its commits. When it finds damage it
// checks again with the commit lock held, because a commit may have changed the
// session during the first check.
func (v *verifier) session(ctx context.Context, id chat.SessionID, n chat.Number) error {
	c := newCheck(v.j, id, n)
	if v.progress != nil {
		c.progress = func(events int) {
			v.progress(VerifyProgress{v.report.Sessions, v.report.Events + uint64(events), id})
		}
	}
	if err := c.run(ctx); err != nil {
		return err
	}
	if len(c.damage) > 0 && !v.j.readOnly {
		lock := v.j.commitLock(id)
		lock.Lock()
		name, err := v.j.get(numberKey(nil, kName, n))
		if err == nil && string(name) == string(id) {
			c = newCheck(v.j, id, n)
			err = c.run(ctx)
		} else {
			c.damage = nil // erased meanwhile
		}
		lock.Unlock()
		if err != nil {
			return err
		}
	}
	for _, d := range c.damage {
		v.found(d)
	}
	v.report.Sessions++
	v.report.Events += uint64(c.events)
	v.report.Bytes += c.bytes
	if v.progress != nil {
		v.progress(VerifyProgress{v.report.Sessions, v.report.Events, id})
	}
	return nil
}

// kindNames are the values of Damage.Kind by kind of key.
var kindNames = map[byte]string{
	kEvent: "event", kRecord: "record", kState: "checkpoint", kClient: "client id",
	kPrompt: "prompt", kEnds: "block ends", kWorking: "working", kFiles: "counter", kFileName: "file name",
}

// orphans finds keys under numbers that no session has.
func (v *verifier) orphans(ctx context.Context) error {
	for _, kind := range ranged {
		from, to := span([]byte{kind})
		it, err := v.j.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
		if err != nil {
			return err
		}
		for ok := it.First(); ok; {
			d, known := decodeKey(it.Key())
			if !known {
				v.found(Damage{Kind: kindNames[kind], What: fmt.Sprintf("the key %x is not one of ours", it.Key())})
				ok = it.Next()
				continue
			}
			if err := ctx.Err(); err != nil {
				return errors.Join(err, it.Close())
			}
			what, err := v.withoutSession(d.number)
			if what != "" {
				what, err = v.stillWithoutSession(kind, d.number)
			}
			if err != nil {
				if err := v.unreadable(ctx, kindNames[kind], err); err != nil {
					return errors.Join(err, it.Close())
				}
			} else if what != "" {
				v.found(Damage{Seq: d.seq, Kind: kindNames[kind], What: fmt.Sprintf("entries under number %d belong to %s", d.number, what)})
			}
			ok = it.SeekGE(numberKey(nil, kind, d.number+1))
		}
		if err := errors.Join(it.Error(), it.Close()); err != nil {
			v.found(Damage{Kind: kindNames[kind], What: cannotRead(err)})
		}
	}
	return nil
}

// stillWithoutSession checks again with a new iterator: the session may have been
// erased, or its import may have ended, since the iterator was opened.
func (v *verifier) stillWithoutSession(kind byte, n chat.Number) (string, error) {
	it, err := v.j.iter(numberKey(nil, kind, n))
	if err != nil {
		return "", err
	}
	there := it.First()
	if err := errors.Join(it.Error(), it.Close()); err != nil || !there {
		return "", err
	}
	return v.withoutSession(n)
}

// withoutSession returns what a number belongs to when it belongs to no session,
// else "".
func (v *verifier) withoutSession(n chat.Number) (string, error) {
	for _, note := range []byte{kErasing, kImporting} {
		if pending, err := v.j.has(numberKey(nil, note, n)); pending || err != nil {
			return "", err
		}
	}
	name, err := v.j.get(numberKey(nil, kName, n))
	switch {
	case err != nil:
		return "", err
	case name == nil:
		return "no session", nil
	case len(name) == 0:
		return "an erased session", nil
	}
	return "", nil
}

// indexes checks the entries whose keys do not begin with a number: ids, deadlines
// and lists.
func (v *verifier) indexes(ctx context.Context) error {
	for _, kind := range []byte{kID, kDeadline, kActivity} {
		for e, err := range v.j.walk(ctx, []byte{kind}) {
			if err != nil {
				if err := v.unreadable(ctx, indexNames[kind], err); err != nil {
					return err
				}
				break
			}
			if kind == kID {
				n, _ := decodeNumber(e.value)
				e.number = n
			}
			id, err := v.j.SessionOf(ctx, e.number)
			code := chat.CodeOf(err)
			var d *Damage
			if code != chat.Internal {
				d, err = v.indexEntry(e, id, code)
			}
			if code == chat.Internal || err != nil {
				if err := v.unreadable(ctx, indexNames[kind], err); err != nil {
					return err
				}
				continue
			}
			if d != nil {
				v.found(*d)
			}
		}
	}
	return nil
}

var indexNames = map[byte]string{kID: "name", kDeadline: "deadline", kActivity: "list"}

// indexEntry checks one such entry while it holds the commit lock of its session.
func (v *verifier) indexEntry(e entry, id chat.SessionID, code chat.Code) (*Damage, error) {
	bad := func(what string) *Damage { return &Damage{Session: id, Kind: indexNames[e.kind], What: what} }
	lock := v.j.commitLock(id)
	lock.Lock()
	defer lock.Unlock()
	var key []byte
	switch e.kind {
	case kID:
		key = hashKey(nil, kID, e.hash)
	case kDeadline:
		key = deadlineKey(nil, e.at, e.number, e.hash)
	default:
		key = activityKey(nil, e.hash, e.bucket, e.number)
	}
	if there, err := v.j.has(key); err != nil || !there {
		return nil, err // removed since it was read
	}
	if code != "" {
		if what, err := v.withoutSession(e.number); what == "" || err != nil {
			return nil, err // it is being imported, or erased
		}
		return bad(fmt.Sprintf("an entry under number %d belongs to no session", e.number)), nil
	}
	switch e.kind {
	case kID:
		if idHash(id) != e.hash {
			return bad("an id refers to the number of another session"), nil
		}
	case kDeadline:
		b, err := v.j.get(numberHashKey(nil, kPrompt, e.number, e.hash))
		if err != nil {
			return nil, err
		}
		if p, ok := decodePrompt(b); !ok || p.ref.Ended != 0 || p.deadline != e.at {
			return bad("an entry belongs to no open prompt"), nil
		}
	case kActivity:
		rec, err := v.j.record(id, e.number)
		if err != nil {
			return nil, nil // reported with the session
		}
		head, err := v.j.get(headKey(nil, e.number))
		if err != nil {
			return nil, err
		}
		p, ok := decodeLogEnd(head)
		if !ok {
			return nil, nil // reported with the session
		}
		for _, w := range listsOf(&rec) {
			if w == e.hash && bucketOf(p.at) == e.bucket {
				return nil, nil
			}
		}
		return bad("an entry is in the wrong place, or in the list of an actor that is not a member"), nil
	}
	return nil, nil
}
