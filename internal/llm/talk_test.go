package llm

import (
	"fmt"

	"pgregory.net/rapid"
)

// plainTalk draws a conversation that every provider accepts.
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
