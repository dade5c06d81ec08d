package llm

import (
	"regexp"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"
)

// What OpenAI takes as ids and names.
const (
	openAIChatID = 40
	openAICallID = 64
	openAIName   = 64
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

// OpenAIChat turns a request into one for Chat Completions.
func OpenAIChat(r Request) openai.ChatCompletionNewParams {
	c := chatConverter{Request: r, ids: newNames(openAIChatID, ""), tools: toolNames(r.Tools, openAIName, "")}
	p := openai.ChatCompletionNewParams{Model: r.Model}
	for _, m := range Repair(r.Messages) {
		c.message(&m)
	}
	p.Messages = c.out
	for i := range r.Tools {
		t := &r.Tools[i]
		f := shared.FunctionDefinitionParam{Name: c.tools.of(t.Name), Parameters: t.parameters()}
		if t.Description != "" {
			f.Description = param.NewOpt(t.Description)
		}
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(f))
	}
	if r.MaxTokens > 0 {
		p.MaxCompletionTokens = param.NewOpt(int64(r.MaxTokens))
	}
	return p
}

type chatConverter struct {
	Request
	ids, tools *names
	out        []openai.ChatCompletionMessageParamUnion
}

func (c *chatConverter) add(m openai.ChatCompletionMessageParamUnion) { c.out = append(c.out, m) }

func (c *chatConverter) message(m *Message) {
	switch m.Role {
	case System:
		c.system(c.cut(m.PlainText()))
	case User, Summary:
		c.user(m)
	case Assistant:
		c.assistant(m)
	case Tool:
		for i := range m.ToolReturns {
			t := &m.ToolReturns[i]
			c.add(openai.ToolMessage(c.outcome(t), c.ids.of(t.ToolCallID)))
		}
	}
}

func (c *chatConverter) system(text string) {
	switch {
	case blank(text):
	case reasons(c.Model):
		c.add(openai.DeveloperMessage(text))
	default:
		c.add(openai.SystemMessage(text))
	}
}

func (c *chatConverter) user(m *Message) {
	u := openai.ChatCompletionUserMessageParam{}
	if participant.MatchString(m.Name) {
		u.Name = param.NewOpt(m.Name)
	}
	if countImages(m.Content) == 0 {
		text := m.PlainText()
		if text == "" {
			return
		}
		u.Content.OfString = param.NewOpt(c.cut(text))
		c.add(openai.ChatCompletionMessageParamUnion{OfUser: &u})
		return
	}
	for _, p := range m.Content {
		switch p := p.(type) {
		case *Text:
			if p.Text != "" {
				u.Content.OfArrayOfContentParts = append(u.Content.OfArrayOfContentParts, openai.TextContentPart(c.cut(p.Text)))
			}
		case *Image:
			u.Content.OfArrayOfContentParts = append(u.Content.OfArrayOfContentParts, chatImagePart(p.Source))
		}
	}
	c.add(openai.ChatCompletionMessageParamUnion{OfUser: &u})
}

func chatImagePart(s ImageSource) openai.ChatCompletionContentPartUnionParam {
	url, mediaType, data, ok := picture(s)
	if !ok {
		return openai.TextContentPart(missingImage(s))
	}
	if url == "" {
		url = "data:" + mediaType + ";base64," + data
	}
	return openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: url, Detail: detail(s.Detail)})
}

// detail is one of the words that OpenAI knows.
func detail(s string) string {
	switch s {
	case "low", "high":
		return s
	}
	return "auto"
}

func (c *chatConverter) assistant(m *Message) {
	a := openai.ChatCompletionAssistantMessageParam{}
	switch text := m.PlainText(); {
	case text != "":
		a.Content.OfString = param.NewOpt(c.cut(text))
	case len(m.ToolCalls) == 0:
		return // only thought, nothing said
	case strings.Contains(c.Model, "gpt-oss"):
		a.Content.OfString = param.NewOpt("") // it does not take null
	}
	if participant.MatchString(m.Name) {
		a.Name = param.NewOpt(m.Name)
	}
	for _, call := range m.ToolCalls {
		a.ToolCalls = append(a.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID:       c.ids.of(call.ID),
				Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.tools.of(call.Name), Arguments: string(Object(call.Arguments))},
			},
		})
	}
	if c.sameModel(m) {
		if extra := chatReasoning(m); len(extra) > 0 {
			a.SetExtraFields(extra)
		}
	}
	c.add(openai.ChatCompletionMessageParamUnion{OfAssistant: &a})
}

// chatReasoning is the reasoning in the fields that servers which show it use.
// A signature is of one text: of several, joined, it would say nothing.
func chatReasoning(m *Message) map[string]any {
	var texts, signatures, redacted []string
	for _, p := range m.Content {
		switch p := p.(type) {
		case *Reasoning:
			texts = append(texts, p.Text)
			if p.Signature != "" {
				signatures = append(signatures, p.Signature)
			}
		case *RedactedReasoning:
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
