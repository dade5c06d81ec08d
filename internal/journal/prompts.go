package journal

import (
	"cmp"
	"context"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// putPrompts updates the index of prompts and of their deadlines.
func putPrompts(r pebble.Reader, b *pebble.Batch, n chat.Number, events []chat.Event) error {
	var known map[keyHash]promptValue // touched by this commit
	find := func(t keyHash) (promptValue, bool, error) {
		if p, ok := known[t]; ok {
			return p, true, nil
		}
		v, err := getFrom(r, numberHashKey(nil, kPrompt, n, t))
		p, ok := decodePrompt(v)
		return p, ok, err
	}
	put := func(t keyHash, p promptValue) {
		if known == nil {
			known = map[keyHash]promptValue{}
		}
		known[t] = p
		b.Set(numberHashKey(nil, kPrompt, n, t), p.append(nil), nil)
	}
	for i := range events {
		e := &events[i]
		ended := chat.AnswerOf(e.Body)
		if ended == "" && !mayAsk(e.Body) {
			continue
		}
		q, asks := chat.AsPrompt(e)
		if !asks && ended == "" {
			continue // a notification has no answer
		}
		t := hashOf(cmp.Or(ended, q.RequestID))
		p, ok, err := find(t)
		if err != nil {
			return err
		}
		if ok && p.ref.Ended == 0 && p.deadline != 0 {
			b.Delete(deadlineKey(nil, p.deadline, n, t), nil)
		}
		if asks {
			put(t, promptValue{core.PromptRef{Asked: e.Seq}, q.Deadline, q.RequestID})
			if q.Deadline != 0 {
				b.Set(deadlineKey(nil, q.Deadline, n, t), nil, nil)
			}
		} else if ok && p.ref.Ended == 0 { // the first answer stays
			p.ref.Ended = e.Seq
			put(t, p)
		}
	}
	return nil
}

// mayAsk reports whether an event can be a prompt, without building one.
func mayAsk(b chat.Body) bool {
	switch b.(type) {
	case chat.AgentInputRequest, chat.AgentApprovalRequest, chat.AgentPermissionRequest:
		return true
	}
	return false
}

// Prompt returns the events that asked and ended a prompt; ok is false when there is
// none with that id.
func (j *Journal) Prompt(_ context.Context, id chat.SessionID, requestID string) (ref core.PromptRef, ok bool, err error) {
	v, err := j.look(id)
	if err != nil {
		return ref, false, err
	}
	b, err := j.get(numberHashKey(nil, kPrompt, v.number, hashOf(requestID)))
	if b == nil || err != nil {
		return ref, false, err
	}
	p, ok := decodePrompt(b)
	if !ok {
		return ref, false, damaged(id, 0, "the index entry of a prompt is unreadable")
	}
	// Events that are not durable yet are not visible.
	if p.ref.Asked > v.seq {
		return ref, false, nil
	}
	if p.ref.Ended > v.seq {
		p.ref.Ended = 0
	}
	return p.ref, true, nil
}

// chunk is how many index entries walk reads before it yields them. No iterator is
// open meanwhile, so a slow caller does not keep old tables.
const chunk = 256

// Deadlines returns the open prompts that have a deadline, the earliest first.
// Prompts that are asked or end meanwhile may be included or not.
func (j *Journal) Deadlines(ctx context.Context) iter.Seq2[core.Deadline, error] {
	return func(yield func(core.Deadline, error) bool) {
		for e, err := range j.walk(ctx, []byte{kDeadline}) {
			if err != nil {
				yield(core.Deadline{}, err)
				return
			}
			d, ok, err := j.deadline(ctx, e.decoded)
			if !ok && err == nil {
				continue // it ended since the entry was read
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// deadline returns the prompt of an index entry.
func (j *Journal) deadline(ctx context.Context, e decoded) (d core.Deadline, ok bool, err error) {
	v, err := j.get(numberHashKey(nil, kPrompt, e.number, e.hash))
	if err != nil {
		return d, false, err
	}
	p, ok := decodePrompt(v)
	if !ok || p.ref.Ended != 0 {
		return d, false, nil
	}
	id, err := j.SessionOf(ctx, e.number)
	switch chat.CodeOf(err) {
	case "":
		return core.Deadline{Session: id, RequestID: p.request, At: e.at}, true, nil
	case chat.Gone, chat.NotFound:
		return d, false, nil
	}
	return d, false, err
}

// Working returns the sessions that had a turn running or waiting after their
// last commit.
func (j *Journal) Working(ctx context.Context) iter.Seq2[chat.SessionID, error] {
	return func(yield func(chat.SessionID, error) bool) {
		for e, err := range j.walk(ctx, []byte{kWorking}) {
			if err != nil {
				yield("", err)
				return
			}
			id, err := j.SessionOf(ctx, e.number)
			if chat.CodeOf(err) == chat.Gone || chat.CodeOf(err) == chat.NotFound {
				continue
			}
			if !yield(id, err) || err != nil {
				return
			}
		}
	}
}

// IDs yields the ids of all sessions that are not erased, in no particular order. Sessions that are created meanwhile may be
// missing.
func (j *Journal) IDs(ctx context.Context) iter.Seq2[chat.SessionID, error] {
	return func(yield func(chat.SessionID, error) bool) {
		for e, err := range j.walk(ctx, []byte{kName}) {
			if err == nil && len(e.value) == 0 {
				continue // erased
			}
			if !yield(chat.SessionID(e.value), err) || err != nil {
				return
			}
		}
	}
}

// entry is a decoded key and its value.
type entry struct {
	decoded
	value []byte
}

// walk yields all entries with a prefix in order. It reads them in chunks.
func (j *Journal) walk(ctx context.Context, prefix []byte) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		from, to := span(prefix)
		for {
			entries, next, err := j.readChunk(from, to)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(entry{}, err)
				return
			}
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
			if next == nil {
				return
			}
			from = next
		}
	}
}

// readChunk returns the next entries and the key to continue at, nil at the end.
func (j *Journal) readChunk(from, to []byte) (entries []entry, next []byte, err error) {
	it, err := j.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return nil, nil, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if len(entries) == chunk {
			next = append([]byte(nil), it.Key()...)
			break
		}
		if d, ok := decodeKey(it.Key()); ok {
			entries = append(entries, entry{d, append([]byte(nil), it.Value()...)})
		}
	}
	if err := it.Error(); err != nil {
		it.Close()
		return nil, nil, err
	}
	return entries, next, it.Close()
}
