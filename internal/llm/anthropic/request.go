package anthropic

import (
	"strings"

	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/internal/convert"
)

// What Anthropic takes as ids and names.
const (
	maxID   = 64
	maxName = 128
)

// defaultTokens is the length of an answer when none is asked for; Anthropic
// wants to be told one.
const defaultTokens = 8192

// Messages turns a request into one for the Messages API.
func Messages(r llm.Request) *Request {
	c := converter{Request: convert.Request{Request: r}, ids: convert.NewNames(maxID, ""), tools: convert.ToolNames(r.Tools, maxName, "")}
	system, rest := convert.Split(llm.Repair(r.Messages))
	p := &Request{Model: r.Model, MaxTokens: int64(r.MaxTokens), Stream: true}
	if r.MaxTokens <= 0 {
		p.MaxTokens = defaultTokens
	}
	for _, text := range system {
		p.System = append(p.System, textBlock(text))
	}
	if n := len(p.System); n > 0 {
		p.System[n-1].CacheControl = ephemeral
	}
	for i := range rest {
		c.message(&rest[i])
	}
	p.Messages = c.finish()
	p.Tools = c.toolList()
	return p
}

type converter struct {
	convert.Request
	ids, tools *convert.Names
	called     []string // tools that occur in the conversation
	out        []Message
}

// add puts blocks at the end; what one side says in a row is one message.
func (c *converter) add(role string, blocks ...Block) {
	if len(blocks) == 0 {
		return
	}
	if len(c.out) == 0 && role != roleUser {
		c.add(roleUser, textBlock(convert.Begins))
	}
	if n := len(c.out) - 1; n >= 0 && c.out[n].Role == role {
		c.out[n].Content = append(c.out[n].Content, blocks...)
		return
	}
	c.out = append(c.out, Message{Role: role, Content: blocks})
}

func (c *converter) message(m *llm.Message) {
	switch m.Role {
	case llm.System:
		if text := m.PlainText(); !convert.Blank(text) {
			c.add(roleUser, textBlock(convert.Event(c.Cut(text))))
		}
	case llm.User, llm.Summary:
		for _, p := range m.Content {
			switch p := p.(type) {
			case *llm.Text:
				if !convert.Blank(p.Text) {
					c.add(roleUser, textBlock(c.Cut(p.Text)))
				}
			case *llm.Image:
				if source, instead := imageSource(p.Source); source != nil {
					c.add(roleUser, Block{Type: "image", Source: source})
				} else {
					c.add(roleUser, textBlock(instead))
				}
			}
		}
	case llm.Assistant:
		c.assistant(m)
	case llm.Tool:
		for i := range m.ToolReturns {
			c.result(&m.ToolReturns[i])
		}
	}
}

// imageSource is a picture that Anthropic accepts: in base64, or at an https
// address. For any other it returns the text that replaces the picture.
func imageSource(s llm.ImageSource) (source *Source, instead string) {
	url, mediaType, data, ok := convert.Picture(s, convert.WebTypes)
	switch {
	case !ok:
		return nil, llm.MissingImage(s)
	case strings.HasPrefix(url, "https://"):
		return &Source{Type: "url", URL: url}, ""
	case url != "":
		return nil, convert.At(url)
	}
	return &Source{Type: "base64", MediaType: mediaType, Data: data}, ""
}

func (c *converter) assistant(m *llm.Message) {
	var blocks []Block
	same := c.SameModel(m)
	for _, p := range m.Content {
		switch p := p.(type) {
		case *llm.Text:
			if !convert.Blank(p.Text) {
				blocks = append(blocks, textBlock(c.Cut(p.Text)))
			}
		case *llm.Reasoning:
			if same && p.Signature != "" { // what is not signed is refused
				blocks = append(blocks, Block{Type: "thinking", Thinking: &p.Text, Signature: p.Signature})
			}
		case *llm.RedactedReasoning:
			if same && p.Data != "" {
				blocks = append(blocks, Block{Type: "redacted_thinking", Data: p.Data})
			}
		}
	}
	for _, call := range m.ToolCalls {
		name := c.tools.Of(call.Name)
		c.called = append(c.called, name)
		blocks = append(blocks, Block{Type: "tool_use", ID: c.ids.Of(call.ID), Name: name, Input: llm.Object(call.Arguments)})
	}
	// A thought that led to nothing is refused at the end of a message.
	for n := len(blocks); n > 0 && isThought(&blocks[n-1]); n-- {
		blocks = blocks[:n-1]
	}
	c.add(roleAssistant, blocks...)
}

func isThought(b *Block) bool { return b.Type == "thinking" || b.Type == "redacted_thinking" }

func (c *converter) result(t *llm.ToolReturn) {
	r := Block{Type: "tool_result", ToolUseID: c.ids.Of(t.ToolCallID)}
	text := func(s string) {
		if !convert.Blank(s) {
			r.Content = append(r.Content, textBlock(c.Cut(s)))
		}
	}
	if t.Parts == nil {
		text(t.Text)
	}
	for _, p := range t.Parts {
		switch p := p.(type) {
		case *llm.Text:
			text(p.Text)
		case *llm.Image:
			if source, instead := imageSource(p.Source); source != nil {
				r.Content = append(r.Content, Block{Type: "image", Source: source})
			} else {
				text(instead)
			}
		}
	}
	if t.Failed() {
		r.IsError = true
		if len(r.Content) == 0 {
			text("Error")
		}
	}
	c.add(roleUser, r)
}

// finish sees to the end of the conversation. Models of today refuse one that
// ends with their own words.
func (c *converter) finish() []Message {
	if len(c.out) == 0 {
		c.add(roleUser, textBlock(convert.Begins))
	}
	n := len(c.out) - 1
	if c.out[n].Role == roleAssistant {
		c.add(roleUser, textBlock(convert.GoesOn))
		n++
	}
	c.out[n].Content[len(c.out[n].Content)-1].CacheControl = ephemeral
	return c.out
}

// MayThink reports whether a request can ask the model to think. When it goes on
// after its tools have answered it cannot, unless the model thought before it first
// called them: one that did not, or whose thoughts were another model's or were left
// out, is refused.
func MayThink(p *Request) bool {
	may := true
	for i := len(p.Messages) - 1; i > 0 && answers(&p.Messages[i]); i -= 2 {
		may = isThought(&p.Messages[i-1].Content[0])
	}
	return may
}

// answers reports whether a message has the results of tools.
func answers(m *Message) bool {
	return m.Role == roleUser && m.Content[0].Type == "tool_result"
}

// toolList lists the tools. Anthropic refuses calls in the conversation when there
// are no tools at all; then the tools that were called are listed.
func (c *converter) toolList() []Tool {
	var out []Tool
	for i := range c.Tools {
		t := &c.Tools[i]
		schema := convert.Parameters(t)
		if _, ok := schema["required"].([]any); !ok {
			delete(schema, "required")
		}
		out = append(out, Tool{Name: c.tools.Of(t.Name), Description: t.Description, InputSchema: schema})
	}
	if len(c.Tools) == 0 {
		seen := map[string]bool{}
		for _, name := range c.called {
			if !seen[name] {
				seen[name] = true
				out = append(out, Tool{Name: name, InputSchema: convert.Parameters(&llm.ToolSpec{})})
			}
		}
	}
	if n := len(out); n > 0 {
		out[n-1].CacheControl = ephemeral
	}
	return out
}
