package convert

import (
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
)

// Builder collects the parts of an answer. The zero value is empty.
type Builder struct {
	parts []llm.Part
	texts []*strings.Builder // text of the streamed parts, nil for others
	calls []*Call
}

// Call is a tool call that is being streamed.
type Call struct {
	Key       int // the provider's index
	ID, Name  string
	Arguments strings.Builder
}

// Add begins a part and returns its index; grows says whether its text is streamed.
func (b *Builder) Add(p llm.Part, grows bool) int {
	b.parts = append(b.parts, p)
	var text *strings.Builder
	if grows {
		text = &strings.Builder{}
	}
	b.texts = append(b.texts, text)
	return len(b.parts) - 1
}

// Part returns the part at an index, without its streamed text (see Content).
func (b *Builder) Part(n int) llm.Part { return b.parts[n] }

// Grow appends to the text of a streamed part.
func (b *Builder) Grow(n int, s string) { b.texts[n].WriteString(s) }

// Text appends to the last part if it is a text, else it begins a text. It returns the
// part's index.
func (b *Builder) Text(s string) int {
	return b.append(s, (*llm.Text)(nil).Kind(), func() llm.Part { return &llm.Text{} })
}

// Think appends to the last part if it is reasoning, else it begins one. It returns
// the part's index.
func (b *Builder) Think(s string) int {
	return b.append(s, (*llm.Reasoning)(nil).Kind(), func() llm.Part { return &llm.Reasoning{Native: true} })
}

// append appends to the last part if it has the kind and no signature, else to a new part.
func (b *Builder) append(s, kind string, fresh func() llm.Part) int {
	n := len(b.parts) - 1
	if n < 0 || b.texts[n] == nil || b.parts[n].Kind() != kind || signature(b.parts[n]) != "" {
		n = b.Add(fresh(), true)
	}
	b.Grow(n, s)
	return n
}

// signature returns the signature of a streamed part.
func signature(p llm.Part) string {
	if t, ok := p.(*llm.Text); ok {
		return t.Signature
	}
	return p.(*llm.Reasoning).Signature
}

// Call returns the call with the provider's index and creates it on first use.
func (b *Builder) Call(key int) *Call {
	for _, c := range b.calls {
		if c.Key == key {
			return c
		}
	}
	c := &Call{Key: key}
	b.calls = append(b.calls, c)
	return c
}

// NewCall begins a call, for providers that do not number calls.
func (b *Builder) NewCall() *Call { return b.Call(len(b.calls)) }

// ToolCalls returns the collected calls.
func (b *Builder) ToolCalls() []llm.ToolCall {
	var out []llm.ToolCall
	for _, c := range b.calls {
		if c.Name == "" && c.Arguments.Len() == 0 {
			continue
		}
		out = append(out, llm.ToolCall{ID: c.ID, Name: c.Name, Arguments: llm.Settle(c.Arguments.String())})
	}
	return out
}

// Content returns the parts that are not empty.
func (b *Builder) Content() []llm.Part {
	out := []llm.Part{}
	for i, p := range b.parts {
		if b.texts[i] != nil {
			text := b.texts[i].String()
			if text == "" && signature(p) == "" {
				continue
			}
			if _, ok := p.(*llm.Text); ok {
				p = &llm.Text{Text: text, Signature: signature(p)}
			} else {
				p = &llm.Reasoning{Native: true, Text: text, Signature: signature(p)}
			}
		}
		out = append(out, p)
	}
	return out
}

// Answer adds the collected parts and calls to an answer and finishes it.
func (b *Builder) Answer(a *llm.Answer) (*llm.Answer, error) {
	a.Message.Content, a.Message.ToolCalls = b.Content(), b.ToolCalls()
	return Finish(a)
}

// Finish sets the fields that every answer has: the role, content that is not nil and
// the stop reason. If the answer is empty, it returns the error of Empty.
func Finish(a *llm.Answer) (*llm.Answer, error) {
	m := &a.Message
	m.Role = llm.Assistant
	if m.Content == nil {
		m.Content = []llm.Part{}
	}
	if len(m.ToolCalls) > 0 && (a.Stop == llm.StopEnd || a.Stop == "") {
		a.Stop = llm.StopCalls
	}
	if a.Stop == "" {
		a.Stop = llm.StopEnd
	}
	if len(m.Content) == 0 && len(m.ToolCalls) == 0 {
		return a, Empty(a.Stop)
	}
	return a, nil
}

// Empty returns the error for an answer without content.
func Empty(s llm.Stop) error {
	return chat.Errorf(chat.Unavailable, "the model gave an empty answer (it stopped because of: %s); ask again", s).With("stop", string(s)).WithReason(chat.EmptyAnswer)
}
