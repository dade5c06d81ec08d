package agent

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// Part returns the turn as one strand of its work sees it. The steps of a part
// are numbered on their own, under its name, so that several parts can go on at
// once, and an agent that knows from the log where it was can go on in the part
// it was in without repeating the ones before. A part has one goroutine, as a
// turn has. Names are letters and digits; a part of a part has both names.
func (t *Turn) Part(name string) *Turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := *t
	p.part, p.steps = t.part+name+".", 0
	return &p
}

// Read returns stored events of the session; more says that the range has
// further ones.
func (t *Turn) Read(ctx context.Context, r chat.Range) (facts []chat.Fact, more bool, err error) {
	return t.sessions.Read(ctx, t.caller, t.session, r)
}

// Events returns stored events of the session, page by page as [chat.Facts] reads
// them.
func (t *Turn) Events(ctx context.Context, r chat.Range) iter.Seq2[chat.Event, error] {
	return chat.Events(chat.Facts(r, func(r chat.Range) ([]chat.Fact, bool, error) { return t.Read(ctx, r) }))
}

// Keep puts several bodies into the log as the next step: all of them, or none
// if the process dies. A step that an earlier attempt finished gives what it
// gave then.
func (t *Turn) Keep(ctx context.Context, bodies ...chat.Body) ([]chat.Event, error) {
	step := t.step()
	ref := t.Ref()
	drafts := make([]chat.Draft, len(bodies))
	for i, b := range bodies {
		d := chat.NewDraft(b).As(t.key(step + "-" + strconv.Itoa(i)))
		d.Turn, d.Attempt, d.Workstream = ref.Turn, ref.Attempt, t.Workstream
		drafts[i] = d
	}
	var before []chat.Event
	for i := range drafts {
		if e, ok := t.earlier(drafts[i].ClientID); ok {
			before = append(before, e)
		}
	}
	if len(before) > 0 { // they stand together, so all are there
		return before, nil
	}
	if err := t.box.gate(ctx); err != nil {
		return nil, err
	}
	return t.sessions.Append(ctx, t.caller, ref.Session, drafts)
}

// Withheld returns the blocks that earlier attempts were writing in this part
// and that nobody has taken up.
func (t *Turn) Withheld() []chat.Block {
	base := "b" + strconv.FormatUint(uint64(t.Started.Seq), 10) + "-" + strings.ReplaceAll(t.part, ".", "-")
	return slices.DeleteFunc(t.Open(), func(b chat.Block) bool { return !strings.HasPrefix(string(b.ID), base) })
}

// Block is the block that is being written, as far as readers have it.
func (w *Writer) Block() chat.BlockID { return w.block }

// Again begins the block anew, because what led to it was cut off and is asked
// for again: the same text goes on where it stopped, another one leaves the
// block as it was shown and begins a new one.
func (w *Writer) Again() {
	if w.done {
		w.text.Reset()
		w.json, w.rest = 0, nil
		return
	}
	if w.text.Len() >= w.shown {
		w.old = w.text.String()[:w.shown]
	}
	w.text.Reset()
	w.json, w.rest = 0, nil
}

// Leave closes the block with exactly what was shown, unless nothing was.
func (w *Writer) Leave(ctx context.Context) error {
	if w.done || w.shown == 0 {
		return nil
	}
	w.Again()
	return w.abandon(ctx)
}

// Hold ends the block without putting it into the log and returns the fact that
// it is to become; Keep puts it there, together with others. The text of the
// block is what was written.
func (w *Writer) Hold(ctx context.Context) (chat.Body, error) {
	if len(w.rest) > 0 {
		w.rest = nil
		if err := w.show(ctx, "\uFFFD"); err != nil {
			return nil, err
		}
	}
	if w.text.Len() < w.shown && !w.done {
		if err := w.abandon(ctx); err != nil {
			return nil, err
		}
	}
	if w.kind == chat.ThinkingBlock {
		return chat.AgentThinking{Block: w.block, Text: w.text.String()}, nil
	}
	return chat.AgentText{Block: w.block, Text: w.text.String(), Final: w.final}, nil
}

// Answer waits for the end of a prompt that is in the log already: the body of
// its answer, or ErrExpired or ErrWithdrawn.
func (t *Turn) Answer(ctx context.Context, requestID string) (chat.Body, error) {
	return t.answer(ctx, requestID)
}
