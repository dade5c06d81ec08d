package openai

import (
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/internal/convert"
)

// minTokens is the smallest limit that the Responses API accepts.
const minTokens = 16

// Responses converts a request for the Responses API. It asks the provider not to
// store anything and to return encrypted reasoning, which the next request contains.
func Responses(r llm.Request) *ResponsesRequest {
	c := responsesConverter{Request: convert.Request{Request: r}, ids: convert.NewNames(maxCallID, ""), tools: convert.ToolNames(r.Tools, maxName, "")}
	for _, m := range llm.Repair(r.Messages) {
		c.message(&m)
	}
	if len(c.out) == 0 {
		c.say("user", convert.Begins)
	}
	p := &ResponsesRequest{Model: r.Model, Input: c.out, Stream: true}
	if reasons(r.Model) {
		p.Include = []string{"reasoning.encrypted_content"}
		p.Reasoning = &Reasoning{Summary: "detailed"}
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		p.Tools = append(p.Tools, ResponsesTool{Type: "function", Function: Function{
			Name: c.tools.Of(t.Name), Description: t.Description, Parameters: convert.Parameters(t),
		}})
	}
	if r.MaxTokens > 0 {
		p.MaxOutputTokens = max(r.MaxTokens, minTokens)
	}
	return p
}

type responsesConverter struct {
	convert.Request
	ids, tools *convert.Names
	out        []Item
}

func (c *responsesConverter) add(i Item) { c.out = append(c.out, i) }

// say appends a message with one text.
func (c *responsesConverter) say(role, text string) {
	if convert.Blank(text) {
		return
	}
	c.add(Item{Role: role, Content: c.Cut(text)})
}

func (c *responsesConverter) message(m *llm.Message) {
	switch m.Role {
	case llm.System:
		c.say("developer", m.PlainText())
	case llm.Summary:
		c.say("user", m.PlainText())
	case llm.User:
		c.user(m)
	case llm.Assistant:
		c.assistant(m)
	case llm.Tool:
		for i := range m.ToolReturns {
			c.result(&m.ToolReturns[i])
		}
	}
}

func (c *responsesConverter) user(m *llm.Message) {
	if list := c.parts(m.Content); len(list) > 0 {
		c.add(Item{Role: "user", Content: list})
	}
}

func (c *responsesConverter) parts(content []llm.Part) []InputPart {
	var list []InputPart
	for _, p := range content {
		switch p := p.(type) {
		case *llm.Text:
			if p.Text != "" {
				list = append(list, inputText(c.Cut(p.Text)))
			}
		case *llm.Image:
			if url := imageURL(p.Source); url != "" {
				list = append(list, InputPart{Type: "input_image", Detail: detail(p.Source.Detail), ImageURL: url})
			} else {
				list = append(list, inputText(llm.MissingImage(p.Source)))
			}
		}
	}
	return list
}

func inputText(text string) InputPart { return InputPart{Type: "input_text", Text: text} }

func (c *responsesConverter) assistant(m *llm.Message) {
	// Reasoning must be followed by a text or a call, so it is only added before one.
	var thoughts []Item
	flush := func() {
		c.out = append(c.out, thoughts...)
		thoughts = nil
	}
	for _, p := range m.Content {
		switch p := p.(type) {
		case *llm.SummarizedReasoning:
			if c.SameModel(m) && p.ID != "" && p.Encrypted != "" {
				thoughts = append(thoughts, reasoningItem(p))
			}
		case *llm.Text:
			if !convert.Blank(p.Text) {
				flush()
				c.say("assistant", p.Text)
			}
		}
	}
	for _, call := range m.ToolCalls {
		flush()
		c.add(Item{
			Type: "function_call", CallID: c.ids.Of(call.ID), Name: c.tools.Of(call.Name), Arguments: string(llm.Object(call.Arguments)),
			Status: "completed",
		})
	}
}

func reasoningItem(p *llm.SummarizedReasoning) Item {
	summary := []SummaryText{}
	for _, s := range p.Summary {
		summary = append(summary, SummaryText{Type: "summary_text", Text: s.Text})
	}
	return Item{Type: "reasoning", ID: p.ID, EncryptedContent: p.Encrypted, Summary: &summary}
}

func (c *responsesConverter) result(t *llm.ToolReturn) {
	out := Item{Type: "function_call_output", CallID: c.ids.Of(t.ToolCallID)}
	if convert.CountImages(t.Parts) == 0 {
		out.Output = c.Outcome(t)
		c.add(out)
		return
	}
	list := c.parts(t.Parts)
	if t.Status == llm.Failure {
		list = append([]InputPart{inputText("Error:")}, list...)
	}
	out.Output = list
	c.add(out)
}
