package modeltest

import (
	"encoding/json"
	"fmt"
)

// chatWriter writes Chat Completions.
type chatWriter struct{ model string }

func (s *chatWriter) chunk(e *events, delta object, finish any) {
	e.send("", object{"id": "x", "object": "chat.completion.chunk", "model": s.model, "choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}}})
}

func (s *chatWriter) begin(e *events, q *Request, _ *Reply) {
	s.model = q.Model
	s.chunk(e, object{"role": "assistant", "content": ""}, nil)
}
func (s *chatWriter) think(e *events, text string) {
	s.chunk(e, object{"reasoning_content": text}, nil)
}
func (s *chatWriter) say(e *events, text string) { s.chunk(e, object{"content": text}, nil) }

func (s *chatWriter) end(e *events, r *Reply) {
	for i, c := range r.Calls {
		s.chunk(e, object{"tool_calls": []any{object{"index": i, "id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": ""}}}}, nil)
		for _, half := range halves(c.Args) {
			s.chunk(e, object{"tool_calls": []any{object{"index": i, "function": object{"arguments": half}}}}, nil)
		}
	}
	s.chunk(e, object{}, r.reason("stop", "length", "content_filter", "tool_calls"))
	e.send("", object{"id": "x", "object": "chat.completion.chunk", "model": s.model, "choices": []any{}, "usage": object{
		"prompt_tokens": r.Input, "completion_tokens": r.Output, "total_tokens": r.Input + r.Output,
	}})
	e.raw("", "[DONE]")
}

// reason returns the protocol's word for why the answer ends.
func (r *Reply) reason(end, length, filter, calls string) string {
	switch {
	case r.Stop == "length":
		return length
	case r.Stop == "filter":
		return filter
	case len(r.Calls) > 0:
		return calls
	}
	return end
}

func halves(s string) []string { return []string{s[:len(s)/2], s[len(s)/2:]} }

// responsesWriter writes Responses.
type responsesWriter struct {
	items    []any
	text     string
	open     bool
	thinking string
	n        int
}

func (s *responsesWriter) send(e *events, v object) {
	v["sequence_number"] = s.n
	s.n++
	e.send(v["type"].(string), v)
}

func (s *responsesWriter) begin(e *events, q *Request, _ *Reply) {
	s.send(e, object{"type": "response.created", "response": object{"id": "r", "object": "response", "status": "in_progress", "model": q.Model, "output": []any{}}})
}

func (s *responsesWriter) think(e *events, text string) {
	if s.thinking == "" {
		s.send(e, object{"type": "response.output_item.added", "output_index": 0, "item": object{"type": "reasoning", "id": "rs_1", "summary": []any{}}})
		s.send(e, object{"type": "response.reasoning_summary_part.added", "item_id": "rs_1", "output_index": 0, "summary_index": 0, "part": object{"type": "summary_text", "text": ""}})
	}
	s.thinking += text
	s.send(e, object{"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0, "summary_index": 0, "delta": text})
}

func (s *responsesWriter) thought(e *events) {
	if s.thinking != "" && len(s.items) == 0 {
		item := object{"type": "reasoning", "id": "rs_1", "summary": []any{object{"type": "summary_text", "text": s.thinking}}, "encrypted_content": "sealed"}
		s.items = append(s.items, item)
		s.send(e, object{"type": "response.output_item.done", "output_index": 0, "item": item})
	}
}

func (s *responsesWriter) say(e *events, text string) {
	s.thought(e)
	if !s.open {
		s.open = true
		s.send(e, object{"type": "response.output_item.added", "output_index": len(s.items), "item": object{"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []any{}}})
	}
	s.text += text
	s.send(e, object{"type": "response.output_text.delta", "item_id": "msg_1", "output_index": len(s.items), "content_index": 0, "delta": text})
}

func (s *responsesWriter) end(e *events, r *Reply) {
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
	if why := r.reason("", "max_output_tokens", "content_filter", ""); why != "" {
		name = "response.incomplete"
		response["status"], response["incomplete_details"] = "incomplete", object{"reason": why}
	}
	s.send(e, object{"type": name, "response": response})
}

// anthropicWriter writes Messages.
type anthropicWriter struct {
	index int
	open  string
}

func (s *anthropicWriter) begin(e *events, q *Request, r *Reply) {
	e.send("message_start", object{"type": "message_start", "message": object{
		"id": "msg", "type": "message", "role": "assistant", "model": q.Model, "content": []any{}, "usage": object{"input_tokens": r.Input, "output_tokens": 0},
	}})
}

func (s *anthropicWriter) block(e *events, kind string, start object) {
	if s.open == kind && kind != "tool_use" {
		return
	}
	s.close(e)
	s.open = kind
	e.send("content_block_start", object{"type": "content_block_start", "index": s.index, "content_block": start})
}

func (s *anthropicWriter) delta(e *events, d object) {
	e.send("content_block_delta", object{"type": "content_block_delta", "index": s.index, "delta": d})
}

func (s *anthropicWriter) close(e *events) {
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

func (s *anthropicWriter) think(e *events, text string) {
	s.block(e, "thinking", object{"type": "thinking", "thinking": "", "signature": ""})
	s.delta(e, object{"type": "thinking_delta", "thinking": text})
}

func (s *anthropicWriter) say(e *events, text string) {
	s.block(e, "text", object{"type": "text", "text": ""})
	s.delta(e, object{"type": "text_delta", "text": text})
}

func (s *anthropicWriter) end(e *events, r *Reply) {
	for _, c := range r.Calls {
		s.block(e, "tool_use", object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": object{}})
		for _, half := range halves(c.Args) {
			s.delta(e, object{"type": "input_json_delta", "partial_json": half})
		}
	}
	s.close(e)
	stop := r.reason("end_turn", "max_tokens", "refusal", "tool_use")
	e.send("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop}, "usage": object{"output_tokens": r.Output}})
	e.send("message_stop", object{"type": "message_stop"})
}

// geminiWriter writes Gemini's stream.
type geminiWriter struct{}

func (geminiWriter) parts(e *events, finish string, usage object, parts ...any) {
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

func (geminiWriter) begin(*events, *Request, *Reply) {}
func (s geminiWriter) think(e *events, text string) {
	s.parts(e, "", nil, object{"text": text, "thought": true})
}
func (s geminiWriter) say(e *events, text string) { s.parts(e, "", nil, object{"text": text}) }

func (s geminiWriter) end(e *events, r *Reply) {
	parts := []any{}
	for _, c := range r.Calls {
		args := json.RawMessage(c.Args)
		if !json.Valid(args) {
			args = json.RawMessage(`{}`)
		}
		parts = append(parts, object{"functionCall": object{"name": c.Name, "args": args}})
	}
	finish := r.reason("STOP", "MAX_TOKENS", "SAFETY", "STOP")
	s.parts(e, finish, object{"promptTokenCount": r.Input, "candidatesTokenCount": r.Output, "totalTokenCount": r.Input + r.Output}, parts...)
}
