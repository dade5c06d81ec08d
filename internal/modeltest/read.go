package modeltest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// text returns the text of a value that is a string or a list of parts with texts.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct{ Text string }
	var out []string
	if json.Unmarshal(raw, &parts) == nil {
		for _, p := range parts {
			if p.Text != "" {
				out = append(out, p.Text)
			}
		}
	}
	return strings.Join(out, "\n")
}

func readChat(body []byte) (q Request, err error) {
	var in struct {
		Model    string
		Stream   bool
		Messages []struct {
			Role       string
			Content    json.RawMessage
			ToolCallID string `json:"tool_call_id"`
			ToolCalls  []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Tools []struct{ Function struct{ Name string } }
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return q, err
	}
	if !in.Stream {
		return q, fmt.Errorf("only requests with stream are supported")
	}
	q = Request{Protocol: Chat, Model: in.Model}
	for _, t := range in.Tools {
		q.Tools = append(q.Tools, t.Function.Name)
	}
	called := map[string]bool{}
	for _, m := range in.Messages {
		out := Message{Role: m.Role, Text: text(m.Content)}
		for _, c := range m.ToolCalls {
			called[c.ID] = true
			out.Calls = append(out.Calls, Call{c.ID, c.Function.Name, c.Function.Arguments})
		}
		switch m.Role {
		case "system", "developer":
			q.System += out.Text
			continue
		case "tool":
			if !called[m.ToolCallID] {
				return q, fmt.Errorf("messages with role tool must be a response to a preceding message with tool_calls")
			}
			out.Results, out.Text = []Result{{m.ToolCallID, out.Text}}, ""
		}
		q.Messages = append(q.Messages, out)
	}
	return q, nil
}

func readResponses(body []byte) (q Request, err error) {
	var in struct {
		Model string
		Input []struct {
			Type, Role, Name, Arguments string
			CallID                      string `json:"call_id"`
			Content, Output             json.RawMessage
		}
		Tools []struct{ Name string }
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return q, err
	}
	q = Request{Protocol: Responses, Model: in.Model}
	for _, t := range in.Tools {
		q.Tools = append(q.Tools, t.Name)
	}
	for _, i := range in.Input {
		switch {
		case i.Type == "function_call":
			q.Messages = append(q.Messages, Message{Role: "assistant", Calls: []Call{{i.CallID, i.Name, i.Arguments}}})
		case i.Type == "function_call_output":
			q.Messages = append(q.Messages, Message{Role: "tool", Results: []Result{{i.CallID, text(i.Output)}}})
		case i.Role == "system" || i.Role == "developer":
			q.System += text(i.Content)
		case i.Role != "":
			q.Messages = append(q.Messages, Message{Role: i.Role, Text: text(i.Content)})
		}
	}
	return q, nil
}

func readAnthropic(body []byte) (q Request, err error) {
	var in struct {
		Model    string
		System   json.RawMessage
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
		Tools []struct{ Name string }
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return q, err
	}
	q = Request{Protocol: Anthropic, Model: in.Model, System: text(in.System)}
	for _, t := range in.Tools {
		q.Tools = append(q.Tools, t.Name)
	}
	for _, m := range in.Messages {
		var blocks []struct {
			Type, Text, ID, Name string
			Input, Content       json.RawMessage
			ToolUseID            string `json:"tool_use_id"`
		}
		if json.Unmarshal(m.Content, &blocks) != nil {
			q.Messages = append(q.Messages, Message{Role: m.Role, Text: text(m.Content)})
			continue
		}
		out := Message{Role: m.Role, Text: text(m.Content)}
		for _, b := range blocks {
			switch b.Type {
			case "tool_use":
				out.Calls = append(out.Calls, Call{b.ID, b.Name, string(b.Input)})
			case "tool_result":
				out.Results = append(out.Results, Result{b.ToolUseID, text(b.Content)})
			}
		}
		q.Messages = append(q.Messages, out)
	}
	return q, nil
}

func readGemini(body []byte) (q Request, err error) {
	type content struct {
		Role  string
		Parts []struct {
			Text         string
			Thought      bool
			FunctionCall *struct {
				ID, Name string
				Args     json.RawMessage
			}
			FunctionResponse *struct {
				ID, Name string
				Response json.RawMessage
			}
		}
	}
	var in struct {
		SystemInstruction content
		Contents          []content
		Tools             []struct{ FunctionDeclarations []struct{ Name string } }
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return q, err
	}
	q = Request{Protocol: Gemini}
	for _, p := range in.SystemInstruction.Parts {
		q.System += p.Text
	}
	for _, t := range in.Tools {
		for _, f := range t.FunctionDeclarations {
			q.Tools = append(q.Tools, f.Name)
		}
	}
	for _, c := range in.Contents {
		out := Message{Role: c.Role}
		if c.Role == "model" {
			out.Role = "assistant"
		}
		for _, p := range c.Parts {
			switch {
			case p.FunctionCall != nil:
				out.Calls = append(out.Calls, Call{p.FunctionCall.ID, p.FunctionCall.Name, string(p.FunctionCall.Args)})
			case p.FunctionResponse != nil:
				out.Results = append(out.Results, Result{p.FunctionResponse.ID, string(p.FunctionResponse.Response)})
			case !p.Thought:
				out.Text += p.Text
			}
		}
		q.Messages = append(q.Messages, out)
	}
	return q, nil
}
