package session

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/attachment"
)

func (w *testStore) parsed(text string) []chat.Draft {
	w.t.Helper()
	drafts, err := chat.ParseDrafts([]byte(text))
	if err != nil {
		w.t.Fatal(err)
	}
	return drafts
}

// Drafts with a different member order or different escapes are equal.
func TestRepeatedDraftMayBeSpelledDifferently(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	spellings := []string{
		`{"type":"user.message","client_id":"c","payload":{"text":"a < é","context":{"x":1,"y":[true,2.50]}}}`,
		`{"payload":{"context":{"y":[true,2.5],"x":1.0},"text":"a \u003c \u00e9"},"client_id":"c","type":"user.message"}`,
	}
	var first chat.Event
	for i, text := range append(spellings, spellings[0]) {
		if i == 2 {
			w.restart()
		}
		evs, err := w.Append(ctx, ann, id, w.parsed(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if i == 0 {
			first = evs[0]
		} else if evs[0].ID != first.ID {
			t.Fatalf("%s was stored again", text)
		}
	}
	_, err := w.Append(ctx, ann, id, w.parsed(`{"type":"user.message","client_id":"c","payload":{"text":"a < é","context":{"x":2,"y":[true,2.5]}}}`))
	w.wantCode(err, chat.Conflict)
	// A repeated Create is compared in the same way.
	n := chat.NewSession{ID: "m", Agent: "none", Metadata: json.RawMessage(`{"a":1,"b":"<"}`)}
	if _, made, err := w.Create(ctx, ann, n); err != nil || !made {
		t.Fatal(made, err)
	}
	n.Metadata = json.RawMessage(`{"b":"\u003c","a":1}`)
	if _, made, err := w.Create(ctx, ann, n); err != nil || made {
		t.Fatal(made, err)
	}
}

func TestPromptEndsAtTheEarlierOfTimeoutAndDeadline(t *testing.T) {
	w := newTestStore(t, Options{})
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w.now.Store(now.UnixMicro())
	id := w.begin("s", chat.NewSession{Agent: "demo"})
	in := func(d time.Duration) chat.At { return chat.AtOf(now.Add(d)) }
	bodies := func(timeout float64, deadline chat.At) []chat.Body {
		return []chat.Body{
			chat.AgentInputRequest{InputType: chat.InputText, Text: "?", Timeout: timeout, Deadline: deadline},
			chat.AgentApprovalRequest{Calls: []chat.ApprovalCall{{CallID: "c", Tool: "t"}}, Timeout: timeout, Deadline: deadline},
			chat.AgentPermissionRequest{Scopes: []string{"a"}, Timeout: timeout, Deadline: deadline},
		}
	}
	for _, x := range []struct {
		timeout        float64
		deadline, want chat.At
	}{
		{0, 0, 0}, {60, 0, in(time.Minute)}, {0, in(time.Hour), in(time.Hour)},
		{60, in(time.Hour), in(time.Minute)}, {60, in(time.Second), in(time.Second)},
	} {
		for _, b := range bodies(x.timeout, x.deadline) {
			request := w.ask(id, b)
			if p := w.state(id).Prompt(request); p.Deadline != x.want {
				t.Errorf("%s with timeout %v and deadline %s ends at %s, not %s", b.Type(), x.timeout, x.deadline, p.Deadline, x.want)
			}
		}
	}
	for _, bad := range []chat.At{in(0), in(-time.Hour), in(400 * 24 * time.Hour), -1} {
		for _, b := range bodies(0, bad) {
			_, err := w.Append(ctx, bot, id, []chat.Draft{chat.NewDraft(b)})
			w.wantCode(err, chat.Invalid)
		}
	}
	// Decoded from JSON; null means no deadline.
	for text, want := range map[string]chat.At{`"2026-01-02T04:04:05Z"`: in(time.Hour), `"2026-01-02T05:04:05+01:00"`: in(time.Hour), `null`: 0} {
		evs, err := w.Append(ctx, bot, id, w.parsed(`{"type":"agent.input_request","payload":{"text":"?","deadline":`+text+`}}`))
		if err != nil || evs[0].Body.(chat.AgentInputRequest).Deadline != want {
			t.Errorf("%s: %v %+v", text, err, evs)
		}
	}
	w.now.Store(now.Add(time.Hour).UnixMicro())
	if _, err := w.expire(ctx); err != nil {
		t.Fatal(err)
	}
	for _, p := range w.state(id).Prompts {
		if p.Deadline != 0 {
			t.Errorf("%s is open after its deadline", p.RequestID)
		}
	}
}

// keeper stores files in memory.
type keeper map[string]string

func (s keeper) put(_ context.Context, id chat.SessionID, path, mediaType string, body io.Reader, commit func(int64) error) error {
	b, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	s[fmt.Sprint(id, " ", mediaType)] = path + " " + string(b)
	return commit(int64(len(b)))
}

func TestLargeDataBecomesAFile(t *testing.T) {
	large, picture := strings.Repeat("x<", attachment.MaxInline/2), strings.Repeat("\x00\xff", attachment.MaxInline/2)
	link := "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte(picture))
	for _, x := range []struct{ typ, payload, media, content, rest string }{
		{"agent.artifact", `{"type":"html","title":"T","mine":7,"data":"` + large + `"}`, "text/html; charset=utf-8", large, `"mine":7`},
		{"agent.artifact", `{"artifact_type":"table","content":["` + large + `"]}`, "application/json", `["` + large + `"]`, `"artifact_type":"table"`},
		{"agent.artifact", `{"type":"image","data":"` + link + `"}`, "image/png", picture, `"type":"image"`},
		{"agent.artifact", `{"type":"code","media_type":"text/x-go","data":"` + large + `"}`, "text/x-go", large, `"type":"code"`},
		{"user.message", `{"text":"look","content":[{"type":"text","text":"a"},{"type":"image","url":"` + link + `","name":"n"}]}`, "image/png", picture, `"name":"n"`},
	} {
		kept := keeper{}
		w := newTestStore(t, Options{Store: kept.put})
		id := w.begin("s", chat.NewSession{Agent: "demo"})
		text := `{"type":"` + x.typ + `","client_id":"c","payload":` + x.payload + `}`
		who := bot
		if x.typ == "user.message" {
			who = ann
		}
		evs, err := w.Append(ctx, who, id, w.parsed(text))
		if err != nil {
			t.Fatal(err)
		}
		e := evs[0]
		if len(e.Payload) > 1000 || !strings.Contains(string(e.Payload), x.rest) {
			t.Errorf("%s: the event has %d bytes: %.200s", x.typ, len(e.Payload), e.Payload)
		}
		var path string
		switch b := e.Body.(type) {
		case chat.AgentArtifact:
			path = b.Path
			if b.Size != int64(len(x.content)) || b.MediaType != x.media || b.Data != nil {
				t.Errorf("%+v", b)
			}
		case chat.UserMessage:
			path = b.Content[1].Path
			if b.Content[1].URL != "" || b.Content[0].Text != "a" {
				t.Errorf("%+v", b)
			}
		}
		if got := kept["s "+x.media]; path == "" || got != path+" "+x.content {
			t.Errorf("%s: the file %q is not what was sent: %.100s", x.typ, path, got)
		}
		// A repeated draft gives the same event; other data is a conflict.
		again, err := w.Append(ctx, who, id, w.parsed(text))
		if err != nil || again[0].ID != e.ID {
			t.Errorf("%s: %v", x.typ, err)
		}
		_, err = w.Append(ctx, who, id, w.parsed(strings.Replace(text, x.payload, `{"type":"html","text":"other","data":"other"}`, 1)))
		w.wantCode(err, chat.Conflict)
	}
}

func TestDataIsStoredOnlyForCallersThatMayAppend(t *testing.T) {
	kept := keeper{}
	w := newTestStore(t, Options{Store: kept.put})
	id := w.begin("s", chat.NewSession{Agent: "demo", Members: []chat.Member{{Actor: bob.Actor, Role: chat.Viewer}}})
	large := strings.Repeat("x", attachment.MaxInline+1)
	for _, c := range []chat.Caller{bob, ann} { // a viewer, and a person without the scope agent
		_, err := w.Append(ctx, c, id, w.parsed(`{"type":"agent.artifact","payload":{"type":"html","data":"`+large+`"}}`))
		w.wantCode(err, chat.Denied)
	}
	_, err := w.Append(ctx, bot, id, w.parsed(`{"type":"agent.artifact","payload":{"type":"html","path":"out/a.html","data":"`+large+`"}}`))
	w.wantCode(err, chat.TooLarge)
	if len(kept) != 0 {
		t.Errorf("kept: %d files", len(kept))
	}
}

func TestEmptyPolicyIsRefused(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	empty := chat.Policy("")
	_, err := w.Update(ctx, ann, id, chat.SessionUpdated{Policy: &empty})
	w.wantCode(err, chat.Invalid)
	if !strings.Contains(err.Error(), "queue, steer, interrupt") {
		t.Error(err)
	}
}
