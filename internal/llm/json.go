package llm

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// AppendJSON appends the message's JSON to b.
func (m *Message) AppendJSON(b []byte) []byte {
	j, _ := json.Marshal(m) // every message can be encoded
	return append(b, j...)
}

// decodeMessage reads a stored message.
func decodeMessage(b []byte) (m Message, err error) {
	if err = json.Unmarshal(b, &m); err == nil && !slices.Contains([]Role{System, User, Assistant, Tool, Approval, Summary}, m.Role) {
		err = chat.Errorf(chat.Invalid, "role: %q is not known", clip(string(m.Role)))
	}
	return m, err
}

// AppendParts appends the parts as a JSON array.
func AppendParts(b []byte, parts Parts) []byte {
	b = append(b, '[')
	for i, p := range parts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendPart(b, p)
	}
	return append(b, ']')
}

// appendPart appends the part's fields with its kind as the field type.
func appendPart(b []byte, p Part) []byte {
	fields, _ := json.Marshal(p) // every part can be encoded
	b = append(b, `{"type":"`+p.Kind()+`"`...)
	if len(fields) > len("{}") {
		b = append(b, ',')
	}
	return append(b, fields[1:]...)
}

// MarshalJSON writes the parts as an array.
func (p Parts) MarshalJSON() ([]byte, error) { return AppendParts(nil, p), nil }

// UnmarshalJSON reads an array of parts.
func (p *Parts) UnmarshalJSON(b []byte) (err error) {
	*p, err = decodeEach(b, func(_ int, item json.RawMessage) (Part, error) { return decodePart(item) })
	return err
}

// decodeEach reads the elements of an array; null is nil.
func decodeEach[T any](b []byte, decode func(i int, item json.RawMessage) (T, error)) ([]T, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(b, &items); err != nil || items == nil {
		return nil, err
	}
	out := make([]T, len(items))
	for i, item := range items {
		var err error
		if out[i], err = decode(i, item); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func decodePart(b []byte) (Part, error) {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, err
	}
	construct := kinds[head.Type]
	if construct == nil {
		return nil, chat.Errorf(chat.Invalid, "type: %q is no kind of content", clip(head.Type))
	}
	p := construct()
	return p, json.Unmarshal(b, p)
}

// callJSON is the JSON of a ToolCall.
type callJSON struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// MarshalJSON writes the call with its function.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	j := callJSON{ID: c.ID, Type: "function"}
	j.Function.Name, j.Function.Arguments = c.Name, c.Arguments
	return json.Marshal(j)
}

// UnmarshalJSON reads a call with its function.
func (c *ToolCall) UnmarshalJSON(b []byte) error {
	var j callJSON
	err := json.Unmarshal(b, &j)
	*c = ToolCall{ID: j.ID, Name: j.Function.Name, Arguments: j.Function.Arguments}
	return err
}

type returnFields ToolReturn

// MarshalJSON writes the return with its text or its parts.
func (r ToolReturn) MarshalJSON() ([]byte, error) {
	j := struct {
		returnFields
		Response any `json:"func_response,omitzero"`
	}{returnFields: returnFields(r)}
	if r.Parts != nil {
		j.Response = r.Parts
	} else if r.Text != "" {
		j.Response = r.Text
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads a return with its text or its parts.
func (r *ToolReturn) UnmarshalJSON(b []byte) error {
	var j struct {
		returnFields
		Response json.RawMessage `json:"func_response"`
	}
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*r = ToolReturn(j.returnFields)
	switch {
	case len(j.Response) == 0:
		return nil
	case j.Response[0] == '[':
		return json.Unmarshal(j.Response, &r.Parts)
	}
	return json.Unmarshal(j.Response, &r.Text)
}

// MarshalJSON writes the approval.
func (a ToolApproval) MarshalJSON() ([]byte, error) {
	type fields ToolApproval
	return json.Marshal(struct {
		Type string `json:"type"`
		fields
	}{"approval", fields(a)})
}

// UnmarshalJSON reads approvals and tool returns. Like Letta, it treats an item with
// the key approve as an approval.
func (v *Verdicts) UnmarshalJSON(b []byte) (err error) {
	*v, err = decodeEach(b, func(_ int, item json.RawMessage) (Verdict, error) {
		var head struct {
			Approve *bool `json:"approve"`
		}
		if err := json.Unmarshal(item, &head); err != nil {
			return nil, err
		}
		if head.Approve != nil {
			var a ToolApproval
			return &a, json.Unmarshal(item, &a)
		}
		var r ToolReturn
		return &r, json.Unmarshal(item, &r)
	})
	return err
}

// DecodeParts reads and checks a list of texts and images, the content of a user
// message. path is the location of the list in error messages.
func DecodeParts(path string, raw json.RawMessage) (Parts, error) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '[' {
		return nil, invalid(path, "it must be a text, or a list of texts and images")
	}
	return decodeEach(raw, func(i int, item json.RawMessage) (Part, error) { return decodeInput(path+index(i), item) })
}

// sourceFields are the fields that each type of image source must have.
var sourceFields = map[SourceType][]string{SourceURL: {"url"}, SourceBase64: {"media_type", "data"}, SourceFile: {"file_id"}}

// decodeInput reads and checks a text or an image.
func decodeInput(path string, item json.RawMessage) (Part, error) {
	var in struct {
		Type   *string                    `json:"type"`
		Text   *string                    `json:"text"`
		Source map[string]json.RawMessage `json:"source"`
	}
	if err := json.Unmarshal(item, &in); err != nil {
		return nil, invalid(path, "%s", err)
	}
	switch {
	case in.Type == nil:
		return nil, invalid(path+".type", "it is missing")
	case *in.Type != "text" && *in.Type != "image":
		return nil, invalid(path+".type", "%q is no kind of content that can stand here", clip(*in.Type))
	case *in.Type == "text" && in.Text == nil:
		return nil, invalid(path+".text", "it is missing")
	case *in.Type == "image" && in.Source == nil:
		return nil, invalid(path+".source", "it is missing")
	}
	p, err := decodePart(item)
	if err != nil {
		return nil, invalid(path, "%s", err)
	}
	if image, ok := p.(*Image); ok {
		needed, known := sourceFields[image.Source.Type]
		if !known {
			return nil, invalid(path+".source.type", "%q is not one of url, base64, letta", clip(string(image.Source.Type)))
		}
		for _, field := range needed {
			if v := in.Source[field]; v == nil || string(v) == "null" {
				return nil, invalid(path+".source."+field, "it is missing")
			}
		}
	}
	return p, nil
}

func invalid(path, format string, args ...any) error {
	e := chat.Errorf(chat.Invalid, format, args...)
	e.Msg = path + ": " + e.Msg
	return e.With("path", path)
}

func index(i int) string { return "[" + strconv.Itoa(i) + "]" }

// clip shortens client input for an error message.
func clip(s string) string { return text.Clip(s, 60) }
