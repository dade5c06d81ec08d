package llm_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var (
	legalPerson    = regexp.MustCompile(`^[^\s<|\\/>]{1,64}$`)
	legalChatID    = regexp.MustCompile(`^.{1,40}$`)
	legalID        = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	legalName      = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	legalLongName  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)
	legalGoogle    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.:-]{0,63}$`)
	legalMediaType = regexp.MustCompile(`^image/(jpeg|png|gif|webp)$`)
	legalInline    = regexp.MustCompile(`^image/(jpeg|png|webp|heic|heif)$`)
)

var errNothing = errors.New("nothing is said")

type jsonObject = map[string]any

func decodeAny(v any) (out any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	if err := json.Unmarshal(b, &out); err != nil {
		panic(err)
	}
	return out
}

func isObjectText(s any) bool {
	var o map[string]any
	text, ok := s.(string)
	return ok && json.Unmarshal([]byte(text), &o) == nil
}

func goodImageURL(u any) bool {
	s, _ := u.(string)
	if rest, ok := strings.CutPrefix(s, "data:"); ok {
		head, data, ok := strings.Cut(rest, ";base64,")
		_, err := base64.StdEncoding.DecodeString(data)
		return ok && legalMediaType.MatchString(head) && data != "" && err == nil
	}
	return strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://")
}

// goodTools returns the error with which OpenAI and Anthropic would refuse a tool
// list. Tool names must be unique, and each schema must be of type object without
// alternatives at its top level.
func goodTools(v any, names *regexp.Regexp) error {
	list, _ := v.([]any)
	seen := map[any]bool{}
	for i, v := range list {
		t := v.(jsonObject)
		if f, ok := t["function"].(jsonObject); ok {
			t = f
		}
		schema, _ := t["parameters"].(jsonObject)
		if s, ok := t["input_schema"].(jsonObject); ok {
			schema = s
		}
		name, _ := t["name"].(string)
		if _, ok := schema["properties"].(jsonObject); !ok || schema["type"] != "object" || !names.MatchString(name) || seen[name] {
			return fmt.Errorf("tool %d: %v", i, t)
		}
		seen[name] = true
		for _, key := range []string{"allOf", "anyOf", "oneOf", "not", "enum"} {
			if schema[key] != nil {
				return fmt.Errorf("tool %d: %s at the top of %v", i, key, schema)
			}
		}
	}
	return nil
}

// checkChat returns the reason why Chat Completions would refuse a request, or nil. It
// checks the JSON that would be sent.
func checkChat(params any) error {
	p := decodeAny(params).(jsonObject)
	list, _ := p["messages"].([]any)
	if len(list) == 0 {
		return errNothing
	}
	if err := goodTools(p["tools"], legalName); err != nil {
		return err
	}
	waiting, used := map[string]bool{}, map[string]bool{}
	for i, v := range list {
		m := v.(jsonObject)
		role := m["role"]
		if len(waiting) > 0 && role != "tool" {
			return fmt.Errorf("message %d: calls without a result before %v", i, role)
		}
		if name, ok := m["name"]; ok && !legalPerson.MatchString(name.(string)) {
			return fmt.Errorf("message %d: name %q", i, name)
		}
		switch role {
		case "system", "developer", "user":
			switch c := m["content"].(type) {
			case string:
				if c == "" {
					return fmt.Errorf("message %d: empty", i)
				}
			case []any:
				if len(c) == 0 {
					return fmt.Errorf("message %d: no parts", i)
				}
				for _, p := range c {
					p := p.(jsonObject)
					if p["type"] == "image_url" && !goodImageURL(p["image_url"].(jsonObject)["url"]) {
						return fmt.Errorf("message %d: image %v", i, p)
					}
				}
			default:
				return fmt.Errorf("message %d: content %v", i, m["content"])
			}
		case "assistant":
			calls, _ := m["tool_calls"].([]any)
			if c, _ := m["content"].(string); c == "" && len(calls) == 0 {
				return fmt.Errorf("message %d: says nothing", i)
			}
			for _, c := range calls {
				c := c.(jsonObject)
				id, f := c["id"].(string), c["function"].(jsonObject)
				if !legalChatID.MatchString(id) || used[id] || !legalName.MatchString(f["name"].(string)) || !isObjectText(f["arguments"]) {
					return fmt.Errorf("message %d: call %v", i, c)
				}
				used[id], waiting[id] = true, true
			}
		case "tool":
			id, _ := m["tool_call_id"].(string)
			if _, ok := m["content"].(string); !ok || !waiting[id] {
				return fmt.Errorf("message %d: result %v of no call", i, m)
			}
			delete(waiting, id)
		default:
			return fmt.Errorf("message %d: role %v", i, role)
		}
	}
	if len(waiting) > 0 {
		return fmt.Errorf("calls without a result at the end")
	}
	return nil
}

// checkResponses returns the reason why the Responses API would refuse a request, or nil.
// It checks the JSON that would be sent.
func checkResponses(params any) error {
	p := decodeAny(params).(jsonObject)
	list, _ := p["input"].([]any)
	if len(list) == 0 {
		return errNothing
	}
	if err := goodTools(p["tools"], legalName); err != nil {
		return err
	}
	if n, ok := p["max_output_tokens"].(float64); ok && n < 16 {
		return fmt.Errorf("max_output_tokens %v", n)
	}
	called, answered := map[string]bool{}, map[string]bool{}
	thought := false
	for i, v := range list {
		item := v.(jsonObject)
		typ, _ := item["type"].(string)
		produced := typ == "function_call" || item["role"] == "assistant"
		if thought && !produced && typ != "reasoning" {
			return fmt.Errorf("item %d: a thought without what follows it", i)
		}
		thought = typ == "reasoning"
		switch {
		case typ == "reasoning":
			if item["id"] == "" || item["encrypted_content"] == "" || item["encrypted_content"] == nil || item["summary"] == nil {
				return fmt.Errorf("item %d: %v", i, item)
			}
		case typ == "function_call":
			id := item["call_id"].(string)
			if called[id] || !legalID.MatchString(id) || !legalName.MatchString(item["name"].(string)) || !isObjectText(item["arguments"]) {
				return fmt.Errorf("item %d: %v", i, item)
			}
			called[id] = true
		case typ == "function_call_output":
			id := item["call_id"].(string)
			if !called[id] || answered[id] || item["output"] == nil {
				return fmt.Errorf("item %d: %v", i, item)
			}
			answered[id] = true
		case item["role"] != nil:
			switch c := item["content"].(type) {
			case string:
				if c == "" {
					return fmt.Errorf("item %d: empty", i)
				}
			case []any:
				for _, p := range c {
					p := p.(jsonObject)
					if p["type"] == "input_image" && !goodImageURL(p["image_url"]) {
						return fmt.Errorf("item %d: image %v", i, p)
					}
				}
				if len(c) == 0 {
					return fmt.Errorf("item %d: no parts", i)
				}
			default:
				return fmt.Errorf("item %d: %v", i, item)
			}
		default:
			return fmt.Errorf("item %d: %v", i, item)
		}
	}
	if thought || len(called) != len(answered) {
		return fmt.Errorf("open at the end: thought %v, %d calls, %d results", thought, len(called), len(answered))
	}
	return nil
}

// checkAnthropic returns the reason why the Messages API would refuse a request, or nil. It
// checks the JSON that would be sent.
func checkAnthropic(params any) error {
	p := decodeAny(params).(jsonObject)
	list, _ := p["messages"].([]any)
	if len(list) == 0 {
		return errNothing
	}
	if p["max_tokens"].(float64) < 1 {
		return fmt.Errorf("max_tokens %v", p["max_tokens"])
	}
	if err := goodTools(p["tools"], legalLongName); err != nil {
		return err
	}
	used := map[string]bool{}
	var waiting map[string]bool
	tools, calls := p["tools"] != nil, false
	last := ""
	for i, v := range list {
		m := v.(jsonObject)
		role := m["role"].(string)
		if i == 0 && role != "user" || role == last {
			return fmt.Errorf("message %d: %s after %q", i, role, last)
		}
		last = role
		blocks, _ := m["content"].([]any)
		if len(blocks) == 0 {
			return fmt.Errorf("message %d: no content", i)
		}
		fresh, results := map[string]bool{}, true
		for j, b := range blocks {
			b := b.(jsonObject)
			switch b["type"] {
			case "text":
				if strings.TrimSpace(b["text"].(string)) == "" {
					return fmt.Errorf("message %d: blank text", i)
				}
				results = false
			case "image":
				if role != "user" {
					return fmt.Errorf("message %d: an assistant's image", i)
				}
				if err := anthropicSource(b["source"].(jsonObject)); err != nil {
					return fmt.Errorf("message %d: %w", i, err)
				}
				results = false
			case "thinking":
				if role != "assistant" || b["signature"] == "" || b["cache_control"] != nil {
					return fmt.Errorf("message %d: %v", i, b)
				}
			case "redacted_thinking":
				if b["data"] == "" || b["cache_control"] != nil {
					return fmt.Errorf("message %d: %v", i, b)
				}
			case "tool_use":
				calls = true
				id := b["id"].(string)
				if _, ok := b["input"].(jsonObject); !ok || role != "assistant" || used[id] || !legalID.MatchString(id) || !legalLongName.MatchString(b["name"].(string)) {
					return fmt.Errorf("message %d: %v", i, b)
				}
				used[id], fresh[id] = true, true
			case "tool_result":
				id := b["tool_use_id"].(string)
				if role != "user" || !waiting[id] || !results {
					return fmt.Errorf("message %d block %d: result %v", i, j, b)
				}
				delete(waiting, id)
				content, _ := b["content"].([]any)
				for _, c := range content {
					c := c.(jsonObject)
					if c["type"] == "text" && strings.TrimSpace(c["text"].(string)) == "" {
						return fmt.Errorf("message %d: blank result", i)
					}
					if c["type"] == "image" {
						if err := anthropicSource(c["source"].(jsonObject)); err != nil {
							return err
						}
					}
				}
				if b["is_error"] == true && len(content) == 0 {
					return fmt.Errorf("message %d: an error without content", i)
				}
			default:
				return fmt.Errorf("message %d: block %v", i, b)
			}
		}
		if len(waiting) > 0 {
			return fmt.Errorf("message %d: calls without a result", i)
		}
		if end := blocks[len(blocks)-1].(jsonObject)["type"]; end == "thinking" || end == "redacted_thinking" {
			return fmt.Errorf("message %d: it ends with a thought", i)
		}
		waiting = fresh
	}
	if len(waiting) > 0 || calls && !tools {
		return fmt.Errorf("calls without results or tools")
	}
	if last != "user" {
		return fmt.Errorf("it ends with the assistant's own words")
	}
	return nil
}

func anthropicSource(s jsonObject) error {
	switch s["type"] {
	case "url":
		if u, _ := s["url"].(string); strings.HasPrefix(u, "https://") {
			return nil
		}
	case "base64":
		if _, err := base64.StdEncoding.DecodeString(s["data"].(string)); err == nil && legalMediaType.MatchString(s["media_type"].(string)) && s["data"] != "" {
			return nil
		}
	}
	return fmt.Errorf("image %v", s)
}

// geminiRequest contains the fields of a Gemini request that the rules check.
type geminiRequest struct {
	SystemInstruction *struct{ Parts []any }
	Tools             []struct{ FunctionDeclarations []struct{ Name string } }
	Contents          []struct {
		Role  string
		Parts []struct {
			Text             string
			ThoughtSignature string
			InlineData       *struct{ Data, MimeType string }
			FunctionCall     *struct{ ID, Name string }
			FunctionResponse *struct {
				ID, Name string
				Response map[string]any
			}
		}
	}
}

// checkGemini returns the reason why Gemini would refuse a request, or nil. It checks the
// JSON that would be sent.
func checkGemini(model string, request any) error {
	b, err := json.Marshal(request)
	if err != nil {
		return err
	}
	var r geminiRequest
	if err := json.Unmarshal(b, &r); err != nil {
		return err
	}
	if r.SystemInstruction != nil && len(r.SystemInstruction.Parts) == 0 {
		return fmt.Errorf("an empty instruction")
	}
	for _, t := range r.Tools {
		for _, f := range t.FunctionDeclarations {
			if !legalGoogle.MatchString(f.Name) {
				return fmt.Errorf("tool %q", f.Name)
			}
		}
	}
	var waiting []string
	if len(r.Contents) == 0 {
		return errNothing
	}
	for i, c := range r.Contents {
		if c.Role != "user" && c.Role != "model" || len(c.Parts) == 0 {
			return fmt.Errorf("content %d: role %q, %d parts", i, c.Role, len(c.Parts))
		}
		if i == 0 && c.Role != "user" || i > 0 && c.Role == r.Contents[i-1].Role {
			return fmt.Errorf("content %d: %s after the same", i, c.Role)
		}
		var calls, results []string
		for _, p := range c.Parts {
			kinds := 0
			if p.Text != "" {
				kinds++
			}
			if p.InlineData != nil {
				kinds++
				if len(p.InlineData.Data) == 0 || !legalInline.MatchString(p.InlineData.MimeType) {
					return fmt.Errorf("content %d: image", i)
				}
			}
			if p.FunctionCall != nil {
				kinds++
				if !legalGoogle.MatchString(p.FunctionCall.Name) || c.Role != "model" {
					return fmt.Errorf("content %d: call %+v", i, p.FunctionCall)
				}
				if len(calls) == 0 && p.ThoughtSignature == "" && strings.Contains(model, "gemini-3") {
					return fmt.Errorf("content %d: a call that is not signed", i)
				}
				calls = append(calls, p.FunctionCall.ID+" "+p.FunctionCall.Name)
			}
			if p.FunctionResponse != nil {
				kinds++
				if len(p.FunctionResponse.Response) == 0 || c.Role != "user" {
					return fmt.Errorf("content %d: result %+v", i, p.FunctionResponse)
				}
				results = append(results, p.FunctionResponse.ID+" "+p.FunctionResponse.Name)
			}
			if kinds != 1 {
				return fmt.Errorf("content %d: a part with %d kinds", i, kinds)
			}
		}
		if fmt.Sprint(results) != fmt.Sprint(waiting) {
			return fmt.Errorf("content %d: results %v for calls %v", i, results, waiting)
		}
		waiting = calls
	}
	if len(waiting) > 0 {
		return fmt.Errorf("calls without results at the end")
	}
	return nil
}
