package llm

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// Decode reads a message and validates it against its schema: unknown fields of the
// message are errors, unknown keys of nested objects are preserved. An error names the
// path of the invalid value.
func Decode(b []byte) (Message, error) {
	var m Message
	f := codec{reading: true}
	f.read("", b, &m)
	if f.err != nil {
		return Message{}, f.err
	}
	for _, e := range m.kept.extra {
		return Message{}, chat.Errorf(chat.Invalid, "%s: a message has no such field", clip(e.key)).With("path", clip(e.key))
	}
	if _, given := m.kept.spelling("id"); given || m.ID != "" && !validID(m.ID) {
		return Message{}, chat.Errorf(chat.Invalid, "id: %q is not %s followed by a UUID", clip(m.ID), IDPrefix).With("path", "id")
	}
	return m, nil
}

// DecodeList reads an array of messages.
func DecodeList(b []byte) ([]Message, error) {
	f := codec{reading: true}
	items, ok := f.items("", b)
	if !ok {
		return nil, f.err
	}
	messages := make([]Message, len(items))
	for i, item := range items {
		m, err := Decode(item)
		if err != nil {
			e := chat.Public(err)
			at := index(i)
			if p, _ := e.Details["path"].(string); p != "" {
				at += "." + p
				e.Msg = index(i) + "." + e.Msg
			} else {
				e.Msg = index(i) + ": " + e.Msg
			}
			return nil, e.With("path", at)
		}
		messages[i] = m
	}
	return messages, nil
}

// validID applies the rule of Letta's schema: the prefix and eight hexadecimal digits,
// then anything.
func validID(id string) bool {
	rest, ok := strings.CutPrefix(id, IDPrefix)
	if !ok || len(rest) < 8 {
		return false
	}
	for i := range 8 {
		if c := rest[i] | 0x20; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// decodePart decodes a single part.
func decodePart(raw json.RawMessage) (Part, error) {
	f := codec{reading: true}
	p := f.part("", raw, anyPart)
	return p, f.err
}

// read decodes the object at key into o.
func (f *codec) read(key string, raw json.RawMessage, o object) {
	sub := codec{reading: true, path: join(f.path, key)}
	if sub.in = sub.members(raw); sub.err == nil {
		o.fields(&sub)
	}
	if sub.err == nil {
		for i, m := range sub.in {
			if sub.taken&(1<<i) == 0 {
				sub.k.extra = append(sub.k.extra, m)
			}
		}
	}
	if f.err == nil {
		f.err = sub.err
	}
}

// maxMembers is the maximum number of members of an object: codec.taken has one bit
// for each.
const maxMembers = 64

// members splits an object into its members. A duplicate key is an error, because JSON
// decoders disagree on which value applies.
func (f *codec) members(raw json.RawMessage) []member {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '{' {
		if !json.Valid(raw) {
			f.fail("", "it is not valid JSON")
			return nil
		}
		f.fail("", "it must be an object, not %s", kindOf(raw))
		return nil
	}
	if !utf8.Valid(raw) {
		f.fail("", "it is not valid UTF-8")
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		f.fail("", "it is not valid JSON")
		return nil
	}
	var list []member
	for dec.More() {
		token, err := dec.Token()
		key, ok := token.(string)
		var value json.RawMessage
		if err != nil || !ok || dec.Decode(&value) != nil {
			f.fail("", "it is not valid JSON")
			return nil
		}
		for _, m := range list {
			if m.key == key {
				f.fail(clip(key), "it is there twice")
				return nil
			}
		}
		if len(list) == maxMembers {
			f.fail("", "it has more than %d fields", maxMembers)
			return nil
		}
		list = append(list, member{key, value})
	}
	if _, err := dec.Token(); err != nil || len(bytes.TrimSpace(raw[dec.InputOffset():])) > 0 {
		f.fail("", "it is not valid JSON")
		return nil
	}
	return list
}

// items splits an array into its elements.
func (f *codec) items(key string, raw json.RawMessage) ([]json.RawMessage, bool) {
	var items []json.RawMessage
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '[' {
		f.fail(key, "it must be a list, not %s", kindOf(raw))
		return nil, false
	}
	if err := json.Unmarshal(raw, &items); err != nil {
		f.fail(key, "it is not valid JSON")
		return nil, false
	}
	if items == nil {
		items = []json.RawMessage{}
	}
	return items, true
}

// list is a list of objects.
func list[T any](f *codec, key string, items *[]T, n need, as func(*T) object) {
	if f.reading {
		raw, ok := f.take(key, n)
		if !ok {
			return
		}
		raws, ok := f.items(key, raw)
		if !ok {
			return
		}
		*items = make([]T, len(raws))
		for i := range raws {
			f.read(key+index(i), raws[i], as(&(*items)[i]))
		}
		return
	}
	if *items == nil && n != required {
		f.empty(key)
		return
	}
	f.key(key)
	f.out = append(f.out, '[')
	for i := range *items {
		if i > 0 {
			f.out = append(f.out, ',')
		}
		f.out = encodeObject(f.out, as(&(*items)[i]))
	}
	f.out = append(f.out, ']')
}

// anyPart and textOrImage are the filters for the kinds of parts that a list may
// contain.
func anyPart(string) bool          { return true }
func textOrImage(kind string) bool { return kind == "text" || kind == "image" }

func (f *codec) parts(key string, parts *[]Part, allowed func(string) bool, n need) {
	if f.reading {
		if raw, ok := f.take(key, n); ok {
			*parts = f.partList(key, raw, allowed)
		}
		return
	}
	if *parts == nil {
		f.empty(key)
		return
	}
	f.key(key)
	f.out = AppendParts(f.out, *parts)
}

func (f *codec) partList(key string, raw json.RawMessage, allowed func(string) bool) []Part {
	items, ok := f.items(key, raw)
	if !ok {
		return nil
	}
	parts := make([]Part, len(items))
	for i, item := range items {
		parts[i] = f.part(key+index(i), item, allowed)
	}
	return parts
}

func (f *codec) part(key string, raw json.RawMessage, allowed func(string) bool) Part {
	var head struct {
		Type *string `json:"type"`
	}
	at := &codec{path: join(f.path, key)}
	switch err := json.Unmarshal(raw, &head); {
	case f.err != nil:
		return nil
	case err != nil && kindOf(raw) != "an object":
		at.fail("", "it must be an object, not %s", kindOf(raw))
	case err != nil:
		at.fail("type", "it must be a text")
	case head.Type == nil:
		at.fail("type", "it is missing")
	case kinds[*head.Type] == nil || !allowed(*head.Type):
		at.fail("type", "%q is no kind of content that can stand here", clip(*head.Type))
	default:
		p := kinds[*head.Type]()
		f.read(key, raw, p)
		return p
	}
	f.err = at.err
	return nil
}

// textOrParts is a nullable value that is a text or a list of texts and images.
func (f *codec) textOrParts(key string, s *string, parts *[]Part) {
	if !f.reading {
		if *parts != nil {
			f.parts(key, parts, textOrImage, nullable)
		} else {
			f.text(key, s, nullable)
		}
		return
	}
	raw, ok := f.take(key, nullable)
	switch {
	case !ok:
	case raw[0] == '[':
		*parts = f.partList(key, raw, textOrImage)
	default:
		if f.scan(key, raw, s, "a text or a list of parts") && *s == "" {
			f.k.spell(key, raw)
		}
	}
}

// verdicts decodes approvals and tool returns. Like Letta, it treats an item with the
// key approve as an approval.
func (f *codec) verdicts(key string, vs *[]Verdict) {
	if !f.reading {
		if *vs == nil {
			f.empty(key)
			return
		}
		f.key(key)
		f.out = append(f.out, '[')
		for i, v := range *vs {
			if i > 0 {
				f.out = append(f.out, ',')
			}
			f.out = encodeObject(f.out, v)
		}
		f.out = append(f.out, ']')
		return
	}
	raw, ok := f.take(key, nullable)
	if !ok {
		return
	}
	items, ok := f.items(key, raw)
	if !ok {
		return
	}
	*vs = make([]Verdict, len(items))
	for i, item := range items {
		var head struct {
			Approve json.RawMessage `json:"approve"`
		}
		if json.Unmarshal(item, &head) == nil && head.Approve != nil {
			(*vs)[i] = &ToolApproval{}
		} else {
			(*vs)[i] = &ToolReturn{}
		}
		f.read(key+index(i), item, (*vs)[i])
	}
}

// encodeObject appends an object's JSON.
func encodeObject(b []byte, o object) []byte {
	f := codec{out: append(b, '{'), first: true}
	o.fields(&f)
	for _, m := range f.k.extra {
		f.key(m.key)
		f.out = append(f.out, m.value...)
	}
	return append(f.out, '}')
}

// DecodeParts reads a list of texts and images, the content of a user message; path is
// the location of the list in error messages.
func DecodeParts(path string, raw json.RawMessage) ([]Part, error) {
	f := codec{reading: true}
	parts := f.partList(path, raw, textOrImage)
	return parts, f.err
}

// AppendParts appends the parts as a JSON array.
func AppendParts(b []byte, parts []Part) []byte {
	b = append(b, '[')
	for i, p := range parts {
		if i > 0 {
			b = append(b, ',')
		}
		b = encodeObject(b, p)
	}
	return append(b, ']')
}

// clip shortens client input for an error message.
func clip(s string) string { return text.Clip(s, 60) }

func listed(words []string) string { return strings.Join(words, ", ") }
