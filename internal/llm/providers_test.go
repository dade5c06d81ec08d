package llm_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/anthropic"
	"github.com/parley-hq/parley/internal/llm/gemini"
	"github.com/parley-hq/parley/internal/llm/openai"
	"github.com/parley-hq/parley/internal/modeltest"
)

// anyMessages draws arbitrary messages: calls without results, results without calls,
// repeated ids, empty content.
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
	"chat":      func(r llm.Request) error { return checkChat(openai.Chat(r)) },
	"responses": func(r llm.Request) error { return checkResponses(openai.Responses(r)) },
	"anthropic": func(r llm.Request) error { return checkAnthropic(anthropic.Messages(r)) },
	"gemini": func(r llm.Request) error {
		return checkGemini(r.Model, gemini.Contents(r))
	},
}

// No provider gets a request that it would refuse. A conversion is deterministic and does
// not change its argument.
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

// The same holds for messages of a log.
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

// A request has the texts, calls and results of the messages. The scripted model reads
// the requests.
func TestRequestsKeepTheMeaning(t *testing.T) {
	requests := map[string]func(r llm.Request) any{
		"/chat/completions":        func(r llm.Request) any { return openai.Chat(r) },
		"/responses":               func(r llm.Request) any { return openai.Responses(r) },
		"/messages":                func(r llm.Request) any { return anthropic.Messages(r) },
		"/m:streamGenerateContent": func(r llm.Request) any { return gemini.Contents(r) },
	}
	thinking := func(i int) []llm.Part {
		return []llm.Part{
			&llm.Reasoning{Native: true, Text: fmt.Sprint("hm ", i), Signature: base64.StdEncoding.EncodeToString(fmt.Append(nil, "sig", i))},
			&llm.SummarizedReasoning{ID: fmt.Sprint("rs_", i), Summary: []llm.SummaryText{{Text: "hm"}}, Encrypted: fmt.Sprint("enc", i)},
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		// A request ends with the message to answer.
		ms := append(llm.PlainTalk(rt, thinking, true), llm.Message{Role: llm.User, Content: llm.Texts("and now?")})
		want := meaning(ms)
		for path, convert := range requests {
			for _, name := range []string{"m", "other"} {
				body, err := json.Marshal(convert(llm.Request{Model: name, Messages: ms}))
				if err != nil {
					rt.Fatal(err)
				}
				model := &modeltest.Server{Script: func(modeltest.Request) modeltest.Reply { return modeltest.Reply{Text: "x"} }}
				model.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", path, bytes.NewReader(body)))
				if len(model.Requests()) != 1 {
					rt.Fatalf("%s cannot be read: %s", path, body)
				}
				request := model.Requests()[0]
				if got := meaningOf(&request); !slices.Equal(want, got) {
					rt.Fatalf("%s\n got %q\nwant %q\nin %s", path, got, want, body)
				}
				n := bytes.Count(body, []byte("QUJD"))
				if images := countImages(ms); n != images {
					rt.Fatalf("%s: %d of %d images", path, n, images)
				}
				if hidden := bytes.Contains(body, []byte("enc0")) || bytes.Contains(body, []byte("c2lnM")) || bytes.Contains(body, []byte("hm 0")); hidden == (name == "other") {
					rt.Fatalf("reasoning of model m for %s: %v in %s", name, hidden, body)
				}
			}
		}
	})
}

// meaning lists what a request must contain: texts with their roles, calls with their
// arguments, results.
func meaning(ms []llm.Message) []string {
	var out []string
	for i := range ms {
		m := &ms[i]
		if text := m.PlainText(); text != "" {
			out = append(out, string(m.Role)+": "+text)
		}
		for _, c := range m.ToolCalls {
			out = append(out, "call "+c.ID+" "+c.Name+" "+c.Arguments)
		}
		for _, r := range m.ToolReturns {
			out = append(out, "result of "+r.ToolCallID+": "+r.Text)
		}
	}
	return out
}

var resultText = regexp.MustCompile(`result \d+ \d+`)

// meaningOf lists the same for a request, as the scripted model reads it.
func meaningOf(r *modeltest.Request) []string {
	out := []string{"system: " + r.System}
	for _, m := range r.Messages {
		if m.Text != "" {
			out = append(out, m.Role+": "+m.Text)
		}
		for _, c := range m.Calls {
			out = append(out, "call "+c.ID+" "+c.Name+" "+c.Args)
		}
		for _, r := range m.Results {
			out = append(out, "result of "+r.ID+": "+resultText.FindString(r.Text))
		}
	}
	return out
}

func countImages(ms []llm.Message) (n int) {
	for _, m := range ms {
		for _, p := range m.Content {
			if _, ok := p.(*llm.Image); ok {
				n++
			}
		}
	}
	return n
}
