package gemini

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/internal/convert"
)

// The limits of tool names that Gemini accepts.
const (
	maxName    = 64
	extraSigns = ".:"
)

// waiting is the model message that is inserted between a tool result and the next
// user message; Gemini requires one there.
const waiting = "(Waiting for the user.)"

// Contents converts a request for Gemini.
func Contents(r llm.Request) *Request {
	c := converter{Request: convert.Request{Request: r}, tools: convert.ToolNames(r.Tools, maxName, extraSigns), called: map[string]string{}}
	system, rest := convert.Split(llm.Repair(r.Messages))
	out := &Request{Config: Config{MaxOutputTokens: r.MaxTokens}}
	for _, text := range system {
		if out.SystemInstruction == nil {
			out.SystemInstruction = &Content{Role: roleUser}
		}
		out.SystemInstruction.Parts = append(out.SystemInstruction.Parts, &Part{Text: text})
	}
	for i := range rest {
		c.message(&rest[i])
	}
	if len(c.out) == 0 {
		c.add(roleUser, &Part{Text: convert.Begins})
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		if i == 0 {
			out.Tools = make([]Tool, 1)
		}
		out.Tools[0].Functions = append(out.Tools[0].Functions, Function{
			Name: c.tools.Of(t.Name), Description: t.Description, Parameters: convert.Parameters(t),
		})
	}
	out.Contents = c.out
	return out
}

type converter struct {
	convert.Request
	tools  *convert.Names
	called map[string]string // call id → tool name
	order  []string          // ids of the last calls, in the order of their parts
	out    []*Content
}

// add appends parts. Consecutive parts of the same role form one content, but tool
// results always have a content of their own.
func (c *converter) add(role string, parts ...*Part) {
	if len(parts) == 0 {
		return
	}
	if len(c.out) == 0 && role == roleModel {
		c.add(roleUser, &Part{Text: convert.Begins})
	}
	if n := len(c.out) - 1; n >= 0 && c.out[n].Role == role {
		if !answers(c.out[n]) {
			c.out[n].Parts = append(c.out[n].Parts, parts...)
			return
		}
		c.out = append(c.out, &Content{Role: roleModel, Parts: []*Part{{Text: waiting}}})
	}
	c.out = append(c.out, &Content{Role: role, Parts: parts})
}

// answers reports whether a content contains tool results.
func answers(c *Content) bool {
	for _, p := range c.Parts {
		if p.FunctionResponse != nil {
			return true
		}
	}
	return false
}

func (c *converter) message(m *llm.Message) {
	switch m.Role {
	case llm.System:
		if text := m.PlainText(); !convert.Blank(text) {
			c.add(roleUser, &Part{Text: convert.Event(c.Cut(text))})
		}
	case llm.User, llm.Summary:
		var parts []*Part
		for _, p := range m.Content {
			switch p := p.(type) {
			case *llm.Text:
				if p.Text != "" {
					parts = append(parts, &Part{Text: c.Cut(p.Text)})
				}
			case *llm.Image:
				parts = append(parts, imagePart(p.Source))
			}
		}
		c.add(roleUser, parts...)
	case llm.Assistant:
		c.assistant(m)
	case llm.Tool:
		c.results(m)
	}
}

// pictures are the image types that Gemini accepts.
var pictures = []string{"image/jpeg", "image/png", "image/webp", "image/heic", "image/heif"}

// imagePart returns an image with inline data. For an image that is only a URL, it
// returns a text with the URL.
func imagePart(s llm.ImageSource) *Part {
	url, mediaType, data, ok := convert.Picture(s, pictures)
	if url != "" {
		return &Part{Text: convert.At(url)}
	}
	b, err := base64.StdEncoding.DecodeString(data)
	if !ok || err != nil || len(b) == 0 {
		return &Part{Text: llm.MissingImage(s)}
	}
	return &Part{InlineData: &Blob{Data: b, MediaType: mediaType}}
}

func (c *converter) assistant(m *llm.Message) {
	var parts []*Part
	mine := m.Model == "" || m.Model == c.Model // a message without a model may be its own
	placed := map[string]bool{}
	c.order = nil
	var spare []byte // the signature of a reasoning part
	call := func(t llm.ToolCall, signature string) {
		placed[t.ID] = true
		name := c.tools.Of(t.Name)
		c.called[t.ID], c.order = name, append(c.order, t.ID)
		p := &Part{FunctionCall: &FunctionCall{ID: t.ID, Name: name, Args: argsMap(t.Arguments)}}
		if mine {
			p.ThoughtSignature = unsign(signature)
		}
		parts = append(parts, p)
	}
	for _, p := range m.Content {
		switch p := p.(type) {
		case *llm.Text:
			var signature []byte
			if mine {
				signature = unsign(p.Signature)
			}
			if p.Text != "" {
				parts = append(parts, &Part{Text: c.Cut(p.Text), ThoughtSignature: signature})
			} else if n := len(parts) - 1; n >= 0 && parts[n].Text != "" && !parts[n].Thought && parts[n].ThoughtSignature == nil {
				// Gemini refuses a part with only a signature, so add the signature
				// to the previous part.
				parts[n].ThoughtSignature = signature
			} else if spare == nil {
				spare = signature
			}
		case *llm.Reasoning:
			if mine && spare == nil {
				spare = unsign(p.Signature)
			}
			if c.SameModel(m) && p.Text != "" {
				parts = append(parts, &Part{Text: p.Text, Thought: true})
			}
		case *llm.CallPart:
			for _, t := range m.ToolCalls {
				if t.ID == p.ID && !placed[t.ID] {
					call(t, p.Signature)
				}
			}
		}
	}
	for _, t := range m.ToolCalls {
		if !placed[t.ID] {
			call(t, "")
		}
	}
	c.signCalls(parts, spare)
	if !speaks(parts) {
		return
	}
	c.add(roleModel, parts...)
}

// foreign is the signature for a call of another model, or for a call whose signature
// was lost.
const foreign = "skip_thought_signature_validator"

// signed matches the models that refuse calls without a signature.
var signed = regexp.MustCompile(`(^|/)gemini-([3-9]|[1-9]\d)([.-]|$)`)

// signCalls adds a signature to the first call if any signature is available. Gemini
// validates the signature of the first call.
func (c *converter) signCalls(parts []*Part, spare []byte) {
	first := slices.IndexFunc(parts, func(p *Part) bool { return p.FunctionCall != nil })
	if first < 0 || parts[first].ThoughtSignature != nil {
		return
	}
	for _, p := range parts {
		if spare == nil && p.FunctionCall == nil {
			spare = p.ThoughtSignature
		}
	}
	if spare == nil && signed.MatchString(c.Model) {
		spare = []byte(foreign)
	}
	parts[first].ThoughtSignature = spare
}

// speaks reports whether the parts contain anything but reasoning.
func speaks(parts []*Part) bool {
	for _, p := range parts {
		if !p.Thought {
			return true
		}
	}
	return false
}

// unsign decodes a signature; it returns nil if the signature is not Gemini's.
func unsign(s string) []byte {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b) == 0 {
		return nil
	}
	return b
}

// argsMap decodes a call's arguments; numbers keep all their digits.
func argsMap(arguments string) map[string]any {
	args := map[string]any{}
	dec := json.NewDecoder(bytes.NewReader(llm.Object(arguments)))
	dec.UseNumber()
	if dec.Decode(&args) != nil || args == nil {
		return map[string]any{}
	}
	return args
}

func (c *converter) results(m *llm.Message) {
	var parts, images []*Part
	returns := slices.Clone(m.ToolReturns)
	slices.SortStableFunc(returns, func(a, b llm.ToolReturn) int { // in the order of the calls
		return slices.Index(c.order, a.ToolCallID) - slices.Index(c.order, b.ToolCallID)
	})
	for i := range returns {
		t := &returns[i]
		text, n := t.PlainText(), 0
		for _, p := range t.Parts {
			if image, ok := p.(*llm.Image); ok {
				if sent := imagePart(image.Source); sent.InlineData != nil {
					images = append(images, sent)
					n++
				} else {
					text = strings.TrimSpace(text + " " + sent.Text)
				}
			}
		}
		if n > 0 {
			text = strings.TrimSpace(fmt.Sprintf("%s [%d image(s) attached]", text, n))
		}
		text = c.Cut(text)
		var content any = text
		if strings.HasPrefix(text, "{") {
			var object map[string]any
			dec := json.NewDecoder(strings.NewReader(text))
			dec.UseNumber()
			if dec.Decode(&object) == nil && !dec.More() {
				content = object
			}
		}
		key := "output"
		if t.Failed() {
			key = "error"
		}
		parts = append(parts, &Part{FunctionResponse: &FunctionResponse{
			ID: t.ToolCallID, Name: c.called[t.ToolCallID], Response: map[string]any{key: content},
		}})
	}
	c.add(roleUser, append(parts, images...)...)
}
