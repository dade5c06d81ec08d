package anthropic

import (
	"strings"

	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/internal/convert"
)

// The maximum lengths of ids and names that Anthropic accepts.
const (
	maxID   = 64
	maxName = 128
)

// defaultTokens is the maximum length of an answer if the request gives none;
// Anthropic requires a maximum.
const defaultTokens = 8192

// Messages converts a request for the Messages API.
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

// add appends blocks. Consecutive blocks of the same role form one message.
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

// imageSource returns the source of an image that Anthropic accepts: base64 data, or
// an https URL. For any other image it returns the text that replaces it.
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
			if same && p.Signature != "" { // Anthropic refuses unsigned reasoning
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
	// Anthropic refuses a message that ends with reasoning.
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

// finish completes the list of messages. Current models refuse a conversation that
// ends with an assistant message.
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

// MayThink reports whether a request may enable thinking. After tool results,
// Anthropic requires that the assistant message with the first of these calls begins
// with thinking. A conversation in which that thinking is missing, or was removed
// because another model wrote it, would be refused.
func MayThink(p *Request) bool {
	may := true
	for i := len(p.Messages) - 1; i > 0 && answers(&p.Messages[i]); i -= 2 {
		may = isThought(&p.Messages[i-1].Content[0])
	}
	return may
}

// answers reports whether a message contains tool results.
func answers(m *Message) bool {
	return m.Role == roleUser && m.Content[0].Type == "tool_result"
}

// toolList returns the tools. Anthropic refuses a conversation with calls if no tools
// are listed; in that case the list contains the tools that were called.
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
