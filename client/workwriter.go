package client

import (
	"context"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
)

// WorkWriter streams one block: what is written goes out at once as previews,
// Close makes it a fact. A worker that takes up the turn of another writes the
// same text again: what was shown is skipped. Text that differs begins a new
// block, and the old one stays as it was shown.
type WorkWriter struct {
	t     *WorkTurn
	kind  chat.BlockKind
	final bool
	step  string
	parts int // blocks that were full and closed
	block chat.BlockID

	text strings.Builder // of the current block
	json int             // what its text takes as JSON
	old  string          // what an earlier attempt showed of it
	rest string          // the start of a character
	done bool            // an earlier attempt finished it
}

// Stream begins a block of text; final marks the turn's answer.
func (t *WorkTurn) Stream(final bool) *WorkWriter { return t.writer(chat.TextBlock, final) }

// Think begins a block of reasoning.
func (t *WorkTurn) Think() *WorkWriter { return t.writer(chat.ThinkingBlock, false) }

func (t *WorkTurn) writer(kind chat.BlockKind, final bool) *WorkWriter {
	w := &WorkWriter{t: t, kind: kind, final: final, step: t.step()}
	w.begin()
	return w
}

func (w *WorkWriter) stepName() string {
	if w.parts == 0 {
		return w.step
	}
	return w.step + "." + strconv.Itoa(w.parts)
}

func (w *WorkWriter) blockID() chat.BlockID {
	return chat.BlockID("b" + strings.TrimPrefix(string(w.t.ID), chat.TurnPrefix) + "-" + strings.ReplaceAll(w.stepName(), ".", "-"))
}

func (w *WorkWriter) begin() {
	w.block = w.blockID()
	w.text.Reset()
	w.json = 0
	_, w.done = w.t.earlier(w.stepName())
	_, left := w.t.earlier(closing(w.block))
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	if left {
		// An earlier attempt abandoned it and perhaps began another.
		base := string(w.block)
		w.block = w.freshID(w.t.attempt)
		for id := range w.t.open {
			if strings.HasPrefix(string(id), base+"-a") {
				w.block = id
			}
		}
	}
	w.old = w.t.open[w.block].Text
}

func (w *WorkWriter) freshID(attempt int) chat.BlockID {
	return w.blockID() + chat.BlockID("-a"+strconv.Itoa(attempt))
}

// closing names the step that abandons a block.
func closing(b chat.BlockID) string { return "close-" + string(b) }

// Write shows a piece. It may end in the middle of a character.
func (w *WorkWriter) Write(ctx context.Context, text string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	text = w.rest + text
	cut := len(text) - tail(text)
	w.rest, text = text[cut:], strings.ToValidUTF8(text[:cut], "\uFFFD")
	for {
		n := w.room(text)
		if err := w.show(ctx, text[:n]); err != nil {
			return err
		}
		if text = text[n:]; text == "" {
			return nil
		}
		if err := w.finish(ctx, false); err != nil {
			return err
		}
		w.parts++
		w.begin()
	}
}

// room returns how much of a text fits the block, so that one character still
// fits behind it.
func (w *WorkWriter) room(text string) int {
	const most, mostJSON = chat.MaxBlock - utf8.UTFMax, chat.MaxBlockJSON - 6
	if w.text.Len()+len(text) <= most && w.json+6*len(text) <= mostJSON {
		return len(text)
	}
	size, packed := w.text.Len(), w.json
	for i, c := range text {
		n := utf8.RuneLen(c)
		if size, packed = size+n, packed+chat.JSONLen(text[i:i+n]); size > most || packed > mostJSON {
			return i
		}
	}
	return len(text)
}

// Behind reports whether readers have seen more than was written so far: an
// agent with a pace of its own need not wait while it catches up.
func (w *WorkWriter) Behind() bool { return w.done || w.text.Len() < len(w.old) }

// tail counts the bytes at the end of s that are the start of a character.
func tail(s string) int {
	for i := 1; i < utf8.UTFMax && i <= len(s); i++ {
		if c := s[len(s)-i]; utf8.RuneStart(c) {
			if !utf8.FullRuneInString(s[len(s)-i:]) {
				return i
			}
			return 0
		}
	}
	return 0
}

func (w *WorkWriter) show(ctx context.Context, text string) error {
	from := w.text.Len()
	w.text.WriteString(text)
	w.json += chat.JSONLen(text)
	if w.done || text == "" {
		return nil
	}
	if from < len(w.old) {
		n := min(len(w.old), w.text.Len())
		if w.text.String()[from:n] != w.old[from:n] {
			if err := w.abandon(ctx); err != nil {
				return err
			}
		}
	}
	return w.send(ctx)
}

// send shows what the server lacks. It does not wait for the reply: a piece that
// was lost is sent again with the next one, and Close brings the whole.
func (w *WorkWriter) send(ctx context.Context) error {
	t := w.t
	conn, err := t.w.place(ctx, t)
	if err != nil {
		return err
	}
	t.mu.Lock()
	shown, attempt := t.shown[w.block], t.attempt
	if shown >= w.text.Len() {
		t.mu.Unlock()
		return nil
	}
	t.shown[w.block] = w.text.Len()
	t.mu.Unlock()
	f := workFrame{Op: "preview", TurnID: t.ID, Previews: []piece{{
		Block: w.block, Offset: shown, Text: w.text.String()[shown:], Kind: w.kind, Workstream: t.Workstream, Turn: t.ID, Attempt: attempt,
	}}}
	if write(context.WithoutCancel(ctx), conn, f) != nil {
		conn.CloseNow()
		t.w.drop(conn)
		t.mu.Lock()
		t.shown[w.block] = min(shown, t.shown[w.block])
		t.mu.Unlock()
	}
	return nil
}

// abandon leaves the old block exactly as it was shown and begins another.
func (w *WorkWriter) abandon(ctx context.Context) error {
	var body chat.Body = chat.AgentText{Block: w.block, Text: w.old, Partial: true}
	if w.kind == chat.ThinkingBlock {
		body = chat.AgentThinking{Block: w.block, Text: w.old, Partial: true}
	}
	_, err := w.t.append(ctx, closing(w.block), body)
	w.block = w.freshID(w.t.Attempt())
	w.old = ""
	return err
}

// Close makes the block a fact.
func (w *WorkWriter) Close(ctx context.Context) error {
	if w.rest != "" {
		w.rest = ""
		if err := w.show(ctx, "\uFFFD"); err != nil {
			return err
		}
	}
	return w.finish(ctx, w.final)
}

func (w *WorkWriter) finish(ctx context.Context, final bool) error {
	if !w.done && w.text.Len() < len(w.old) {
		if err := w.abandon(ctx); err != nil { // this attempt says less
			return err
		}
	}
	var body chat.Body = chat.AgentText{Block: w.block, Text: w.text.String(), Final: final}
	if w.kind == chat.ThinkingBlock {
		body = chat.AgentThinking{Block: w.block, Text: w.text.String()}
	}
	_, err := w.t.append(ctx, w.stepName(), body)
	return err
}
