package vertesia

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// eventWith is an event on a workstream.
func eventWith(body chat.Body, line string) *chat.Event {
	d := chat.NewDraft(body)
	if err := d.Normalize(); err != nil {
		panic(err)
	}
	return &chat.Event{Session: "s-1", Seq: 7, At: 1794704021301123, Type: d.Type, Body: body, Payload: d.Payload, Workstream: line, ClientID: "c-1"}
}

// all has one event of each type, with as few fields as possible.
var all = []chat.Body{
	chat.SessionStarted{Agent: "demo"}, chat.SessionUpdated{}, chat.SessionCompleted{}, chat.SessionCompleted{Outcome: outcomeCancelled}, chat.SessionFailed{},
	chat.TurnStarted{}, chat.TurnCompleted{Outcome: chat.Done}, chat.TurnCompleted{Outcome: chat.Stopped}, chat.TurnCompleted{Outcome: chat.Failed},
	chat.TurnCompleted{Outcome: chat.Interrupted}, chat.TurnInput{}, chat.TurnResumed{Attempt: 2}, chat.TurnStopRequested{},
	chat.UserMessage{Text: "x"}, chat.UserMessage{Content: []chat.Part{{Type: "image", Path: "files/x.png"}}}, chat.UserMessageWithdrawn{Sequence: 1},
	chat.UserInputResponse{RequestID: "r"}, chat.UserApprovalResponse{RequestID: "r"}, chat.UserPermissionResponse{RequestID: "r"},
	chat.AgentThinking{Text: "x", Block: "b1"}, chat.AgentThinking{Redacted: "…"}, chat.AgentText{Text: "x", Block: "b1"}, chat.AgentText{Text: "x"}, chat.AgentText{},
	chat.AgentToolCall{Tool: "t"}, chat.AgentToolResult{}, chat.AgentToolError{}, chat.AgentToolProgress{Done: 1}, chat.AgentToolProgress{BatchID: "b", Done: 2, Total: 2},
	chat.AgentPlan{}, chat.AgentStatus{}, chat.AgentUsage{}, chat.AgentError{}, chat.AgentError{Recoverable: true}, chat.AgentTrace{TraceID: "t"},
	chat.AgentArtifact{ArtifactType: "table"}, chat.AgentShare{}, chat.FileUploaded{Path: "p"}, chat.FileRemoved{Path: "p"},
	chat.AgentInputRequest{InputType: chat.InputText, Text: "?"}, chat.AgentInputRequest{InputType: chat.InputNotification, Text: "!"},
	chat.AgentInputRequest{InputType: chat.InputOAuth, Text: "?", URL: "https://example.com"},
	chat.AgentApprovalRequest{RequestID: "r", Calls: []chat.ApprovalCall{{CallID: "c", Tool: "t"}}}, chat.AgentPermissionRequest{RequestID: "r", Scopes: []string{"s"}},
	chat.PromptClosed{RequestID: "r", Reason: chat.Expired}, chat.PromptClosed{RequestID: "r", Reason: chat.Withdrawn},
	chat.WorkstreamLaunched{ID: "w1"}, chat.WorkstreamProgress{ID: "w1"}, chat.WorkstreamWarning{ID: "w1", Share: 0.75}, chat.WorkstreamSteered{ID: "w1", Command: "add_instruction"},
	chat.WorkstreamMessage{ID: "w1", Text: "x"}, chat.WorkstreamCanceling{ID: "w1"}, chat.WorkstreamCompleted{ID: "w1"}, chat.WorkstreamFailed{ID: "w1"},
	chat.WorkstreamTimeout{ID: "w1"}, chat.WorkstreamCanceled{ID: "w1"},
}

// The UI keeps the messages of every event type, each message has its own time, and
// no event of a workstream closes the stream of the run.
func TestEveryEventTypeHasMessagesThatTheUIKeeps(t *testing.T) {
	covered := map[string]bool{}
	for _, body := range all {
		covered[body.Type()] = true
		for _, line := range []string{"", "w9"} {
			e := eventWith(body, line)
			list := messagesOf(e)
			if len(list) > core.AtStep {
				t.Errorf("%s becomes %d messages", e.Type, len(list))
			}
			if hidden[e.Type] && len(list) > 0 {
				t.Errorf("%s is hidden and has messages", e.Type)
			}
			for i, m := range list {
				b := m.append(nil, e.At, m.workstream)
				if line == "" || !strings.HasPrefix(e.Type, "session.") { // those stand on the main line only
					checkSchema(t, b)
				}
				c, _, err := parseMessage(b)
				if err != nil {
					t.Errorf("%s: %s: %v", e.Type, b, err)
					continue
				}
				if want := float64(e.At+chat.At(i)) / 1000; c.TS != want {
					t.Errorf("%s: message %d at %v, want %v", e.Type, i, c.TS, want)
				}
				var d details
				if c.D != nil && json.Unmarshal(c.D, &d) != nil {
					t.Errorf("%s: details %s", e.Type, c.D)
				}
				switch {
				case c.M != "", c.T == Complete, c.T == Idle, c.T == Terminated, c.T == RequestInput, c.T == System && d.SystemType != "":
				case c.T == Update && d.Class != "":
				default:
					t.Errorf("%s: the UI would drop %s", e.Type, b)
				}
				if child := c.W != "" || line != ""; child && (c.T == Terminated || c.T == Complete && c.W == "") && !strings.HasPrefix(e.Type, "session.") {
					t.Errorf("%s on line %q closes the stream: %s", e.Type, line, b)
				}
			}
		}
	}
	for name := range chat.Kinds() {
		if !covered[name] {
			t.Errorf("%s is not looked at", name)
		}
	}
}

// The stream of a workstream as a run ends when the workstream ends.
func TestWorkstreamAsRunEnds(t *testing.T) {
	c := codingOf(asJSON, "w1")
	for body, want := range map[chat.Body][]Type{
		chat.AgentText{Text: "of another"}: nil,
		chat.WorkstreamProgress{ID: "w1"}:  {Update},
		chat.WorkstreamProgress{ID: "w2"}:  nil,
		chat.WorkstreamCanceling{ID: "w1"}: {Update},
	} {
		if got := typesOf(c.messages(eventWith(body, ""))); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", body.Type(), got, want)
		}
	}
	for _, end := range []struct {
		body chat.Body
		want []Type
	}{
		{chat.WorkstreamCompleted{ID: "w1"}, []Type{Complete}}, {chat.WorkstreamFailed{ID: "w1"}, []Type{Error, Terminated}},
		{chat.WorkstreamTimeout{ID: "w1"}, []Type{Warning, Terminated}}, {chat.WorkstreamCanceled{ID: "w1"}, []Type{Update, Terminated}},
	} {
		if got := typesOf(c.messages(eventWith(end.body, ""))); fmt.Sprint(got) != fmt.Sprint(end.want) {
			t.Errorf("%s: %v, want %v", end.body.Type(), got, end.want)
		}
	}
	if got := typesOf(c.messages(eventWith(chat.AgentText{Text: "its own"}, "w1"))); fmt.Sprint(got) != fmt.Sprint([]Type{Answer}) {
		t.Errorf("%v", got)
	}
}

// Pieces that wait together are joined into one chunk, up to a limit. The hub joins them.
func TestChunksAreBounded(t *testing.T) {
	var g core.Grouper = codingOf(asSSE, "")
	if n := g.Group(); n != 200 {
		t.Errorf("chunks are joined up to %d characters", n)
	}
	if _, ok := any(packed{codingOf(asSSE, "")}).(core.Grouper); !ok {
		t.Error("compressed ones are not")
	}
}

func typesOf(list []message) (types []Type) {
	for _, m := range list {
		types = append(types, m.t)
	}
	return types
}

// Only messages that were posted in this protocol come back unchanged.
func TestOnlyPostedMessagesComeBackUnchanged(t *testing.T) {
	e := eventWith(chat.AgentText{Text: "x"}, "")
	e.Payload = json.RawMessage(`{"text":"x","vertesia":{"t":11,"m":"ended"}}`)
	if list := messagesOf(e); len(list) != 1 || list[0].t != Answer {
		t.Errorf("%+v", list)
	}
	e.Via = via
	if list := messagesOf(e); len(list) != 1 || list[0].t != Terminated || list[0].text != "ended" {
		t.Errorf("%+v", list)
	}
}

// A chunk never comes after the message that replaces it, and previews of a finished
// block are refused.
func TestChunksNeverFollowTheirMessage(t *testing.T) {
	w := newServer(t, setup{})
	var run struct{ ID string }
	w.ok("POST", "/api/v1/agents/record", `{"interaction":"mine"}`, &run)
	s := w.stream(run.ID, "")
	post := func(body string) int {
		code, _, _ := w.Call("POST", "/api/v1/agents/"+run.ID+"/updates", body)
		return code
	}
	for _, body := range []string{
		`{"type":12,"message":"one ","details":{"activity_id":"a"}}`, `{"type":12,"message":"two","details":{"activity_id":"a"}}`,
		`{"type":7,"message":"one two","details":{"activity_id":"a"}}`,
	} {
		if code := post(body); code != http.StatusOK {
			t.Fatalf("%s: %d", body, code)
		}
		s.until(func(m compactMessage) bool { return isChunk(m) || m.T == Answer }) // a later reader gets fewer chunks
	}
	w.ok("POST", "/api/v1/agents/"+run.ID+"/updates", `{"type":4,"message":"done"}`, nil)
	s.until(is(Complete))
	open := map[string]string{}
	for _, m := range s.seen {
		var d struct {
			Activity string `json:"activity_id"`
		}
		_ = json.Unmarshal(m.D, &d)
		switch {
		case isChunk(m):
			open[m.I] += m.M
		case m.T == Answer:
			if open[d.Activity] != "one two" {
				t.Errorf("%q was shown before the answer", open[d.Activity])
			}
			delete(open, d.Activity)
		}
	}
	if len(open) > 0 {
		t.Errorf("text is left over: %v", open)
	}
}

// Cached tokens are part of the prompt already.
func TestCachedTokensAreCountedOnce(t *testing.T) {
	used := chat.Usage{InputTokens: 125, OutputTokens: 7, CacheCreationTokens: 20, CacheReadTokens: 100}
	const want = `"token_usage":{"prompt":125,"result":7,"total":132,"prompt_cached":100}`
	for _, body := range []chat.Body{chat.AgentUsage{Usage: used}, chat.TurnCompleted{Outcome: chat.Done, Usage: &used}} {
		list := messagesOf(eventWith(body, ""))
		if len(list) != 1 || !strings.Contains(string(list[0].d), want) {
			t.Errorf("%s has %s", body.Type(), list[0].d)
		}
	}
}
