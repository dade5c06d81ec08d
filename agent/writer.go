package agent

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
)

// Writer streams one block: what is written goes out at once as previews, Close
// makes it a fact. After a crash the agent may write the same text again: what
// was shown is skipped. Text that differs from what was shown begins a new
// block, and the old one stays as it was.
type Writer struct {
	turn  *Turn
	kind  chat.BlockKind
	step  string
	final bool
	parts int    // blocks this writer has finished because they were full
	rest  []byte // an incomplete character

	block chat.BlockID    // the current one
	text  strings.Builder // of the current block
	json  int             // what its text takes as JSON
	shown int             // bytes of it that readers have
	old   string          // what an earlier attempt showed of it
	done  bool            // an earlier attempt finished it
	fresh int             // blocks this attempt has left behind
}

// Stream begins a block of text; final marks the turn's answer.
func (t *Turn) Stream(final bool) *Writer {
	w := t.writer(chat.TextBlock)
	w.final = final
	return w
}

// Think begins a block of reasoning.
func (t *Turn) Think() *Writer { return t.writer(chat.ThinkingBlock) }

func (t *Turn) writer(kind chat.BlockKind) *Writer {
	w := &Writer{turn: t, kind: kind, step: t.step()}
	w.begin()
	return w
}

// begin sets the writer on its next block: the one that an earlier attempt was
// writing at this step, if there is one.
func (w *Writer) begin() {
	_, w.done = w.turn.earlier(w.turn.key(w.stepName()))
	w.block = w.blockID()
	w.text.Reset()
	w.json, w.shown, w.old = 0, 0, ""
	if w.done {
		return
	}
	t := w.turn
	t.mu.Lock()
	defer t.mu.Unlock()
	base := w.block
	if w.done = t.kept(base); w.done {
		return
	}
	if t.finished(base) {
		w.block = w.freshID(t.attempt)
	}
	for _, b := range t.open {
		if b.ID == base || strings.HasPrefix(string(b.ID), string(base)+"-a") {
			w.block, w.old, w.shown = b.ID, b.Text, len(b.Text)
		}
	}
}

// kept reports whether an earlier attempt kept the block together with other
// facts, whole. The caller holds mu.
func (t *Turn) kept(base chat.BlockID) bool {
	return slices.ContainsFunc(t.past, func(e chat.Event) bool {
		id := chat.FinishedBlock(e.Body)
		if id != base && !strings.HasPrefix(string(id), string(base)+"-a") {
			return false
		}
		switch b := e.Body.(type) {
		case chat.AgentText:
			return !b.Partial
		case chat.AgentThinking:
			return !b.Partial
		}
		return false
	})
}

// finished reports whether an earlier attempt finished the block. The caller
// holds mu.
func (t *Turn) finished(block chat.BlockID) bool {
	return slices.ContainsFunc(t.past, func(e chat.Event) bool { return chat.FinishedBlock(e.Body) == block })
}

// blockID names the block of the writer's step; freshID the one that an attempt
// begins that cannot go on in it.
func (w *Writer) blockID() chat.BlockID {
	return chat.BlockID(fmt.Sprintf("b%d-%s", w.turn.Started.Seq, strings.ReplaceAll(w.stepName(), ".", "-")))
}

func (w *Writer) freshID(attempt int) chat.BlockID {
	return w.blockID() + chat.BlockID("-a"+strconv.Itoa(attempt))
}

func (w *Writer) stepName() string {
	if w.parts == 0 {
		return w.step
	}
	return w.step + "." + strconv.Itoa(w.parts)
}

// Behind reports whether readers have seen more than was written so far: an
// agent that writes at its own pace need not wait while it catches up.
func (w *Writer) Behind() bool { return w.done || w.text.Len() < w.shown }

// Write shows a piece.
func (w *Writer) Write(ctx context.Context, piece string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(w.rest) > 0 {
		piece = string(w.rest) + piece
		w.rest = nil
	}
	if n := incomplete(piece); n > 0 {
		w.rest = []byte(piece[len(piece)-n:])
		piece = piece[:len(piece)-n]
	}
	if piece == "" {
		return nil
	}
	piece = strings.ToValidUTF8(piece, "\uFFFD")
	for {
		n := w.room(piece)
		if err := w.show(ctx, piece[:n]); err != nil {
			return err
		}
		if piece = piece[n:]; piece == "" {
			return nil
		}
		if err := w.finish(ctx, false); err != nil {
			return err
		}
		w.parts++
		w.begin()
	}
}

// room returns how much of a piece fits the block, so that one character still
// fits behind it.
func (w *Writer) room(piece string) int {
	const most, mostJSON = chat.MaxBlock - utf8.UTFMax, chat.MaxBlockJSON - 6
	if w.text.Len()+len(piece) <= most && w.json+6*len(piece) <= mostJSON {
		return len(piece)
	}
	bytes, json := w.text.Len(), w.json
	for i, c := range piece {
		size := utf8.RuneLen(c)
		bytes, json = bytes+size, json+chat.JSONLen(piece[i:i+size])
		if bytes > most || json > mostJSON {
			return i
		}
	}
	return len(piece)
}

// show writes a piece that fits the block.
func (w *Writer) show(ctx context.Context, piece string) error {
	if piece == "" {
		return nil
	}
	from := w.text.Len()
	w.text.WriteString(piece)
	w.json += chat.JSONLen(piece)
	if w.done {
		return nil
	}
	if from < w.shown {
		same := min(w.shown, w.text.Len())
		if w.text.String()[from:same] != w.old[from:same] {
			if err := w.abandon(ctx); err != nil {
				return err
			}
			from = 0
		} else {
			from = same
		}
	}
	if from == w.text.Len() {
		return nil
	}
	t := w.turn
	if err := t.box.gate(ctx); err != nil {
		return err
	}
	ref := t.Ref()
	from = w.shown // what could not be shown before comes along
	err := t.sessions.Preview(ctx, t.caller, ref.Session, []chat.Preview{{
		Block: w.block, Offset: from, Text: w.text.String()[from:], Kind: w.kind,
		Workstream: t.Workstream, Turn: ref.Turn, Attempt: ref.Attempt,
	}})
	if chat.CodeOf(err) == chat.SlowDown {
		return nil // too many write at once: this block is seen when it is finished, or there is room
	}
	if err == nil {
		w.shown = w.text.Len()
	}
	return err
}

// abandon leaves the old block as it was shown and begins another.
func (w *Writer) abandon(ctx context.Context) error {
	err := w.turn.Abandon(ctx, chat.Block{ID: w.block, Kind: w.kind, Text: w.old})
	w.block, w.old, w.shown = w.freshID(w.turn.Ref().Attempt), "", 0
	if w.fresh++; w.fresh > 1 {
		w.block += chat.BlockID("-" + strconv.Itoa(w.fresh))
	}
	return err
}

// Close makes the block a fact.
func (w *Writer) Close(ctx context.Context) error {
	if len(w.rest) > 0 {
		w.rest = nil
		if err := w.show(ctx, "\uFFFD"); err != nil {
			return err
		}
	}
	return w.finish(ctx, w.final)
}

func (w *Writer) finish(ctx context.Context, final bool) error {
	if w.text.Len() < w.shown && !w.done {
		// The new attempt says less than was shown.
		if err := w.abandon(ctx); err != nil {
			return err
		}
	}
	var body chat.Body = chat.AgentText{Block: w.block, Text: w.text.String(), Final: final}
	if w.kind == chat.ThinkingBlock {
		body = chat.AgentThinking{Block: w.block, Text: w.text.String()}
	}
	_, err := w.turn.append(ctx, body, w.turn.key(w.stepName()))
	return err
}

// incomplete counts the bytes at the end of s that are the start of a character.
func incomplete(s string) int {
	for i := 1; i < utf8.UTFMax && i <= len(s); i++ {
		c := s[len(s)-i]
		if utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRuneInString(s[len(s)-i:]) {
				return i
			}
			return 0
		}
	}
	return 0
}
