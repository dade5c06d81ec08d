package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// meaning is what must survive a provider: who says what, calls with their
// arguments, results with their outcome.
func meaning(ms []Message, thoughts bool) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for i := range ms {
		m := &ms[i]
		for _, p := range m.Content {
			switch p := p.(type) {
			case *Text:
				if m.Role != Tool && p.Text != "" {
					say("%s: %s", m.Role, p.Text)
				}
			case *Image:
				say("%s: image %s %s", m.Role, p.Source.URL, p.Source.Data)
			case *Reasoning:
				if thoughts {
					say("thinks: %s (%s)", p.Text, p.Signature)
				}
			case *RedactedReasoning:
				if thoughts {
					say("thinks: hidden %s", p.Data)
				}
			case *SummarizedReasoning:
				if thoughts {
					say("thinks: %s %s %s", p.ID, p.PlainText(), p.Encrypted)
				}
			}
		}
		for _, c := range m.ToolCalls {
			var args any
			d := json.NewDecoder(bytes.NewReader(Object(c.Arguments)))
			d.UseNumber()
			_ = d.Decode(&args)
			say("calls %s %s %v", c.ID, c.Name, args)
		}
		for _, r := range m.ToolReturns {
			images := 0
			for _, p := range r.Parts {
				if _, ok := p.(*Image); ok {
					images++
				}
			}
			say("result of %s: %s %s %d", r.ToolCallID, r.Status, strings.TrimPrefix(r.PlainText(), "Error: "), images)
		}
	}
	return out
}

// plainTalk draws a conversation that every provider can hold.
func plainTalk(rt *rapid.T, think func(i int) []Part, images bool) []Message {
	ms := []Message{{Role: System, Content: Texts("be kind")}}
	n := 0
	for i := range rapid.IntRange(1, 6).Draw(rt, "turns") {
		said := Texts(fmt.Sprint("question ", i))
		if images && rapid.Bool().Draw(rt, "image") {
			said = append(said, &Image{Source: ImageSource{Type: SourceBase64, MediaType: "image/png", Data: "QUJD"}})
		}
		ms = append(ms, Message{Role: User, Content: said})
		for range rapid.IntRange(0, 2).Draw(rt, "steps") {
			a := Message{Role: Assistant, Model: "m", Content: think(n)}
			tool := Message{Role: Tool}
			for j := range rapid.IntRange(1, 3).Draw(rt, "calls") {
				id := fmt.Sprintf("call_%d_%d", n, j)
				a.ToolCalls = append(a.ToolCalls, ToolCall{ID: id, Name: fmt.Sprint("tool", j), Arguments: fmt.Sprintf(`{"big":12345678901234567890,"n":%d}`, n)})
				r := ToolReturn{ToolCallID: id, Status: Success, Text: fmt.Sprint("result ", n, j)}
				if rapid.IntRange(0, 3).Draw(rt, "failed") == 0 {
					r.Status = Failure
				}
				tool.ToolReturns = append(tool.ToolReturns, r)
			}
			n++
			ms = append(ms, a, tool)
		}
		ms = append(ms, Message{Role: Assistant, Model: "m", Content: append(think(n), &Text{Text: fmt.Sprint("answer ", i)})})
		n++
	}
	return ms
}

func noThoughts(int) []Part { return []Part{} }
