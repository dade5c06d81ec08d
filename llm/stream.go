package llm

import "strings"

// DeltaKind says what a piece of a streamed answer belongs to.
type DeltaKind string

// The kinds.
const (
	DeltaText     DeltaKind = "text"
	DeltaThinking DeltaKind = "thinking"
	DeltaCall     DeltaKind = "call" // Text is a piece of the arguments
)

// Delta is a piece of an answer that is being written.
type Delta struct {
	Kind   DeltaKind
	Index  int // of the block or call in the stream; pieces of one have the same
	Text   string
	CallID string // of calls, on every piece
	Name   string // of calls, on every piece
}

// builder collects the parts of a streamed answer.
type builder struct {
	parts []Part
	texts []*strings.Builder // of the parts that grow, nil for others
	calls []*callBuilder
}

type callBuilder struct {
	key       int // the provider's index
	id, name  string
	arguments strings.Builder
}

// add begins a part; grows says that its text comes in pieces.
func (b *builder) add(p Part, grows bool) int {
	b.parts = append(b.parts, p)
	var text *strings.Builder
	if grows {
		text = &strings.Builder{}
	}
	b.texts = append(b.texts, text)
	return len(b.parts) - 1
}

// text adds a piece to the text that is being written, or begins one.
func (b *builder) text(s string) int {
	n := len(b.parts) - 1
	if n >= 0 && b.texts[n] != nil {
		if t, ok := b.parts[n].(*Text); ok && t.Signature == "" {
			b.texts[n].WriteString(s)
			return n
		}
	}
	n = b.add(&Text{}, true)
	b.texts[n].WriteString(s)
	return n
}

// think adds a piece to the reasoning that is being written, or begins one.
func (b *builder) think(s string) int {
	n := len(b.parts) - 1
	if n >= 0 && b.texts[n] != nil {
		if t, ok := b.parts[n].(*Reasoning); ok && t.Signature == "" {
			b.texts[n].WriteString(s)
			return n
		}
	}
	n = b.add(&Reasoning{Native: true}, true)
	b.texts[n].WriteString(s)
	return n
}

// call returns the call with the provider's index.
func (b *builder) call(key int) *callBuilder {
	for _, c := range b.calls {
		if c.key == key {
			return c
		}
	}
	c := &callBuilder{key: key}
	b.calls = append(b.calls, c)
	return c
}

func (b *builder) toolCalls() []ToolCall {
	var out []ToolCall
	for _, c := range b.calls {
		if c.name == "" && c.arguments.Len() == 0 {
			continue
		}
		out = append(out, ToolCall{ID: c.id, Name: c.name, Arguments: settled(c.arguments.String())})
	}
	return out
}

// content is the parts that say something.
func (b *builder) content() []Part {
	out := []Part{}
	for i, p := range b.parts {
		var text string
		if b.texts[i] != nil {
			text = b.texts[i].String()
		}
		switch p := p.(type) {
		case *Text:
			if text == "" && p.Signature == "" {
				continue
			}
			out = append(out, &Text{Text: text, Signature: p.Signature})
		case *Reasoning:
			if text == "" && p.Signature == "" {
				continue
			}
			out = append(out, &Reasoning{Native: true, Text: text, Signature: p.Signature})
		default:
			out = append(out, p)
		}
	}
	return out
}
