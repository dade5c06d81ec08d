package openai

import (
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/internal/convert"
)

// minTokens is the shortest answer that can be asked for there.
const minTokens = 16

// Responses turns a request into one for the Responses API. Nothing is stored
// there; reasoning comes back encrypted and is sent along again.
func Responses(r llm.Request) responses.ResponseNewParams {
	c := responsesConverter{Request: convert.Request{Request: r}, ids: convert.NewNames(maxCallID, ""), tools: convert.ToolNames(r.Tools, maxName, "")}
	for _, m := range llm.Repair(r.Messages) {
		c.message(&m)
	}
	if len(c.out) == 0 {
		c.say(responses.EasyInputMessageRoleUser, convert.Begins)
	}
	p := responses.ResponseNewParams{
		Model: r.Model, Store: param.NewOpt(false),
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: c.out},
	}
	if reasons(r.Model) {
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
		p.Reasoning.Summary = shared.ReasoningSummaryDetailed
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		f := &responses.FunctionToolParam{Name: c.tools.Of(t.Name), Parameters: convert.Parameters(t), Strict: param.NewOpt(false)}
		if t.Description != "" {
			f.Description = param.NewOpt(t.Description)
		}
		p.Tools = append(p.Tools, responses.ToolUnionParam{OfFunction: f})
	}
	if r.MaxTokens > 0 {
		p.MaxOutputTokens = param.NewOpt(int64(max(r.MaxTokens, minTokens)))
	}
	return p
}

type responsesConverter struct {
	convert.Request
	ids, tools *convert.Names
	out        responses.ResponseInputParam
}

func (c *responsesConverter) add(i responses.ResponseInputItemUnionParam) { c.out = append(c.out, i) }

// say adds a message of one text.
func (c *responsesConverter) say(role responses.EasyInputMessageRole, text string) {
	if convert.Blank(text) {
		return
	}
	c.add(responses.ResponseInputItemParamOfMessage(c.Cut(text), role))
}

func (c *responsesConverter) message(m *llm.Message) {
	switch m.Role {
	case llm.System:
		c.say(responses.EasyInputMessageRoleDeveloper, m.PlainText())
	case llm.Summary:
		c.say(responses.EasyInputMessageRoleUser, m.PlainText())
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
	var list responses.ResponseInputMessageContentListParam
	for _, p := range m.Content {
		switch p := p.(type) {
		case *llm.Text:
			if p.Text != "" {
				list = append(list, responses.ResponseInputContentParamOfInputText(c.Cut(p.Text)))
			}
		case *llm.Image:
			url, mediaType, data, ok := convert.Picture(p.Source, convert.WebTypes)
			if !ok {
				list = append(list, responses.ResponseInputContentParamOfInputText(llm.MissingImage(p.Source)))
				continue
			}
			if url == "" {
				url = "data:" + mediaType + ";base64," + data
			}
			list = append(list, responses.ResponseInputContentUnionParam{OfInputImage: &responses.ResponseInputImageParam{
				Detail: responses.ResponseInputImageDetail(detail(p.Source.Detail)), ImageURL: param.NewOpt(url),
			}})
		}
	}
	if len(list) > 0 {
		c.add(responses.ResponseInputItemParamOfMessage(list, responses.EasyInputMessageRoleUser))
	}
}

func (c *responsesConverter) assistant(m *llm.Message) {
	// A thought must be followed by what came of it, so it waits for that.
	var thoughts []responses.ResponseInputItemUnionParam
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
				c.say(responses.EasyInputMessageRoleAssistant, p.Text)
			}
		}
	}
	for _, call := range m.ToolCalls {
		flush()
		c.add(responses.ResponseInputItemUnionParam{OfFunctionCall: &responses.ResponseFunctionToolCallParam{
			CallID: c.ids.Of(call.ID), Name: c.tools.Of(call.Name), Arguments: string(llm.Object(call.Arguments)),
			Status: responses.ResponseFunctionToolCallStatusCompleted,
		}})
	}
}

func reasoningItem(p *llm.SummarizedReasoning) responses.ResponseInputItemUnionParam {
	item := responses.ResponseReasoningItemParam{
		ID: p.ID, EncryptedContent: param.NewOpt(p.Encrypted), Summary: []responses.ResponseReasoningItemSummaryParam{},
	}
	for _, s := range p.Summary {
		item.Summary = append(item.Summary, responses.ResponseReasoningItemSummaryParam{Text: s.Text})
	}
	return responses.ResponseInputItemUnionParam{OfReasoning: &item}
}

func (c *responsesConverter) result(t *llm.ToolReturn) {
	out := responses.ResponseInputItemFunctionCallOutputParam{CallID: param.NewOpt(c.ids.Of(t.ToolCallID))}
	if convert.CountImages(t.Parts) == 0 {
		out.Output.OfString = param.NewOpt(c.Outcome(t))
		c.add(responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &out})
		return
	}
	var list responses.ResponseFunctionCallOutputItemListParam
	text := func(s string) {
		list = append(list, responses.ResponseFunctionCallOutputItemUnionParam{OfInputText: &responses.ResponseInputTextContentParam{Text: s}})
	}
	if t.Status == llm.Failure {
		text("Error:")
	}
	for _, p := range t.Parts {
		switch p := p.(type) {
		case *llm.Text:
			if p.Text != "" {
				text(c.Cut(p.Text))
			}
		case *llm.Image:
			url, mediaType, data, ok := convert.Picture(p.Source, convert.WebTypes)
			if !ok {
				text(llm.MissingImage(p.Source))
				continue
			}
			if url == "" {
				url = "data:" + mediaType + ";base64," + data
			}
			list = append(list, responses.ResponseFunctionCallOutputItemUnionParam{OfInputImage: &responses.ResponseInputImageContentParam{
				Detail: responses.ResponseInputImageContentDetail(detail(p.Source.Detail)), ImageURL: param.NewOpt(url),
			}})
		}
	}
	out.Output.OfResponseFunctionCallOutputItemArray = list
	c.add(responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &out})
}
