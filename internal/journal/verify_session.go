package journal

import (
	"bytes"
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
)

// check verifies one session.
type check struct {
	j        *Journal
	id       chat.SessionID
	number   chat.Number
	head     logEnd
	state    *chat.State
	prompts  map[keyHash]promptValue // according to the log
	broken   bool                    // the log cannot be folded to its end
	events   int
	bytes    uint64
	damage   []Damage
	progress func(events int) // called after every progressEvery events; may be nil
}

// progressEvery is the number of events between two calls of check.progress.
const progressEvery = 5000

func newCheck(j *Journal, id chat.SessionID, n chat.Number) *check {
	return &check{j: j, id: id, number: n, state: &chat.State{Number: n}, prompts: map[keyHash]promptValue{}}
}

func (c *check) bad(seq chat.Seq, kind, format string, args ...any) {
	c.damage = append(c.damage, Damage{c.id, seq, kind, fmt.Sprintf(format, args...)})
}

func (c *check) run(ctx context.Context) error {
	if n, ok, err := c.j.numberOf(c.id); err != nil || !ok || n != c.number {
		c.bad(0, "name", "its id does not refer to its number")
	}
	v, err := c.j.get(headKey(nil, c.number))
	if err != nil {
		c.bad(0, "head", "%s", cannotRead(err))
	}
	var ok bool
	if c.head, ok = decodeLogEnd(v); !ok {
		c.bad(0, "head", "it is missing or unreadable")
	}
	if err := c.log(ctx, ok); err != nil {
		return err
	}
	c.clientIndex()
	if !c.broken { // else the indexes cannot be compared with it
		c.record()
		c.promptIndex()
		c.marks()
	}
	return nil
}

// log checks the events.
func (c *check) log(ctx context.Context, headKnown bool) error {
	it, err := c.j.db.NewIter(&pebble.IterOptions{LowerBound: numberKey(nil, kEvent, c.number), UpperBound: headKey(nil, c.number)})
	if err != nil {
		return err
	}
	defer it.Close()
	expect := chat.Seq(1)
	var last chat.Hash
	for ok := it.First(); ok; ok = it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		d, known := decodeKey(it.Key())
		if !known {
			c.bad(0, "event", "the key %x is unknown", it.Key())
			continue
		}
		if headKnown && d.seq > c.head.seq {
			c.bad(d.seq, "event", "it is after the head, whose last event is %d", c.head.seq)
			c.broken = true
			break
		}
		value, err := it.ValueAndErr()
		if err != nil {
			c.bad(d.seq, "event", "%s", cannotRead(err))
			c.broken = true
			break
		}
		for ; expect < d.seq; expect++ {
			c.bad(expect, "event", "it is missing")
			c.broken = true
			if d.seq-expect > 10 {
				c.bad(d.seq-1, "event", "all up to here are missing")
				expect = d.seq - 1
			}
		}
		last = c.event(chat.Fact{Seq: d.seq, JSON: bytes.Clone(value)}, last, expect == d.seq)
		expect = d.seq + 1
		if c.progress != nil && c.events%progressEvery == 0 {
			c.progress(c.events)
		}
	}
	if err := it.Error(); err != nil {
		c.bad(expect, "event", "%s", cannotRead(err))
		c.broken = true
		return nil
	}
	if headKnown && expect != c.head.seq+1 && !c.broken {
		c.bad(expect, "event", "the log ends before the head, whose last event is %d", c.head.seq)
		c.broken = true
	}
	if headKnown && !c.broken && (last != c.head.hash || c.state.LastAt != c.head.at) {
		c.bad(c.head.seq, "head", "the last event is not the one that it refers to")
	}
	if headKnown && !c.broken && uint64(c.head.bytes) != c.bytes {
		c.bad(0, "counter", "the head has %d bytes of events, the log has %d", c.head.bytes, c.bytes)
	}
	return nil
}

// event checks one event and returns its hash.
func (c *check) event(f chat.Fact, prev chat.Hash, contiguous bool) chat.Hash {
	hash := f.Hash()
	c.events++
	c.bytes += uint64(len(f.JSON))
	e, err := f.Event()
	if err != nil {
		c.bad(f.Seq, "event", "it is unreadable: %s", chat.Public(err).Msg)
		c.broken = true
		return hash
	}
	if e.Session != c.id || e.Seq != f.Seq {
		c.bad(f.Seq, "event", "event %d of session %s is stored in its place", e.Seq, e.Session)
		c.broken = true
		return hash
	}
	if e.Prev != prev && contiguous {
		c.bad(f.Seq, "event", "it does not follow from the one before it: one of the two was changed")
	}
	if f.Seq > 1 && e.At <= c.state.LastAt {
		c.bad(f.Seq, "event", "its time is not after that of the one before it")
	}
	if e.ID != "" && string(e.ID) != chat.MakeID(c.number, e.Seq).Text(chat.EventPrefix) {
		c.bad(f.Seq, "event", "its id belongs to another event")
	}
	if e.ClientID != "" {
		c.client(&e)
	}
	c.prompt(&e)
	if !c.broken {
		c.state.Apply(&e)
		c.checkpoint(e.Seq)
	}
	return hash
}

func (c *check) client(e *chat.Event) {
	v, err := c.j.get(numberHashKey(nil, kClient, c.number, hashOf(e.Actor.Key(), e.ClientID)))
	if seq, _, ok := decodeClient(v); err != nil || !ok || seq != e.Seq {
		c.bad(e.Seq, "client id", "the index does not refer to the event")
	}
}

func (c *check) prompt(e *chat.Event) {
	if ended := chat.AnswerOf(e.Body); ended != "" {
		if p, ok := c.prompts[hashOf(ended)]; ok && p.ref.Ended == 0 {
			p.ref.Ended = e.Seq
			c.prompts[hashOf(ended)] = p
		}
	} else if q, ok := chat.AsPrompt(e); ok {
		c.prompts[hashOf(q.RequestID)] = promptValue{core.PromptRef{Asked: e.Seq}, q.Deadline, q.RequestID}
	}
}

// checkpoint compares a stored state with the fold of the events up to it.
func (c *check) checkpoint(seq chat.Seq) {
	v, err := c.j.get(seqKey(nil, kState, c.number, seq))
	if v == nil && err == nil {
		return
	}
	var stored chat.State
	if err != nil || json.Unmarshal(v, &stored) != nil {
		c.bad(seq, "checkpoint", "it is unreadable")
		return
	}
	if !sameJSON(&stored, c.state) {
		c.bad(seq, "checkpoint", "it differs from the fold of the events")
	}
}

func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// clientIndex finds entries that belong to no event.
func (c *check) clientIndex() {
	c.each(kClient, func(e entry) {
		if seq, _, ok := decodeClient(e.value); !ok {
			c.bad(0, "client id", "an entry is unreadable")
		} else if !c.leads(e.hash, seq) {
			c.bad(seq, "client id", "an entry refers to an event with another client id")
		}
	})
}

// leads reports whether event seq has the client id of a hash.
func (c *check) leads(t keyHash, seq chat.Seq) bool {
	v, err := c.j.get(seqKey(nil, kEvent, c.number, seq))
	if err != nil || v == nil {
		return false
	}
	e, err := chat.ParseEvent(v)
	return err == nil && hashOf(e.Actor.Key(), e.ClientID) == t
}

func (c *check) each(kind byte, visit func(entry)) {
	for e, err := range c.j.walk(context.Background(), numberKey(nil, kind, c.number)) {
		if err != nil {
			c.bad(0, kindNames[kind], "%s", cannotRead(err))
			return
		}
		visit(e)
	}
}

func (c *check) record() {
	rec, err := c.j.record(c.id, c.number)
	if err != nil {
		c.bad(0, "record", "it is missing or unreadable")
		return
	}
	want := c.state.Session
	rec.Last, rec.UpdatedAt = want.Last, want.UpdatedAt
	if !sameJSON(&rec, &want) {
		c.bad(0, "record", "it differs from the log")
		return
	}
	for _, w := range listsOf(&want) {
		if ok, err := c.j.has(activityKey(nil, w, bucketOf(c.state.LastAt), c.number)); err != nil || !ok {
			c.bad(0, "list", "the session is missing in a list")
		}
	}
}

func (c *check) promptIndex() {
	c.each(kPrompt, func(e entry) {
		want, ok := c.prompts[e.hash]
		got, readable := decodePrompt(e.value)
		switch {
		case !ok:
			c.bad(0, "prompt", "an entry belongs to no prompt")
		case !readable || got != want:
			c.bad(want.ref.Asked, "prompt", "its entry differs from the log")
		}
		delete(c.prompts, e.hash)
		if ok && want.deadline != 0 && want.ref.Ended == 0 {
			if there, err := c.j.has(deadlineKey(nil, want.deadline, c.number, e.hash)); err != nil || !there {
				c.bad(want.ref.Asked, "deadline", "it is missing")
			}
		}
	})
	for _, p := range c.prompts {
		c.bad(p.ref.Asked, "prompt", "its entry is missing")
	}
}

// marks checks the working entry, and checkpoints and block ends that belong to no
// event.
func (c *check) marks() {
	working, err := c.j.has(numberKey(nil, kWorking, c.number))
	if err != nil || working != c.state.Busy() {
		c.bad(0, "working", "the entry is %t, the log gives %t", working, c.state.Busy())
	}
	c.each(kState, func(e entry) {
		if e.seq == 0 || e.seq > c.state.Last {
			c.bad(e.seq, "checkpoint", "it is after the last event")
		}
	})
	c.each(kEnds, func(e entry) {
		_, readable := decodeEnds(e.value)
		v, err := c.j.get(seqKey(nil, kEvent, c.number, e.seq))
		if err != nil || v == nil || !readable {
			c.bad(e.seq, "block ends", "they are unreadable or belong to no event")
			return
		}
		if ev, err := chat.ParseEvent(v); err != nil || chat.FinishedBlock(ev.Body) == "" {
			c.bad(e.seq, "block ends", "the event finishes no block")
		}
	})
}
