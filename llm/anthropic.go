package llm

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
)

// What Anthropic takes as ids and names.
const (
	anthropicID   = 64
	anthropicName = 128
)

// anthropicTokens is the length of an answer when none is asked for; Anthropic
// wants to be told one.
const anthropicTokens = 8192

// begins stands for the person at the beginning of a conversation that an agent
// opens; Anthropic and Gemini want the person to speak first.
const begins = "(The conversation begins.)"

// Anthropic turns a request into one for the Messages API.
func Anthropic(r Request) anthropic.MessageNewParams {
	c := anthropicConverter{Request: r, ids: newNames(anthropicID, ""), tools: toolNames(r.Tools, anthropicName, "")}
	system, rest := split(Repair(r.Messages))
	p := anthropic.MessageNewParams{Model: r.Model, MaxTokens: int64(r.MaxTokens)}
	if r.MaxTokens <= 0 {
		p.MaxTokens = anthropicTokens
	}
	for _, text := range system {
		p.System = append(p.System, anthropic.TextBlockParam{Text: text})
	}
	if n := len(p.System); n > 0 {
		p.System[n-1].CacheControl = anthropic.NewCacheControlEphemeralParam()
	}
	for i := range rest {
		c.message(&rest[i])
	}
	p.Messages = c.finish()
	p.Tools = c.toolParams()
	return p
}

type anthropicConverter struct {
	Request
	ids, tools *names
	called     []string // tools that occur in the conversation
	out        []anthropic.MessageParam
}

// add puts blocks at the end; what one side says in a row is one message.
func (c *anthropicConverter) add(role anthropic.MessageParamRole, blocks ...anthropic.ContentBlockParamUnion) {
	if len(blocks) == 0 {
		return
	}
	if len(c.out) == 0 && role != anthropic.MessageParamRoleUser {
		c.add(anthropic.MessageParamRoleUser, anthropic.NewTextBlock(begins))
	}
	if n := len(c.out) - 1; n >= 0 && c.out[n].Role == role {
		c.out[n].Content = append(c.out[n].Content, blocks...)
		return
	}
	c.out = append(c.out, anthropic.MessageParam{Role: role, Content: blocks})
}

func (c *anthropicConverter) message(m *Message) {
	switch m.Role {
	case System:
		if text := m.PlainText(); !blank(text) {
			c.add(anthropic.MessageParamRoleUser, anthropic.NewTextBlock(event(c.cut(text))))
		}
	case User, Summary:
		for _, p := range m.Content {
			switch p := p.(type) {
			case *Text:
				if !blank(p.Text) {
					c.add(anthropic.MessageParamRoleUser, anthropic.NewTextBlock(c.cut(p.Text)))
				}
			case *Image:
				if source, ok := anthropicImage(p.Source); ok {
					c.add(anthropic.MessageParamRoleUser, anthropic.ContentBlockParamUnion{OfImage: &anthropic.ImageBlockParam{Source: source}})
				} else {
					c.add(anthropic.MessageParamRoleUser, anthropic.NewTextBlock(missingImage(p.Source)))
				}
			}
		}
	case Assistant:
		c.assistant(m)
	case Tool:
		for i := range m.ToolReturns {
			c.result(&m.ToolReturns[i])
		}
	}
}

// anthropicImage is a picture that Anthropic takes: of one of four types, in
// base64, or at an address.
func anthropicImage(s ImageSource) (anthropic.ImageBlockParamSourceUnion, bool) {
	url, mediaType, data, ok := picture(s)
	if !ok {
		return anthropic.ImageBlockParamSourceUnion{}, false
	}
	if url != "" {
		return anthropic.ImageBlockParamSourceUnion{OfURL: &anthropic.URLImageSourceParam{URL: url}}, true
	}
	switch mediaType {
	case "image/jpeg", "image/png", "image/gif", "image/webp":
	case "image/jpg":
		mediaType = "image/jpeg"
	default:
		return anthropic.ImageBlockParamSourceUnion{}, false
	}
	if _, err := base64.StdEncoding.DecodeString(data); err != nil {
		return anthropic.ImageBlockParamSourceUnion{}, false
	}
	return anthropic.ImageBlockParamSourceUnion{OfBase64: &anthropic.Base64ImageSourceParam{
		Data: data, MediaType: anthropic.Base64ImageSourceMediaType(mediaType),
	}}, true
}

func (c *anthropicConverter) assistant(m *Message) {
	var blocks []anthropic.ContentBlockParamUnion
	same := c.sameModel(m)
	for _, p := range m.Content {
		switch p := p.(type) {
		case *Text:
			if !blank(p.Text) {
				blocks = append(blocks, anthropic.NewTextBlock(c.cut(p.Text)))
			}
		case *Reasoning:
			if same && p.Signature != "" { // what is not signed is refused
				blocks = append(blocks, anthropic.NewThinkingBlock(p.Signature, p.Text))
			}
		case *RedactedReasoning:
			if same && p.Data != "" {
				blocks = append(blocks, anthropic.NewRedactedThinkingBlock(p.Data))
			}
		}
	}
	for _, call := range m.ToolCalls {
		name := c.tools.of(call.Name)
		c.called = append(c.called, name)
		blocks = append(blocks, anthropic.NewToolUseBlock(c.ids.of(call.ID), json.RawMessage(Object(call.Arguments)), name))
	}
	if onlyThoughts(blocks) {
		return
	}
	c.add(anthropic.MessageParamRoleAssistant, blocks...)
}

func onlyThoughts(blocks []anthropic.ContentBlockParamUnion) bool {
	for _, b := range blocks {
		if b.OfThinking == nil && b.OfRedactedThinking == nil {
			return false
		}
	}
	return true
}

func (c *anthropicConverter) result(t *ToolReturn) {
	r := anthropic.ToolResultBlockParam{ToolUseID: c.ids.of(t.ToolCallID)}
	text := func(s string) {
		if !blank(s) {
			r.Content = append(r.Content, anthropic.ToolResultBlockParamContentUnion{OfText: &anthropic.TextBlockParam{Text: c.cut(s)}})
		}
	}
	if t.Parts == nil {
		text(t.Text)
	}
	for _, p := range t.Parts {
		switch p := p.(type) {
		case *Text:
			text(p.Text)
		case *Image:
			if source, ok := anthropicImage(p.Source); ok {
				r.Content = append(r.Content, anthropic.ToolResultBlockParamContentUnion{OfImage: &anthropic.ImageBlockParam{Source: source}})
			} else {
				text(missingImage(p.Source))
			}
		}
	}
	if t.failed() {
		r.IsError = param.NewOpt(true)
		if len(r.Content) == 0 {
			text("Error")
		}
	}
	c.add(anthropic.MessageParamRoleUser, anthropic.ContentBlockParamUnion{OfToolResult: &r})
}

// finish sees to the end of the conversation.
func (c *anthropicConverter) finish() []anthropic.MessageParam {
	n := len(c.out) - 1
	if n < 0 {
		return nil
	}
	last := &c.out[n].Content[len(c.out[n].Content)-1]
	if last.OfText != nil && c.out[n].Role == anthropic.MessageParamRoleAssistant {
		// What the model is to go on from may not end with white space.
		t := *last.OfText
		t.Text = strings.TrimRight(t.Text, " \t\r\n")
		last.OfText = &t
	}
	if cache := last.GetCacheControl(); cache != nil {
		*cache = anthropic.NewCacheControlEphemeralParam()
	}
	return c.out
}

// toolParams lists the tools. Anthropic refuses calls in the conversation when
// there are no tools at all, so then those that occur are named.
func (c *anthropicConverter) toolParams() []anthropic.ToolUnionParam {
	var out []anthropic.ToolUnionParam
	seen := map[string]bool{}
	for i := range c.Tools {
		t := &c.Tools[i]
		schema := t.parameters()
		tool := anthropic.ToolParam{Name: c.tools.of(t.Name)}
		tool.InputSchema.Properties = schema["properties"]
		if list, ok := schema["required"].([]any); ok {
			for _, v := range list {
				if s, ok := v.(string); ok {
					tool.InputSchema.Required = append(tool.InputSchema.Required, s)
				}
			}
		}
		for k, v := range schema {
			if k != "type" && k != "properties" && k != "required" {
				if tool.InputSchema.ExtraFields == nil {
					tool.InputSchema.ExtraFields = map[string]any{}
				}
				tool.InputSchema.ExtraFields[k] = v
			}
		}
		if t.Description != "" {
			tool.Description = param.NewOpt(t.Description)
		}
		out = append(out, anthropic.ToolUnionParam{OfTool: &tool})
	}
	if len(c.Tools) == 0 {
		for _, name := range c.called {
			if !seen[name] {
				seen[name] = true
				out = append(out, anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{
					Name: name, InputSchema: anthropic.ToolInputSchemaParam{Properties: map[string]any{}},
				}})
			}
		}
	}
	if n := len(out); n > 0 {
		out[n-1].OfTool.CacheControl = anthropic.NewCacheControlEphemeralParam()
	}
	return out
}
