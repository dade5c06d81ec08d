package nemo

import (
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// The user becomes part of the actor, the version is answered, other keys are kept, secrets are not.
func TestFieldsOfAMessage(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("")
	c.send(`{"type":"user_message","schema_type":"chat","id":"m1","conversation_id":"c1","schema_version":"1.0.0","flavour":{"a":1},
		"user":{"name":"Ada","email":"ada@example.com","team":"x"},"security":{"api_key":"sesame-secret","token":"sesame-token"},
		"Security":{"token":"sesame-too"},"ſecurity":{"token":"sesame-as-well"},
		"content":{"messages":[{"role":"user","content":"hi"}]}}`)
	for _, f := range c.readTurn() {
		if f.Type != typeTrace && f.Version != "1.0.0" {
			t.Errorf("no version: %s", f.raw)
		}
	}
	facts, _, err := w.Sessions.Read(t.Context(), chat.Trusted, "c1", chat.Range{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range facts {
		if strings.Contains(string(f.JSON), "sesame") {
			t.Errorf("a secret is stored: %s", f.JSON)
		}
		e, _ := f.Event()
		if b, ok := e.Body.(chat.UserMessage); ok {
			if e.Actor != (chat.Actor{Kind: chat.User, ID: "local", Name: "Ada", Email: "ada@example.com", Info: `{"team":"x"}`}) || e.Via != via {
				t.Errorf("actor %+v via %s", e.Actor, e.Via)
			}
			about := contextOf(b)
			if string(about.Extra["flavour"]) != `{"a":1}` {
				t.Errorf("context %s", b.Context)
			}
		}
	}
	if s := fmt.Sprintf("%v %+v %#v", security{Token: "sesame"}, security{Token: "sesame"}, security{Token: "sesame"}); strings.Contains(s, "sesame") {
		t.Errorf("a secret is printed: %s", s)
	}
}

// The user of an answer becomes part of the actor, as in a message.
func TestUserOfAnAnswer(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("")
	c.say("c1", "m1", "/ask text")
	c.prompt()
	c.send(`{"type":"user_interaction_message","id":"a1","conversation_id":"c1","parent_id":"m1","user":{"name":"Grace","email":"default","rank":{"navy":1}},
		"content":{"messages":[{"role":"user","content":"x"}]}}`)
	c.readTurn()
	facts, _, err := w.Sessions.Read(t.Context(), chat.Trusted, "c1", chat.Range{Types: []string{"user.input_response"}})
	if err != nil || len(facts) != 1 {
		t.Fatal(err, len(facts))
	}
	if e, _ := facts[0].Event(); e.Actor != (chat.Actor{Kind: chat.User, ID: "local", Name: "Grace", Info: `{"rank":{"navy":1}}`}) {
		t.Errorf("actor %+v", e.Actor)
	}
}

// Attachments are stored with the message, large ones as artifacts.
func TestAttachments(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("")
	large, smallData := strings.Repeat("wave", 20_000), "tiny"
	c.send(fmt.Sprintf(`{"type":"user_message","schema_type":"chat","id":"m1","conversation_id":"c1","content":{"messages":[{"role":"user","content":[
		{"type":"text","text":"look"},
		{"type":"image_url","image_url":{"url":"data:image/png;base64,%s","detail":"low"}},
		{"type":"image_url","image_url":{"url":"https://example.com/cat.png"}},
		{"type":"input_audio","input_audio":{"data":%q,"format":"wav"}},
		{"type":"video_url","video_url":{"url":"https://example.com/cat.mp4"}}]}]}}`,
		base64.StdEncoding.EncodeToString([]byte(smallData)), base64.StdEncoding.EncodeToString([]byte(large))))
	if got := textOf(c.readTurn()); got != "You said: look" {
		t.Errorf("got %q", got)
	}
	facts, _, err := w.Sessions.Read(t.Context(), chat.Trusted, "c1", chat.Range{Types: []string{"user.message"}})
	if err != nil || len(facts) != 1 {
		t.Fatal(err, len(facts))
	}
	e, _ := facts[0].Event()
	parts := e.Body.(chat.UserMessage).Content
	if len(parts) != 5 {
		t.Fatalf("parts %+v", parts)
	}
	if parts[1].Type != "image" || parts[1].URL != "data:image/png;base64,dGlueQ==" || parts[1].Detail != "low" || parts[1].MediaType != "image/png" {
		t.Errorf("small image %+v", parts[1])
	}
	if parts[2].URL != "https://example.com/cat.png" || parts[4].Type != "video" {
		t.Errorf("links %+v %+v", parts[2], parts[4])
	}
	if parts[3].Type != "audio" || parts[3].Path == "" || parts[3].URL != "" || parts[3].Format != "wav" {
		t.Fatalf("large sound %+v", parts[3])
	}
	f, info, err := w.Files.Local.Get(t.Context(), "c1", parts[3].Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); err != nil || string(b) != large || info.MediaType != "audio/wav" {
		t.Errorf("the artifact has %d bytes of %s (%v)", len(b), info.MediaType, err)
	}
}

// Only the last user message is new; the messages before it are stored in a new conversation and ignored in an old one.
func TestHistory(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("")
	history := `{"type":"user_message","schema_type":"chat","id":%q,"conversation_id":"c1","content":{"messages":[
		{"role":"system","content":"be brief"},{"role":"user","content":[{"type":"text","text":"Hello, how are you?"}]},
		{"role":"assistant","content":[{"type":"text","text":"im good"}]},{"role":"user","content":[{"type":"text","text":%q}]}]}}`
	c.send(fmt.Sprintf(history, "m1", "one"))
	if got := textOf(c.readTurn()); got != "You said: one" {
		t.Errorf("got %q", got)
	}
	c.send(fmt.Sprintf(history, "m2", "two"))
	if got := textOf(c.readTurn()); got != "You said: two" {
		t.Errorf("got %q", got)
	}
	facts, _, err := w.Sessions.Read(t.Context(), chat.Trusted, "c1", chat.Range{Types: []string{"user.message", "agent.text"}})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, f := range facts {
		e, _ := f.Event()
		switch b := e.Body.(type) {
		case chat.UserMessage:
			said = append(said, "> "+b.Text)
			if b.Text == "one" && b.System() != "be brief" {
				t.Errorf("context %s", b.Context)
			}
		case chat.AgentText:
			said = append(said, "< "+b.Text)
		}
	}
	if got := strings.Join(said, " | "); got != "> Hello, how are you? | < im good | > one | < You said: one | > two | < You said: two" {
		t.Errorf("the log says %s", got)
	}
}

// only returns the one session there is.
func (w *testServer) only() chat.SessionID {
	w.t.Helper()
	page, err := w.Sessions.List(w.t.Context(), chat.Trusted, core.Filter{Limit: 5})
	if err != nil || len(page.Sessions) != 1 {
		w.t.Fatal(err, page)
	}
	return page.Sessions[0].ID
}
