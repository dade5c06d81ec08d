package anthropic

import (
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/parley-hq/parley/internal/json"
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
func Messages(r llm.Request) sdk.MessageNewParams {
	c := converter{Request: convert.Request{Request: r}, ids: convert.NewNames(maxID, ""), tools: convert.ToolNames(r.Tools, maxName, "")}
	system, rest := convert.Split(llm.Repair(r.Messages))
	p := sdk.MessageNewParams{Model: r.Model, MaxTokens: int64(r.MaxTokens)}
	if r.MaxTokens <= 0 {
		p.MaxTokens = defaultTokens
	}
	for _, text := range system {
		p.System = append(p.System, sdk.TextBlockParam{Text: text})
	}
	if n := len(p.System); n > 0 {
		p.System[n-1].CacheControl = sdk.NewCacheControlEphemeralParam()
	}
	for i := range rest {
		c.message(&rest[i])
	}
	p.Messages = c.finish()
	p.Tools = c.toolParams()
	return p
}

type converter struct {
	convert.Request
	ids, tools *convert.Names
	called     []string // tools that occur in the conversation
	out        []sdk.MessageParam
}

// add puts blocks at the end; what one side says in a row is one message.
func (c *converter) add(role sdk.MessageParamRole, blocks ...sdk.ContentBlockParamUnion) {
	if len(blocks) == 0 {
		return
	}
	if len(c.out) == 0 && role != sdk.MessageParamRoleUser {
		c.add(sdk.MessageParamRoleUser, sdk.NewTextBlock(convert.Begins))
	}
	if n := len(c.out) - 1; n >= 0 && c.out[n].Role == role {
		c.out[n].Content = append(c.out[n].Content, blocks...)
		return
	}
	c.out = append(c.out, sdk.MessageParam{Role: role, Content: blocks})
}

func (c *converter) message(m *llm.Message) {
	switch m.Role {
	case llm.System:
		if text := m.PlainText(); !convert.Blank(text) {
			c.add(sdk.MessageParamRoleUser, sdk.NewTextBlock(convert.Event(c.Cut(text))))
		}
	case llm.User, llm.Summary:
		for _, p := range m.Content {
			switch p := p.(type) {
			case *llm.Text:
				if !convert.Blank(p.Text) {
					c.add(sdk.MessageParamRoleUser, sdk.NewTextBlock(c.Cut(p.Text)))
				}
			case *llm.Image:
				if source, instead := imageSource(p.Source); instead == "" {
					c.add(sdk.MessageParamRoleUser, sdk.ContentBlockParamUnion{OfImage: &sdk.ImageBlockParam{Source: source}})
				} else {
					c.add(sdk.MessageParamRoleUser, sdk.NewTextBlock(instead))
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

// imageSource is a picture that Anthropic takes: in base64, or at an address that
// is encrypted. Of any other it returns what is said instead.
func imageSource(s llm.ImageSource) (source sdk.ImageBlockParamSourceUnion, instead string) {
	url, mediaType, data, ok := convert.Picture(s, convert.WebTypes)
	switch {
	case !ok:
		return source, llm.MissingImage(s)
	case strings.HasPrefix(url, "https://"):
		source.OfURL = &sdk.URLImageSourceParam{URL: url}
	case url != "":
		return source, convert.At(url)
	default:
		source.OfBase64 = &sdk.Base64ImageSourceParam{Data: data, MediaType: sdk.Base64ImageSourceMediaType(mediaType)}
	}
	return source, ""
}

func (c *converter) assistant(m *llm.Message) {
	var blocks []sdk.ContentBlockParamUnion
	same := c.SameModel(m)
	for _, p := range m.Content {
		switch p := p.(type) {
		case *llm.Text:
			if !convert.Blank(p.Text) {
				blocks = append(blocks, sdk.NewTextBlock(c.Cut(p.Text)))
			}
		case *llm.Reasoning:
			if same && p.Signature != "" { // what is not signed is refused
				blocks = append(blocks, sdk.NewThinkingBlock(p.Signature, p.Text))
			}
		case *llm.RedactedReasoning:
			if same && p.Data != "" {
				blocks = append(blocks, sdk.NewRedactedThinkingBlock(p.Data))
			}
		}
	}
	for _, call := range m.ToolCalls {
		name := c.tools.Of(call.Name)
		c.called = append(c.called, name)
		blocks = append(blocks, sdk.NewToolUseBlock(c.ids.Of(call.ID), json.RawMessage(llm.Object(call.Arguments)), name))
	}
	// A thought that led to nothing is refused at the end of a message.
	for n := len(blocks); n > 0 && isThought(&blocks[n-1]); n-- {
		blocks = blocks[:n-1]
	}
	c.add(sdk.MessageParamRoleAssistant, blocks...)
}

func isThought(b *sdk.ContentBlockParamUnion) bool {
	return b.OfThinking != nil || b.OfRedactedThinking != nil
}

func (c *converter) result(t *llm.ToolReturn) {
	r := sdk.ToolResultBlockParam{ToolUseID: c.ids.Of(t.ToolCallID)}
	text := func(s string) {
		if !convert.Blank(s) {
			r.Content = append(r.Content, sdk.ToolResultBlockParamContentUnion{OfText: &sdk.TextBlockParam{Text: c.Cut(s)}})
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
			if source, instead := imageSource(p.Source); instead == "" {
				r.Content = append(r.Content, sdk.ToolResultBlockParamContentUnion{OfImage: &sdk.ImageBlockParam{Source: source}})
			} else {
				text(instead)
			}
		}
	}
	if t.Failed() {
		r.IsError = param.NewOpt(true)
		if len(r.Content) == 0 {
			text("Error")
		}
	}
	c.add(sdk.MessageParamRoleUser, sdk.ContentBlockParamUnion{OfToolResult: &r})
}

// finish sees to the end of the conversation. Models of today refuse one that
// ends with their own words.
func (c *converter) finish() []sdk.MessageParam {
	if len(c.out) == 0 {
		c.add(sdk.MessageParamRoleUser, sdk.NewTextBlock(convert.Begins))
	}
	n := len(c.out) - 1
	if c.out[n].Role == sdk.MessageParamRoleAssistant {
		c.add(sdk.MessageParamRoleUser, sdk.NewTextBlock(convert.GoesOn))
		n++
	}
	last := &c.out[n].Content[len(c.out[n].Content)-1]
	if cache := last.GetCacheControl(); cache != nil {
		*cache = sdk.NewCacheControlEphemeralParam()
	}
	return c.out
}

// MayThink reports whether a request can ask the model to think. When it goes on
// after its tools have answered it cannot, unless the model thought before it first
// called them: one that did not, or whose thoughts were another model's or were left
// out, is refused.
func MayThink(p *sdk.MessageNewParams) bool {
	may := true
	for i := len(p.Messages) - 1; i > 0 && answers(&p.Messages[i]); i -= 2 {
		may = isThought(&p.Messages[i-1].Content[0])
	}
	return may
}

// answers reports whether a message has what tools gave.
func answers(m *sdk.MessageParam) bool {
	return m.Role == sdk.MessageParamRoleUser && m.Content[0].OfToolResult != nil
}

// toolParams lists the tools. Anthropic refuses calls in the conversation when
// there are no tools at all, so then those that occur are named.
func (c *converter) toolParams() []sdk.ToolUnionParam {
	var out []sdk.ToolUnionParam
	seen := map[string]bool{}
	for i := range c.Tools {
		t := &c.Tools[i]
		schema := convert.Parameters(t)
		tool := sdk.ToolParam{Name: c.tools.Of(t.Name)}
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
		out = append(out, sdk.ToolUnionParam{OfTool: &tool})
	}
	if len(c.Tools) == 0 {
		for _, name := range c.called {
			if !seen[name] {
				seen[name] = true
				out = append(out, sdk.ToolUnionParam{OfTool: &sdk.ToolParam{
					Name: name, InputSchema: sdk.ToolInputSchemaParam{Properties: map[string]any{}},
				}})
			}
		}
	}
	if n := len(out); n > 0 {
		out[n-1].OfTool.CacheControl = sdk.NewCacheControlEphemeralParam()
	}
	return out
}
