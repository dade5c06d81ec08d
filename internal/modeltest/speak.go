package modeltest

import (
	"encoding/json"
	"fmt"
)

// chatSpeaker speaks Chat Completions.
type chatSpeaker struct{ model string }

func (s *chatSpeaker) chunk(e *events, delta object, finish any) {
	e.send("", object{"id": "x", "object": "chat.completion.chunk", "model": s.model, "choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}}})
}

func (s *chatSpeaker) begin(e *events, q *Request, _ *Reply) {
	s.model = q.Model
	s.chunk(e, object{"role": "assistant", "content": ""}, nil)
}
func (s *chatSpeaker) think(e *events, text string) {
	s.chunk(e, object{"reasoning_content": text}, nil)
}
func (s *chatSpeaker) say(e *events, text string) { s.chunk(e, object{"content": text}, nil) }

func (s *chatSpeaker) end(e *events, r *Reply) {
	for i, c := range r.Calls {
		s.chunk(e, object{"tool_calls": []any{object{"index": i, "id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": ""}}}}, nil)
		for _, half := range halves(c.Args) {
			s.chunk(e, object{"tool_calls": []any{object{"index": i, "function": object{"arguments": half}}}}, nil)
		}
	}
	finish := "stop"
	switch {
	case r.Stop == "length":
		finish = "length"
	case r.Stop == "filter":
		finish = "content_filter"
	case len(r.Calls) > 0:
		finish = "tool_calls"
	}
	s.chunk(e, object{}, finish)
	e.send("", object{"id": "x", "object": "chat.completion.chunk", "model": s.model, "choices": []any{}, "usage": object{
		"prompt_tokens": r.Input, "completion_tokens": r.Output, "total_tokens": r.Input + r.Output,
	}})
	e.raw("", "[DONE]")
}

func halves(s string) []string { return []string{s[:len(s)/2], s[len(s)/2:]} }

// responsesSpeaker speaks Responses.
type responsesSpeaker struct {
	items    []any
	text     string
	open     bool
	thinking string
	n        int
}

func (s *responsesSpeaker) send(e *events, v object) {
	v["sequence_number"] = s.n
	s.n++
	e.send(v["type"].(string), v)
}

func (s *responsesSpeaker) begin(e *events, q *Request, _ *Reply) {
	s.send(e, object{"type": "response.created", "response": object{"id": "r", "object": "response", "status": "in_progress", "model": q.Model, "output": []any{}}})
}

func (s *responsesSpeaker) think(e *events, text string) {
	if s.thinking == "" {
		s.send(e, object{"type": "response.output_item.added", "output_index": 0, "item": object{"type": "reasoning", "id": "rs_1", "summary": []any{}}})
		s.send(e, object{"type": "response.reasoning_summary_part.added", "item_id": "rs_1", "output_index": 0, "summary_index": 0, "part": object{"type": "summary_text", "text": ""}})
	}
	s.thinking += text
	s.send(e, object{"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0, "summary_index": 0, "delta": text})
}

func (s *responsesSpeaker) thought(e *events) {
	if s.thinking != "" && len(s.items) == 0 {
		item := object{"type": "reasoning", "id": "rs_1", "summary": []any{object{"type": "summary_text", "text": s.thinking}}, "encrypted_content": "sealed"}
		s.items = append(s.items, item)
		s.send(e, object{"type": "response.output_item.done", "output_index": 0, "item": item})
	}
}

func (s *responsesSpeaker) say(e *events, text string) {
	s.thought(e)
	if !s.open {
		s.open = true
		s.send(e, object{"type": "response.output_item.added", "output_index": len(s.items), "item": object{"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []any{}}})
	}
	s.text += text
	s.send(e, object{"type": "response.output_text.delta", "item_id": "msg_1", "output_index": len(s.items), "content_index": 0, "delta": text})
}

func (s *responsesSpeaker) end(e *events, r *Reply) {
	s.thought(e)
	done := func(item object) {
		s.send(e, object{"type": "response.output_item.done", "output_index": len(s.items), "item": item})
		s.items = append(s.items, item)
	}
	if s.open {
		done(object{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []any{object{"type": "output_text", "text": s.text, "annotations": []any{}}}})
	}
	for i, c := range r.Calls {
		id := fmt.Sprint("fc_", i)
		s.send(e, object{"type": "response.output_item.added", "output_index": len(s.items), "item": object{"type": "function_call", "id": id, "call_id": c.ID, "name": c.Name, "arguments": ""}})
		for _, half := range halves(c.Args) {
			s.send(e, object{"type": "response.function_call_arguments.delta", "item_id": id, "output_index": len(s.items), "delta": half})
		}
		done(object{"type": "function_call", "id": id, "call_id": c.ID, "name": c.Name, "arguments": c.Args, "status": "completed"})
	}
	response := object{"id": "r", "object": "response", "status": "completed", "output": s.items, "usage": object{
		"input_tokens": r.Input, "output_tokens": r.Output, "total_tokens": r.Input + r.Output,
	}}
	name := "response.completed"
	if r.Stop == "length" || r.Stop == "filter" {
		name = "response.incomplete"
		why := map[string]string{"length": "max_output_tokens", "filter": "content_filter"}[r.Stop]
		response["status"], response["incomplete_details"] = "incomplete", object{"reason": why}
	}
	s.send(e, object{"type": name, "response": response})
}

// anthropicSpeaker speaks Messages.
type anthropicSpeaker struct {
	index int
	open  string
}

func (s *anthropicSpeaker) begin(e *events, q *Request, r *Reply) {
	e.send("message_start", object{"type": "message_start", "message": object{
		"id": "msg", "type": "message", "role": "assistant", "model": q.Model, "content": []any{}, "usage": object{"input_tokens": r.Input, "output_tokens": 0},
	}})
}

func (s *anthropicSpeaker) block(e *events, kind string, start object) {
	if s.open == kind && kind != "tool_use" {
		return
	}
	s.close(e)
	s.open = kind
	e.send("content_block_start", object{"type": "content_block_start", "index": s.index, "content_block": start})
}

func (s *anthropicSpeaker) delta(e *events, d object) {
	e.send("content_block_delta", object{"type": "content_block_delta", "index": s.index, "delta": d})
}

func (s *anthropicSpeaker) close(e *events) {
	if s.open == "" {
		return
	}
	if s.open == "thinking" {
		s.delta(e, object{"type": "signature_delta", "signature": "signed"})
	}
	e.send("content_block_stop", object{"type": "content_block_stop", "index": s.index})
	s.open = ""
	s.index++
}

func (s *anthropicSpeaker) think(e *events, text string) {
	s.block(e, "thinking", object{"type": "thinking", "thinking": "", "signature": ""})
	s.delta(e, object{"type": "thinking_delta", "thinking": text})
}

func (s *anthropicSpeaker) say(e *events, text string) {
	s.block(e, "text", object{"type": "text", "text": ""})
	s.delta(e, object{"type": "text_delta", "text": text})
}

func (s *anthropicSpeaker) end(e *events, r *Reply) {
	for _, c := range r.Calls {
		s.block(e, "tool_use", object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": object{}})
		for _, half := range halves(c.Args) {
			s.delta(e, object{"type": "input_json_delta", "partial_json": half})
		}
	}
	s.close(e)
	stop := "end_turn"
	switch {
	case r.Stop == "length":
		stop = "max_tokens"
	case r.Stop == "filter":
		stop = "refusal"
	case len(r.Calls) > 0:
		stop = "tool_use"
	}
	e.send("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop}, "usage": object{"output_tokens": r.Output}})
	e.send("message_stop", object{"type": "message_stop"})
}

// geminiSpeaker speaks Gemini.
type geminiSpeaker struct{}

func (geminiSpeaker) parts(e *events, finish string, usage object, parts ...any) {
	candidate := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	if finish != "" {
		candidate["finishReason"] = finish
	}
	v := object{"candidates": []any{candidate}, "responseId": "g"}
	if usage != nil {
		v["usageMetadata"] = usage
	}
	e.send("", v)
}

func (geminiSpeaker) begin(*events, *Request, *Reply) {}
func (s geminiSpeaker) think(e *events, text string) {
	s.parts(e, "", nil, object{"text": text, "thought": true})
}
func (s geminiSpeaker) say(e *events, text string) { s.parts(e, "", nil, object{"text": text}) }

func (s geminiSpeaker) end(e *events, r *Reply) {
	parts := []any{}
	for _, c := range r.Calls {
		var args json.RawMessage = json.RawMessage(c.Args)
		if !json.Valid(args) {
			args = json.RawMessage(`{}`)
		}
		parts = append(parts, object{"functionCall": object{"name": c.Name, "args": args}})
	}
	finish := "STOP"
	switch r.Stop {
	case "length":
		finish = "MAX_TOKENS"
	case "filter":
		finish = "SAFETY"
	}
	s.parts(e, finish, object{"promptTokenCount": r.Input, "candidatesTokenCount": r.Output, "totalTokenCount": r.Input + r.Output}, parts...)
}
