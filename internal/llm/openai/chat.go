package openai

import (
	"regexp"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/internal/convert"
)

// What OpenAI takes as ids and names.
const (
	maxChatID = 40
	maxCallID = 64
	maxName   = 64
)

// participant is a name that OpenAI takes.
var participant = regexp.MustCompile(`^[^\s<|\\/>]{1,64}$`)

// reasons reports whether a model of OpenAI reasons without showing it.
func reasons(model string) bool {
	if i := strings.LastIndexByte(model, '/'); i >= 0 {
		model = model[i+1:]
	}
	if strings.HasPrefix(model, "o1-mini") || strings.HasPrefix(model, "o1-preview") {
		return false
	}
	for _, family := range []string{"o1", "o3", "o4", "gpt-5"} {
		if strings.HasPrefix(model, family) {
			return true
		}
	}
	return false
}

// Chat turns a request into one for Chat Completions.
func Chat(r llm.Request) sdk.ChatCompletionNewParams {
	c := chatConverter{Request: convert.Request{Request: r}, ids: convert.NewNames(maxChatID, ""), tools: convert.ToolNames(r.Tools, maxName, "")}
	p := sdk.ChatCompletionNewParams{Model: r.Model}
	for _, m := range llm.Repair(r.Messages) {
		c.message(&m)
	}
	if len(c.out) == 0 {
		c.add(sdk.UserMessage(convert.Begins))
	}
	p.Messages = c.out
	for i := range r.Tools {
		t := &r.Tools[i]
		f := shared.FunctionDefinitionParam{Name: c.tools.Of(t.Name), Parameters: convert.Parameters(t)}
		if t.Description != "" {
			f.Description = param.NewOpt(t.Description)
		}
		p.Tools = append(p.Tools, sdk.ChatCompletionFunctionTool(f))
	}
	if r.MaxTokens > 0 {
		p.MaxCompletionTokens = param.NewOpt(int64(r.MaxTokens))
	}
	return p
}

type chatConverter struct {
	convert.Request
	ids, tools *convert.Names
	out        []sdk.ChatCompletionMessageParamUnion
}

func (c *chatConverter) add(m sdk.ChatCompletionMessageParamUnion) { c.out = append(c.out, m) }

func (c *chatConverter) message(m *llm.Message) {
	switch m.Role {
	case llm.System:
		c.system(c.Cut(m.PlainText()))
	case llm.User, llm.Summary:
		c.user(m)
	case llm.Assistant:
		c.assistant(m)
	case llm.Tool:
		for i := range m.ToolReturns {
			t := &m.ToolReturns[i]
			c.add(sdk.ToolMessage(c.Outcome(t), c.ids.Of(t.ToolCallID)))
		}
	}
}

func (c *chatConverter) system(text string) {
	switch {
	case convert.Blank(text):
	case reasons(c.Model):
		c.add(sdk.DeveloperMessage(text))
	default:
		c.add(sdk.SystemMessage(text))
	}
}

func (c *chatConverter) user(m *llm.Message) {
	u := sdk.ChatCompletionUserMessageParam{}
	if participant.MatchString(m.Name) {
		u.Name = param.NewOpt(m.Name)
	}
	if convert.CountImages(m.Content) == 0 {
		text := m.PlainText()
		if text == "" {
			return
		}
		u.Content.OfString = param.NewOpt(c.Cut(text))
		c.add(sdk.ChatCompletionMessageParamUnion{OfUser: &u})
		return
	}
	for _, p := range m.Content {
		switch p := p.(type) {
		case *llm.Text:
			if p.Text != "" {
				u.Content.OfArrayOfContentParts = append(u.Content.OfArrayOfContentParts, sdk.TextContentPart(c.Cut(p.Text)))
			}
		case *llm.Image:
			u.Content.OfArrayOfContentParts = append(u.Content.OfArrayOfContentParts, chatImagePart(p.Source))
		}
	}
	c.add(sdk.ChatCompletionMessageParamUnion{OfUser: &u})
}

func chatImagePart(s llm.ImageSource) sdk.ChatCompletionContentPartUnionParam {
	url, mediaType, data, ok := convert.Picture(s, convert.WebTypes)
	if !ok {
		return sdk.TextContentPart(llm.MissingImage(s))
	}
	if url == "" {
		url = "data:" + mediaType + ";base64," + data
	}
	return sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: url, Detail: detail(s.Detail)})
}

// detail is one of the words that OpenAI knows.
func detail(s string) string {
	switch s {
	case "low", "high":
		return s
	}
	return "auto"
}

func (c *chatConverter) assistant(m *llm.Message) {
	a := sdk.ChatCompletionAssistantMessageParam{}
	switch text := m.PlainText(); {
	case text != "":
		a.Content.OfString = param.NewOpt(c.Cut(text))
	case len(m.ToolCalls) == 0:
		return // only thought, nothing said
	case strings.Contains(c.Model, "gpt-oss"):
		a.Content.OfString = param.NewOpt("") // it does not take null
	}
	if participant.MatchString(m.Name) {
		a.Name = param.NewOpt(m.Name)
	}
	for _, call := range m.ToolCalls {
		a.ToolCalls = append(a.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
				ID:       c.ids.Of(call.ID),
				Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.tools.Of(call.Name), Arguments: string(llm.Object(call.Arguments))},
			},
		})
	}
	if c.SameModel(m) {
		if extra := chatReasoning(m); len(extra) > 0 {
			a.SetExtraFields(extra)
		}
	}
	c.add(sdk.ChatCompletionMessageParamUnion{OfAssistant: &a})
}

// chatReasoning is the reasoning in the fields that servers which show it use.
// A signature is of one text: of several, joined, it would say nothing.
func chatReasoning(m *llm.Message) map[string]any {
	var texts, signatures, redacted []string
	for _, p := range m.Content {
		switch p := p.(type) {
		case *llm.Reasoning:
			texts = append(texts, p.Text)
			if p.Signature != "" {
				signatures = append(signatures, p.Signature)
			}
		case *llm.RedactedReasoning:
			redacted = append(redacted, p.Data)
		}
	}
	extra := map[string]any{}
	if len(texts) > 0 {
		extra["reasoning_content"] = strings.Join(texts, "\n\n")
		if len(signatures) == 1 && len(texts) == 1 {
			extra["reasoning_content_signature"] = signatures[0]
		}
	}
	if len(redacted) == 1 {
		extra["redacted_reasoning_content"] = redacted[0]
	}
	return extra
}
