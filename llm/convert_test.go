package llm

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// anyMessages draws lists of messages that no rule has seen: calls without
// results, results without calls, ids used twice, empty and odd content.
func anyMessages(rt *rapid.T) []Message {
	text := func() string {
		return rapid.SampledFrom([]string{"", " ", "hello", "a\n\nb", "{\"x\":1}", "Grüße 你好", "trailing \n"}).Draw(rt, "text")
	}
	id := func() string {
		return rapid.SampledFrom([]string{"c1", "c2", "c3", "a call/with odd:signs", "x", strings.Repeat("long", 30), strings.Repeat("long", 30) + "2", ""}).Draw(rt, "id")
	}
	name := func() string {
		return rapid.SampledFrom([]string{"search", "fs.read", "ns/tool", "ns_tool", strings.Repeat("n", 150)}).Draw(rt, "name")
	}
	model := func() string { return rapid.SampledFrom([]string{"", "m", "other"}).Draw(rt, "model") }
	image := func() *Image {
		return &Image{Source: rapid.SampledFrom([]ImageSource{
			{Type: SourceURL, URL: "https://x/y.png"}, {Type: SourceURL, URL: "file:///etc/passwd"}, {Type: SourceURL, URL: "data:image/png;base64,QUJD"},
			{Type: SourceBase64, MediaType: "image/png", Data: "QUJD"}, {Type: SourceBase64, MediaType: "image/tiff", Data: "QUJD", Detail: "low"},
			{Type: SourceBase64, MediaType: "image/png", Data: "not base64!"}, {Type: SourceFile, FileID: "f1"}, {Type: SourceFile, FileID: "f2", MediaType: "image/png", Data: "QUJD"},
		}).Draw(rt, "source")}
	}
	args := func() string {
		return rapid.SampledFrom([]string{"{}", `{"a":1}`, `{"a":"b`, "", "nonsense", `[1]`, `{"a":12345678901234567890}`}).Draw(rt, "args")
	}
	sig := base64.StdEncoding.EncodeToString([]byte("signed"))
	content := func(n int) []Part {
		parts := []Part{}
		for range rapid.IntRange(0, n).Draw(rt, "parts") {
			switch rapid.IntRange(0, 6).Draw(rt, "part") {
			case 0, 1:
				parts = append(parts, &Text{Text: text()})
			case 2:
				parts = append(parts, &Reasoning{Native: true, Text: text(), Signature: rapid.SampledFrom([]string{"", sig}).Draw(rt, "sig")})
			case 3:
				parts = append(parts, &RedactedReasoning{Data: "secret"})
			case 4:
				parts = append(parts, &SummarizedReasoning{ID: "rs_1", Summary: []SummaryText{{0, "s", kept{}}}, Encrypted: rapid.SampledFrom([]string{"", "enc"}).Draw(rt, "enc")})
			case 5:
				parts = append(parts, &OmittedReasoning{})
			case 6:
				parts = append(parts, &CallPart{ID: id(), Name: name(), Input: raw(`{"p":1}`), Signature: rapid.SampledFrom([]string{"", sig}).Draw(rt, "sig")})
			}
		}
		return parts
	}
	var out []Message
	for range rapid.IntRange(0, 12).Draw(rt, "messages") {
		m := Message{Model: model(), Name: rapid.SampledFrom([]string{"", "Ann", "a name"}).Draw(rt, "who")}
		switch rapid.IntRange(0, 8).Draw(rt, "role") {
		case 0:
			m.Role, m.Content = System, Texts(text())
		case 1, 2:
			m.Role = User
			for range rapid.IntRange(0, 3).Draw(rt, "said") {
				if rapid.Bool().Draw(rt, "image") {
					m.Content = append(m.Content, image())
				} else {
					m.Content = append(m.Content, &Text{Text: text()})
				}
			}
		case 3, 4, 5:
			m.Role, m.Content = Assistant, content(4)
			for range rapid.IntRange(0, 3).Draw(rt, "calls") {
				m.ToolCalls = append(m.ToolCalls, ToolCall{ID: id(), Name: name(), Arguments: args()})
			}
			if rapid.IntRange(0, 3).Draw(rt, "approval") == 0 {
				m.Role = Approval
			}
		case 6, 7:
			m.Role = Tool
			for range rapid.IntRange(0, 3).Draw(rt, "returns") {
				r := ToolReturn{ToolCallID: id(), Status: rapid.SampledFrom([]Status{Success, Failure}).Draw(rt, "status"), Text: text()}
				if rapid.IntRange(0, 3).Draw(rt, "pictures") == 0 {
					r.Text, r.Parts = "", []Part{&Text{Text: text()}, image()}
				}
				m.ToolReturns = append(m.ToolReturns, r)
			}
		case 8:
			if rapid.Bool().Draw(rt, "summary") {
				m.Role, m.Content = Summary, Texts(PackSummary("so far", testTime))
			} else {
				m.Role = Approval
				m.Approvals = []Verdict{&ToolApproval{ToolCallID: id(), Approve: rapid.Bool().Draw(rt, "ok"), Reason: "why"}, &ToolReturn{ToolCallID: id(), Status: Success, Text: "mine"}}
			}
		}
		out = append(out, m)
	}
	return out
}

var checkers = map[string]func(Request) error{
	"chat": checkChat, "responses": checkResponses, "anthropic": checkAnthropic, "gemini": checkGemini,
}

func dump(ms []Message) []byte {
	b, err := json.Marshal(ms)
	if err != nil {
		panic(err)
	}
	return b
}

// Whatever the messages are, no provider gets what it would refuse; converting
// changes nothing and gives the same twice.
func TestNothingIsProducedThatAProviderRefuses(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ms := anyMessages(rt)
		r := Request{Model: rapid.SampledFrom([]string{"m", "gpt-5", "gpt-oss-20b"}).Draw(rt, "asked"), Messages: ms}
		if rapid.Bool().Draw(rt, "tools") {
			r.Tools = []ToolSpec{{Name: "search", Parameters: raw(`{"properties":{"q":{"type":"string"}},"required":["q"]}`)}, {Name: "fs.read"}}
		}
		if rapid.Bool().Draw(rt, "limited") {
			r.MaxText = 5
		}
		before := dump(ms)
		for name, check := range checkers {
			if err := check(r); err != nil {
				rt.Fatalf("%s: %v\nfrom %s", name, err, before)
			}
		}
		if !bytes.Equal(before, dump(ms)) {
			rt.Fatalf("changed\n%s\n%s", before, dump(ms))
		}
		once := dump(Repair(ms))
		if twice := dump(Repair(Repair(ms))); !bytes.Equal(once, twice) {
			rt.Fatalf("repairing again changes\n%s\n%s", once, twice)
		}
	})
}

// The same for what a log gives.
func TestLogsConvert(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ms := whole(randomLog(rt, 80))
		for name, check := range checkers {
			if err := check(Request{Model: "m", Messages: ms}); err != nil {
				rt.Fatalf("%s: %v\nfrom %s", name, err, dump(ms))
			}
		}
	})
}

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
					say("thinks: %s %s %s", p.ID, p.plain(), p.Encrypted)
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
			say("result of %s: %s %s %d", r.ToolCallID, r.Status, strings.TrimPrefix(r.plain(), "Error: "), countImages(r.Parts))
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
				a.ToolCalls = append(a.ToolCalls, ToolCall{ID: id, Name: fmt.Sprint("tool", j), Arguments: fmt.Sprintf(`{"n":%d,"big":12345678901234567890}`, n)})
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

func TestToProviderAndBack(t *testing.T) {
	thinking := func(i int) []Part {
		return []Part{&Reasoning{Native: true, Text: fmt.Sprint("hm ", i), Signature: base64.StdEncoding.EncodeToString(fmt.Append(nil, "sig", i))}}
	}
	rapid.Check(t, func(rt *rapid.T) {
		check := func(what string, ms, back []Message, thoughts bool) {
			rt.Helper()
			want, got := meaning(ms, thoughts), meaning(back, thoughts)
			if !slices.Equal(want, got) {
				rt.Fatalf("%s\n got %q\nwant %q", what, got, want)
			}
		}
		ms := plainTalk(rt, thinking, true)
		back, err := FromOpenAIChatRequest(OpenAIChat(Request{Model: "m", Messages: ms}).Messages, "m")
		if err != nil {
			rt.Fatal(err)
		}
		check("chat", ms, back, true)

		a := Anthropic(Request{Model: "m", Messages: ms})
		if back, err = FromAnthropicRequest(a, "m"); err != nil {
			rt.Fatal(err)
		}
		check("anthropic", ms, back, true)

		summaries := plainTalk(rt, func(i int) []Part {
			return []Part{&SummarizedReasoning{ID: fmt.Sprint("rs_", i), Summary: []SummaryText{{Text: "hm"}}, Encrypted: fmt.Sprint("enc", i)}}
		}, true)
		if back, err = FromOpenAIResponsesRequest(OpenAIResponses(Request{Model: "m", Messages: summaries}).Input.OfInputItemList, "m"); err != nil {
			rt.Fatal(err)
		}
		check("responses", summaries, back, true)

		plain := plainTalk(rt, noThoughts, true)
		contents, config := Gemini(Request{Model: "m", Messages: plain})
		check("gemini", plain, FromGeminiRequest(contents, config, "m"), false)

		// Another model gets none of the reasoning, and the rest all the same.
		for _, other := range []Request{{Model: "other", Messages: ms}, {Model: "other", Messages: summaries}} {
			if back, err = FromAnthropicRequest(Anthropic(other), ""); err != nil {
				rt.Fatal(err)
			}
			check("foreign anthropic", other.Messages, back, false)
			if slices.ContainsFunc(meaning(back, true), func(s string) bool { return strings.HasPrefix(s, "thinks") }) {
				rt.Fatal("reasoning went to another model")
			}
			if back, err = FromOpenAIResponsesRequest(OpenAIResponses(other).Input.OfInputItemList, ""); err != nil {
				rt.Fatal(err)
			}
			check("foreign responses", other.Messages, back, false)
		}
	})
}
