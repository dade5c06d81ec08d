package agent

import (
	"context"
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
	block chat.BlockID
	parts int // blocks this writer has finished because they were full

	text  strings.Builder // of the current block
	shown int             // bytes of it that readers have
	old   string          // what an earlier attempt showed of it
	rest  []byte          // an incomplete character
	done  bool            // an earlier attempt finished it
	final bool
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

// begin sets the writer on its next block.
func (w *Writer) begin() {
	step := w.stepName()
	_, w.done = w.turn.earlier(w.turn.key(step))
	w.block = w.turn.blockID(step, false)
	w.text.Reset()
	w.shown, w.old = 0, ""
	w.turn.mu.Lock()
	if b, ok := w.turn.open[w.block]; ok && !w.done {
		w.old, w.shown = b.Text, len(b.Text)
	}
	w.turn.mu.Unlock()
}

func (w *Writer) stepName() string {
	if w.parts == 0 {
		return w.step
	}
	return w.step + "." + string(rune('a'+w.parts-1)) // at most 26 blocks of 512 KiB: larger than any answer
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
	for w.text.Len()+len(piece) > chat.MaxBlock-utf8.UTFMax {
		n := chat.MaxBlock - utf8.UTFMax - w.text.Len()
		for n > 0 && !utf8.RuneStart(piece[n]) {
			n--
		}
		if err := w.show(ctx, piece[:n]); err != nil {
			return err
		}
		if err := w.finish(ctx, false); err != nil {
			return err
		}
		piece = piece[n:]
		w.parts++
		w.begin()
	}
	return w.show(ctx, piece)
}

// show writes a piece that fits the block.
func (w *Writer) show(ctx context.Context, piece string) error {
	if piece == "" {
		return nil
	}
	from := w.text.Len()
	w.text.WriteString(piece)
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
	err := t.sessions.Preview(ctx, t.caller, t.Ref.Session, []chat.Preview{{
		Block: w.block, Offset: from, Text: w.text.String()[from:], Kind: w.kind,
		Workstream: t.Workstream, Turn: t.Ref.Turn, Attempt: t.Ref.Attempt,
	}})
	if err == nil {
		w.shown = w.text.Len()
	}
	return err
}

// abandon leaves the old block as it was shown and begins another.
func (w *Writer) abandon(ctx context.Context) error {
	err := w.turn.Abandon(ctx, chat.Block{ID: w.block, Kind: w.kind, Text: w.old})
	w.block, w.old, w.shown = w.turn.blockID(w.stepName(), true), "", 0
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
	if w.text.Len() < w.shown && w.text.String() != "" && !w.done {
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
