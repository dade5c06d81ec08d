package letta

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/letta/stream"
	"github.com/parley-hq/parley/internal/llm"
)

// mixedTools calls a tool of its own and one of the client in one step. Its own returns before or after the client's.
type mixedTools struct{ late bool }

func (a mixedTools) Answer(ctx context.Context, t *agent.Turn) error {
	own := chat.AgentToolResult{CallID: "own", Tool: "search", Result: json.RawMessage(`"found"`)}
	step := []chat.Body{
		chat.AgentToolCall{CallID: "own", Tool: "search", Params: json.RawMessage(`{}`)},
		chat.AgentApprovalRequest{Calls: []chat.ApprovalCall{{CallID: "theirs", Tool: "clipboard", Params: json.RawMessage(`{}`), Client: true}}},
		chat.AgentUsage{Model: "m", Usage: chat.Usage{InputTokens: 7}},
	}
	if !a.late {
		step = append(step, own)
	}
	stored, err := t.AppendAll(ctx, step...)
	if err != nil {
		return err
	}
	answer, err := t.Answer(ctx, stored[1].Body.(chat.AgentApprovalRequest).RequestID)
	if err != nil {
		return err
	}
	d := answer.(chat.UserApprovalResponse).Decisions[0]
	end := []chat.Body{
		chat.AgentToolCall{CallID: "theirs", Tool: "clipboard", Params: json.RawMessage(`{}`)},
		chat.AgentToolResult{CallID: "theirs", Tool: "clipboard", Result: d.Result},
	}
	if a.late {
		end = append(end, own)
	}
	_, err = t.AppendAll(ctx, append(end, chat.AgentText{Text: "Done.", Final: true})...)
	return err
}

// returned lists the tool returns of messages, one message per line.
func returned(t *testing.T, list []object) string {
	t.Helper()
	var out []string
	names := map[string]bool{}
	for _, m := range list {
		if id := fmt.Sprint(m["message_type"], m["id"], m["otid"]); m["id"] != nil && names[id] {
			t.Errorf("two messages are %s", id)
		} else {
			names[id] = true
		}
		if m["message_type"] != stream.KindToolReturn {
			continue
		}
		line := ""
		for _, r := range m["tool_returns"].([]any) {
			r := r.(object)
			line += fmt.Sprint(r["tool_call_id"], "=", r["tool_return"], " ")
		}
		out = append(out, strings.TrimSpace(line))
	}
	return strings.Join(out, "\n")
}

// The return of a server's tool that was called together with a client's tool is in the response to the client's return.
func TestReturnOfAServerToolBesideAClientTool(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		agent mixedTools
		want  string
	}{
		"before the answer": {mixedTools{}, "own=found\ntheirs=copied"},
		"after the answer":  {mixedTools{late: true}, "theirs=copied own=found"},
	} {
		for _, stream := range []string{"", `,"streaming":true,"include_pings":false`, `,"streaming":true,"stream_tokens":true,"include_pings":false`} {
			t.Run(name+stream, func(t *testing.T) {
				t.Parallel()
				w := newTestServer(t, setup{agents: map[string]agent.Agent{"mixed": c.agent}})
				a := w.agent(`{"model":"parley/mixed"}`)
				path := "/v1/agents/" + a + "/messages"
				send := func(body string) (list []object) {
					if stream == "" {
						for _, m := range get[object](w, "POST", path, body)["messages"].([]any) {
							list = append(list, m.(object))
						}
						return list
					}
					code, frames := w.do("POST", path, body)
					if code != 200 {
						t.Fatal(code, frames)
					}
					for _, line := range strings.Split(frames, "\n") {
						var m object
						if data, ok := strings.CutPrefix(line, "data: {"); ok && json.Unmarshal([]byte("{"+data), &m) == nil {
							list = append(list, m)
						}
					}
					return list
				}
				if got := returned(t, send(message("go", stream))); got != "" {
					t.Errorf("the question comes with %q", got)
				}
				got := send(`{"messages":[{"type":"tool_return","tool_returns":[{"tool_call_id":"theirs","tool_return":"copied","status":"success"}]}]` + stream + `}`)
				if r := returned(t, got); r != c.want {
					t.Errorf("the answer has the returns\n%s\nwant\n%s", r, c.want)
				}
				if listed := returned(t, get[[]object](w, "GET", path+"?order=asc", "")); listed != c.want {
					t.Errorf("the list has the returns\n%s", listed)
				}
			})
		}
	}
}

// The stream of a step with several calls is resumed after every frame.
func TestParallelStepsAreResumed(t *testing.T) {
	t.Parallel()
	for _, tokens := range []string{"false", "true"} {
		t.Run("tokens="+tokens, func(t *testing.T) {
			t.Parallel()
			w := newTestServer(t, setup{})
			a := w.agent("")
			path := "/v1/agents/" + a + "/messages"
			more := `,"streaming":true,"stream_tokens":` + tokens
			asked := w.open(path, message("/tools one; two? {}; three; four? {}", more)).rest()
			var calls []string
			for _, d := range []string{"c3-tools-2", "c3-tools-4"} {
				calls = append(calls, fmt.Sprintf(`{"tool_call_id":%q,"approve":%t}`, d, d == "c3-tools-2"))
			}
			w.open(path, `{"messages":[{"type":"approval","approvals":[`+strings.Join(calls, ",")+`]}]`+more+`}`).rest()
			run := "/v1/runs/" + asked[0].Run + "/stream"
			whole := w.open(run, `{"include_pings":false}`).rest()
			want, last := assemble(whole), int64(0)
			if !strings.Contains(want, "four was not allowed") {
				t.Fatal(want)
			}
			for i, m := range whole {
				if m.Seq <= last {
					t.Errorf("frame %d has position %d after %d", i, m.Seq, last)
				}
				last = m.Seq
				rest := w.open(run, fmt.Sprintf(`{"starting_after":%d,"include_pings":false}`, m.Seq)).rest()
				if got := assemble(append(append([]frame{}, whole[:i+1]...), rest...)); got != want {
					t.Errorf("cut after frame %d:\n%s\nwant\n%s", i, got, want)
				}
			}
		})
	}
}

// compactingAgent makes a summary in its turn, as agents of models with a small context do.
type compactingAgent struct{}

func (compactingAgent) Answer(ctx context.Context, t *agent.Turn) error {
	m := llm.NewSummary("We spoke of tea.", &llm.Compaction{Trigger: "context_window", ContextWindow: 1000, MessagesBefore: 9, MessagesAfter: 2, TokensBefore: 900}, t.Trigger.At.Time())
	_, err := t.AppendAll(ctx, chat.AgentText{Text: "A moment. "}, chat.Unknown{Name: llm.ImportedType, Payload: m.AppendJSON(nil)}, chat.AgentText{Text: "Tea.", Final: true})
	return err
}

// Summaries of the run are shown to clients that ask for them, and not to others.
func TestCompactionMessages(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, setup{agents: map[string]agent.Agent{"s": compactingAgent{}}})
	a := w.agent(`{"model":"parley/s"}`)
	path := "/v1/agents/" + a + "/messages"
	const (
		event   = `"message_type":"event_message","otid":null`
		data    = `"event_type":"compaction","event_data":{"trigger":"context_window","context_token_estimate":900,"context_window":1000}`
		summary = `"summary":"We spoke of tea.","compaction_stats":{"trigger":"context_window","context_tokens_before":900,"context_tokens_after":null,"context_window":1000,"messages_count_before":9,"messages_count_after":2}`
	)
	run := ""
	for _, more := range []string{"", `,"streaming":true`, `,"streaming":true,"stream_tokens":true`} {
		if _, body := w.do("POST", path, message("go", more)); strings.Contains(body, "We spoke") || !strings.Contains(body, "Tea.") {
			t.Errorf("%s, not asked for: %s", more, body)
		}
		_, body := w.do("POST", path, message("go", more+`,"include_compaction_messages":true`))
		at := 0
		for _, part := range []string{"A moment. ", event, data, summary, "Tea."} {
			next := strings.Index(body[at:], part)
			if next < 0 {
				t.Errorf("%s: there is no %s after %d in %s", more, part, at, body)
				break
			}
			at += next
		}
		if n := strings.Count(body, summary); n != 1 {
			t.Errorf("%s: the summary is shown %d times", more, n)
		}
		_, rest, _ := strings.Cut(body, `"run_id":"`)
		run, _, _ = strings.Cut(rest, `"`)
	}
	// A resumed stream shows them too.
	if _, body := w.do("POST", "/v1/runs/"+run+"/stream", `{}`); !strings.Contains(body, summary) {
		t.Errorf("resumed: %s", body)
	}
	if _, body := w.do("GET", path+"?include_compaction_messages=true", ""); !strings.Contains(body, summary) || strings.Contains(body, event) {
		t.Errorf("listed: %s", body)
	}
}
