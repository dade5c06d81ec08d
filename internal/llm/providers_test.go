package llm_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/anthropic"
	"github.com/parley-hq/parley/internal/llm/gemini"
	"github.com/parley-hq/parley/internal/llm/llmtest"
	"github.com/parley-hq/parley/internal/llm/openai"
)

// anyMessages draws lists of messages that no rule has seen: calls without
// results, results without calls, ids used twice, empty and odd content.
func anyMessages(rt *rapid.T) []llm.Message {
	text := func() string {
		return rapid.SampledFrom([]string{"", " ", "hello", "a\n\nb", "{\"x\":1}", "Grüße 你好", "trailing \n"}).Draw(rt, "text")
	}
	id := func() string {
		return rapid.SampledFrom([]string{"c1", "c2", "c3", "a call/with odd:signs", "x", strings.Repeat("long", 30), strings.Repeat("long", 30) + "2", ""}).Draw(rt, "id")
	}
	name := func() string {
		return rapid.SampledFrom([]string{"search", "fs.read", "ns/tool", "ns_tool", "1password__list", strings.Repeat("n", 150)}).Draw(rt, "name")
	}
	model := func() string { return rapid.SampledFrom([]string{"", "m", "other"}).Draw(rt, "model") }
	image := func() *llm.Image {
		return &llm.Image{Source: rapid.SampledFrom([]llm.ImageSource{
			{Type: llm.SourceURL, URL: "https://x/y.png"}, {Type: llm.SourceURL, URL: "file:///etc/passwd"}, {Type: llm.SourceURL, URL: "data:image/png;base64,QUJD"},
			{Type: llm.SourceBase64, MediaType: "image/png", Data: "QUJD"}, {Type: llm.SourceBase64, MediaType: "image/tiff", Data: "QUJD", Detail: "low"},
			{Type: llm.SourceURL, URL: "http://x/y.png"}, {Type: llm.SourceURL, URL: "data:image/svg+xml;base64,QUJD"}, {Type: llm.SourceBase64, MediaType: "image/gif", Data: "QUJD"},
			{Type: llm.SourceBase64, MediaType: "image/JPG", Data: "QUJD"}, {Type: llm.SourceBase64, MediaType: "image/png", Data: "not base64!"}, {Type: llm.SourceFile, FileID: "f1"}, {Type: llm.SourceFile, FileID: "f2", MediaType: "image/png", Data: "QUJD"},
		}).Draw(rt, "source")}
	}
	args := func() string {
		return rapid.SampledFrom([]string{"{}", `{"a":1}`, `{"a":"b`, "", "nonsense", `[1]`, `{"a":12345678901234567890}`}).Draw(rt, "args")
	}
	sig := base64.StdEncoding.EncodeToString([]byte("signed"))
	content := func(n int) []llm.Part {
		parts := []llm.Part{}
		for range rapid.IntRange(0, n).Draw(rt, "parts") {
			switch rapid.IntRange(0, 6).Draw(rt, "part") {
			case 0, 1:
				parts = append(parts, &llm.Text{Text: text(), Signature: rapid.SampledFrom([]string{"", "", sig}).Draw(rt, "sig")})
			case 2:
				parts = append(parts, &llm.Reasoning{Native: true, Text: text(), Signature: rapid.SampledFrom([]string{"", sig}).Draw(rt, "sig")})
			case 3:
				parts = append(parts, &llm.RedactedReasoning{Data: "secret"})
			case 4:
				parts = append(parts, &llm.SummarizedReasoning{ID: rapid.SampledFrom([]string{"rs_1", "rs_1", ""}).Draw(rt, "rs"), Summary: []llm.SummaryText{{Text: "s"}}, Encrypted: rapid.SampledFrom([]string{"", "enc"}).Draw(rt, "enc")})
			case 5:
				parts = append(parts, &llm.OmittedReasoning{})
			case 6:
				parts = append(parts, &llm.CallPart{ID: id(), Name: name(), Input: json.RawMessage(`{"p":1}`), Signature: rapid.SampledFrom([]string{"", sig}).Draw(rt, "sig")})
			}
		}
		return parts
	}
	var out []llm.Message
	for range rapid.IntRange(0, 12).Draw(rt, "messages") {
		m := llm.Message{Model: model(), Name: rapid.SampledFrom([]string{"", "Ann", "a name"}).Draw(rt, "who")}
		switch rapid.IntRange(0, 8).Draw(rt, "role") {
		case 0:
			m.Role, m.Content = llm.System, llm.Texts(text())
		case 1, 2:
			m.Role = llm.User
			for range rapid.IntRange(0, 3).Draw(rt, "said") {
				if rapid.Bool().Draw(rt, "image") {
					m.Content = append(m.Content, image())
				} else {
					m.Content = append(m.Content, &llm.Text{Text: text()})
				}
			}
		case 3, 4, 5:
			m.Role, m.Content = llm.Assistant, content(4)
			for range rapid.IntRange(0, 3).Draw(rt, "calls") {
				m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: id(), Name: name(), Arguments: args()})
			}
			if rapid.IntRange(0, 3).Draw(rt, "approval") == 0 {
				m.Role = llm.Approval
			}
		case 6, 7:
			m.Role = llm.Tool
			for range rapid.IntRange(0, 3).Draw(rt, "returns") {
				r := llm.ToolReturn{ToolCallID: id(), Status: rapid.SampledFrom([]llm.Status{llm.Success, llm.Failure}).Draw(rt, "status"), Text: text()}
				if rapid.IntRange(0, 3).Draw(rt, "pictures") == 0 {
					r.Text, r.Parts = "", []llm.Part{&llm.Text{Text: text()}, image()}
				}
				m.ToolReturns = append(m.ToolReturns, r)
			}
		case 8:
			if rapid.Bool().Draw(rt, "summary") {
				m.Role, m.Content = llm.Summary, llm.Texts(llm.PackSummary("so far", llm.TestTime))
			} else {
				m.Role = llm.Approval
				m.Approvals = []llm.Verdict{&llm.ToolApproval{ToolCallID: id(), Approve: rapid.Bool().Draw(rt, "ok"), Reason: "why"}, &llm.ToolReturn{ToolCallID: id(), Status: llm.Success, Text: "mine"}}
			}
		}
		out = append(out, m)
	}
	return out
}

var checkers = map[string]func(llm.Request) error{
	"chat":      func(r llm.Request) error { return llmtest.Chat(openai.Chat(r)) },
	"responses": func(r llm.Request) error { return llmtest.Responses(openai.Responses(r)) },
	"anthropic": func(r llm.Request) error { return llmtest.Anthropic(anthropic.Messages(r)) },
	"gemini": func(r llm.Request) error {
		return llmtest.Gemini(r.Model, gemini.Contents(r))
	},
}

// Whatever the messages are, no provider gets what it would refuse; converting
// changes nothing and gives the same twice.
func TestNothingIsProducedThatAProviderRefuses(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ms := anyMessages(rt)
		r := llm.Request{MaxTokens: rapid.SampledFrom([]int{0, 1, 4000}).Draw(rt, "most"), Model: rapid.SampledFrom([]string{"m", "gpt-5", "gpt-oss-20b", "models/gemini-3.1-pro"}).Draw(rt, "asked"), Messages: ms}
		if rapid.Bool().Draw(rt, "tools") {
			r.Tools = []llm.ToolSpec{
				{Name: "search", Parameters: json.RawMessage(`{"properties":{"q":{"type":"string"}},"required":["q"]}`)}, {Name: "fs.read"},
				{Name: "1password__list", Parameters: json.RawMessage(`{"type":"object"}`)},
				{Name: "find", Parameters: json.RawMessage(`{"type":["object","null"],"anyOf":[{"properties":{"a":{}}},{"required":["b"]}],"properties":null}`)},
			}
		}
		if rapid.Bool().Draw(rt, "limited") {
			r.MaxText = 5
		}
		before := llm.Dump(ms)
		for name, check := range checkers {
			if err := check(r); err != nil {
				rt.Fatalf("%s: %v\nfrom %s", name, err, before)
			}
		}
		if !bytes.Equal(before, llm.Dump(ms)) {
			rt.Fatalf("changed\n%s\n%s", before, llm.Dump(ms))
		}
		once := llm.Dump(llm.Repair(ms))
		if twice := llm.Dump(llm.Repair(llm.Repair(ms))); !bytes.Equal(once, twice) {
			rt.Fatalf("repairing again changes\n%s\n%s", once, twice)
		}
	})
}

// The same for what a log gives.
func TestLogsConvert(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ms := llm.RandomMessages(rt, 80)
		for name, check := range checkers {
			if err := check(llm.Request{Model: "m", Messages: ms}); err != nil {
				rt.Fatalf("%s: %v\nfrom %s", name, err, llm.Dump(ms))
			}
		}
	})
}

func TestToProviderAndBack(t *testing.T) {
	thinking := func(i int) []llm.Part {
		return []llm.Part{&llm.Reasoning{Native: true, Text: fmt.Sprint("hm ", i), Signature: base64.StdEncoding.EncodeToString(fmt.Append(nil, "sig", i))}}
	}
	// What a model is sent ends with what it is to answer.
	talk := func(rt *rapid.T, think func(i int) []llm.Part) []llm.Message {
		return append(llm.PlainTalk(rt, think, true), llm.Message{Role: llm.User, Content: llm.Texts("and now?")})
	}
	rapid.Check(t, func(rt *rapid.T) {
		check := func(what string, ms, back []llm.Message, thoughts bool) {
			rt.Helper()
			want, got := llm.Meaning(ms, thoughts), llm.Meaning(back, thoughts)
			if !slices.Equal(want, got) {
				rt.Fatalf("%s\n got %q\nwant %q", what, got, want)
			}
		}
		ms := talk(rt, thinking)
		back, err := openai.FromChatRequest(openai.Chat(llm.Request{Model: "m", Messages: ms}).Messages, "m")
		if err != nil {
			rt.Fatal(err)
		}
		check("chat", ms, back, true)

		a := anthropic.Messages(llm.Request{Model: "m", Messages: ms})
		if back, err = anthropic.FromRequest(a, "m"); err != nil {
			rt.Fatal(err)
		}
		check("anthropic", ms, back, true)

		summaries := talk(rt, func(i int) []llm.Part {
			return []llm.Part{&llm.SummarizedReasoning{ID: fmt.Sprint("rs_", i), Summary: []llm.SummaryText{{Text: "hm"}}, Encrypted: fmt.Sprint("enc", i)}}
		})
		if back, err = openai.FromResponsesRequest(openai.Responses(llm.Request{Model: "m", Messages: summaries}).Input.OfInputItemList, "m"); err != nil {
			rt.Fatal(err)
		}
		check("responses", summaries, back, true)

		// Another model gets none of the reasoning, and the rest all the same.
		for _, other := range []llm.Request{{Model: "other", Messages: ms}, {Model: "other", Messages: summaries}} {
			if back, err = anthropic.FromRequest(anthropic.Messages(other), ""); err != nil {
				rt.Fatal(err)
			}
			check("foreign anthropic", other.Messages, back, false)
			if slices.ContainsFunc(llm.Meaning(back, true), func(s string) bool { return strings.HasPrefix(s, "thinks") }) {
				rt.Fatal("reasoning went to another model")
			}
			if back, err = openai.FromResponsesRequest(openai.Responses(other).Input.OfInputItemList, ""); err != nil {
				rt.Fatal(err)
			}
			check("foreign responses", other.Messages, back, false)
		}
	})
}

// Whatever a request says, reading it ends, and what was read can be sent to
// every provider.
func FuzzReadRequests(f *testing.F) {
	f.Add([]byte(`[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"t"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}]},{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{"}}]},{"role":"tool","tool_call_id":"c","content":"r"}]`))
	f.Add([]byte(`[{"role":"user","content":[{"type":"input_text","text":"t"}]},{"type":"reasoning","id":"r","summary":[{"text":"s"}],"encrypted_content":"e"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"}]`))
	f.Add([]byte(`[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","is_error":true,"content":[{"type":"text","text":"x"}]}]}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var lists [][]llm.Message
		if ms, err := openai.ReadChat(b, "m"); err == nil {
			lists = append(lists, ms)
		}
		if ms, err := openai.ReadResponses(b, "m"); err == nil {
			lists = append(lists, ms)
		}
		if ms, err := anthropic.ReadMessages(nil, b, "m"); err == nil {
			lists = append(lists, ms)
		}
		for _, ms := range lists {
			for name, check := range checkers {
				if err := check(llm.Request{Model: "m", Messages: ms}); err != nil {
					t.Errorf("%s: %v\nfrom %s", name, err, llm.Dump(ms))
				}
			}
		}
	})
}
