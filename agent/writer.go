package agent

import (
	"context"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Writer streams one block. Written text is shown at once as previews; Close stores it. A new attempt writes the same text
// again: what was shown is skipped. Text that differs from what was shown begins a new block, and the old one stays as it
// was shown.
type Writer struct {
	turn  *Turn
	kind  chat.BlockKind
	step  string
	final bool
	full  int    // blocks that were closed because they were full
	rest  string // the start of an incomplete character

	block     chat.BlockID    // the current one
	text      strings.Builder // of the current block
	json      int             // the size of its text as JSON
	shown     int             // bytes of it that readers have
	old       string          // what an earlier attempt showed of it
	done      bool            // an earlier attempt stored it
	abandoned int             // blocks that this attempt has abandoned
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

// begin starts the next block: the one that an earlier attempt was writing at this step, if there is one.
func (w *Writer) begin() {
	t, step := w.turn, w.stepName()
	w.block = t.blockID(step)
	w.text.Reset()
	w.json, w.shown, w.old = 0, 0, ""
	if _, w.done = t.earlier(step); w.done {
		return
	}
	base := w.block
	for i := range t.past {
		id, partial := finishedBlock(t.past[i].Body)
		switch {
		case id == "" || id != base && !isAbandonOf(id, base):
		case !partial:
			w.done = true // stored by AppendAll together with other events
			return
		case id == base:
			w.block = w.newID(t.Ref().Attempt)
		}
	}
	for _, b := range t.Open() {
		if b.ID == base || isAbandonOf(b.ID, base) {
			w.block, w.old, w.shown = b.ID, b.Text, len(b.Text)
		}
	}
}

// finishedBlock returns the block that a body stores, and whether it was closed before it was complete.
func finishedBlock(body chat.Body) (id chat.BlockID, partial bool) {
	switch b := body.(type) {
	case chat.AgentText:
		return b.Block, b.Partial
	case chat.AgentThinking:
		return b.Block, b.Partial
	}
	return "", false
}

// newID names the block that an attempt begins after it abandoned the block of the step; isAbandonOf recognises it.
func (w *Writer) newID(attempt int) chat.BlockID {
	return w.turn.blockID(w.stepName()) + chat.BlockID("-a"+strconv.Itoa(attempt))
}

func isAbandonOf(id, base chat.BlockID) bool { return strings.HasPrefix(string(id), string(base)+"-a") }

func (w *Writer) stepName() string {
	if w.full == 0 {
		return w.step
	}
	return w.step + "." + strconv.Itoa(w.full)
}

// Block is the id of the block that is being written.
func (w *Writer) Block() chat.BlockID { return w.block }

// Final sets whether the block is the turn's answer, for agents that decide it at the end of the block.
func (w *Writer) Final(final bool) { w.final = final }

// Replaying reports whether readers have more text than was written so far: an agent that paces its answer need not wait.
func (w *Writer) Replaying() bool { return w.done || w.text.Len() < w.shown }

// Write shows a piece. It may end in the middle of a character.
func (w *Writer) Write(ctx context.Context, piece string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	piece = w.rest + piece
	cut := len(piece) - incomplete(piece)
	w.rest, piece = piece[cut:], strings.ToValidUTF8(piece[:cut], "\uFFFD")
	for {
		n := w.room(piece)
		if err := w.show(ctx, piece[:n]); err != nil {
			return err
		}
		if piece = piece[n:]; piece == "" {
			return nil
		}
		body, err := w.body(ctx, false)
		if err == nil {
			err = w.turn.note(ctx, w.stepName(), body)
		}
		if err != nil {
			return err
		}
		w.full++
		w.begin()
	}
}

// room returns how much of a piece fits the block, so that one more character fits behind it.
func (w *Writer) room(piece string) int {
	const most, mostJSON = chat.MaxBlock - utf8.UTFMax, chat.MaxBlockJSON - 6
	if w.text.Len()+len(piece) <= most && w.json+6*len(piece) <= mostJSON {
		return len(piece)
	}
	bytes, jsonBytes := w.text.Len(), w.json
	for i, c := range piece {
		size := utf8.RuneLen(c)
		bytes, jsonBytes = bytes+size, jsonBytes+json.StringLen(piece[i:i+size])
		if bytes > most || jsonBytes > mostJSON {
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
	w.json += json.StringLen(piece)
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
	if err := w.turn.inbox.unpaused(ctx); err != nil {
		return err
	}
	block := chat.Block{ID: w.block, Kind: w.kind, Text: w.text.String(), Workstream: w.turn.Workstream, Turn: w.turn.ID}
	err := w.turn.transport.Preview(ctx, block, w.shown)
	if chat.CodeOf(err) == chat.SlowDown {
		return nil // too many turns write at once: the text is shown later, with the next piece or by Close
	}
	if err == nil {
		w.shown = w.text.Len()
	}
	return err
}

// abandon closes the block as it was shown and begins another.
func (w *Writer) abandon(ctx context.Context) error {
	err := w.turn.Abandon(ctx, chat.Block{ID: w.block, Kind: w.kind, Text: w.old})
	w.block, w.old, w.shown = w.newID(w.turn.Ref().Attempt), "", 0
	if w.abandoned++; w.abandoned > 1 {
		w.block += chat.BlockID("-" + strconv.Itoa(w.abandoned))
	}
	return err
}

// Restart begins the block again from its first byte, for an agent whose source was cut off and is asked again. If the
// same text is written, it continues where it ended; other text abandons the block and begins a new one.
func (w *Writer) Restart() {
	if !w.done && w.text.Len() >= w.shown {
		w.old = w.text.String()[:w.shown]
	}
	w.text.Reset()
	w.json, w.rest = 0, ""
}

// ClosePartial stores the block as partial, with exactly the text that was shown. It stores nothing if no text was shown.
func (w *Writer) ClosePartial(ctx context.Context) error {
	if w.done || w.shown == 0 {
		return nil
	}
	w.Restart()
	return w.abandon(ctx)
}

// Finish completes the block without storing it and returns its body; Turn.AppendAll stores it together with others.
func (w *Writer) Finish(ctx context.Context) (chat.Body, error) {
	if w.rest != "" {
		w.rest = ""
		if err := w.show(ctx, "\uFFFD"); err != nil {
			return nil, err
		}
	}
	return w.body(ctx, w.final)
}

// Close stores the block.
func (w *Writer) Close(ctx context.Context) error {
	body, err := w.Finish(ctx)
	if err != nil {
		return err
	}
	return w.turn.note(ctx, w.stepName(), body)
}

// body is the event of the block with the text that was written.
func (w *Writer) body(ctx context.Context, final bool) (chat.Body, error) {
	if w.text.Len() < w.shown && !w.done {
		if err := w.abandon(ctx); err != nil { // this attempt wrote less than was shown
			return nil, err
		}
	}
	if w.kind == chat.ThinkingBlock {
		return chat.AgentThinking{Block: w.block, Text: w.text.String()}, nil
	}
	return chat.AgentText{Block: w.block, Text: w.text.String(), Final: final}, nil
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
