package nemo

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/chat"
)

func aiqMessage(conversation, id, query string) string {
	return userMessage(conversation, id, "chat_stream", string(appendJSON(nil, map[string]any{"query": query, "data_sources": []string{"web"}})))
}

// bubbles are the texts that the AI-Q UI shows, one per response.
func bubbles(frames []frame) string {
	var list []string
	for _, f := range frames {
		if f.Type == typeResponse && f.Content.Text != nil {
			list = append(list, *f.Content.Text)
		}
	}
	return strings.Join(list, "|")
}

// The AI-Q UI shows each response as a message, packs the typed text in JSON, and cannot handle a notification in the
// form of a prompt.
func TestAIQFrames(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{change: func(o *Options) { o.Schema = "aiq" }})
	c := w.dial("")
	c.schema = "aiq"
	for _, m := range []struct{ query, want string }{
		{"hello", "You said: hello"},
		{"/stream 50 500", words1toN(50)},
		{"/ask notification", "This is a notification.|Notified."},
		{"/tool calc {}", "calc gave {}"},
	} {
		c.send(aiqMessage("c1", "m-"+m.query, m.query))
		if got := bubbles(c.until(isEnd)); got != m.want {
			t.Errorf("%s: %q, want %q", m.query, got, m.want)
		}
	}
	c.send(userMessage("c1", "m-plain", "chat_stream", `{"question":"?"}`))
	if got := bubbles(c.until(isEnd)); got != `You said: {"question":"?"}` {
		t.Errorf("another object is a text: %q", got)
	}
	facts, _, err := w.Sessions.Read(t.Context(), chat.Trusted, "c1", chat.Range{Types: []string{"user.message"}, Limit: 1})
	if err != nil || len(facts) != 1 {
		t.Fatal(facts, err)
	}
	if kept := string(facts[0].JSON); !strings.Contains(kept, `"data_sources":["web"]`) || !strings.Contains(kept, `"text":"hello"`) {
		t.Errorf("the message is kept as %s", kept)
	}
}

// The AI-Q client reconnects without naming its conversation. It gets the rest, once; a client that closed its
// connection does not.
func TestAIQReattaches(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("?schema=aiq")
	c.send(aiqMessage("c1", "m1", "/ask text"))
	p := c.prompt()
	c.drop() // before it has acknowledged the prompt
	c = w.dial("?schema=aiq")
	if again := c.prompt(); again.Conversation != "c1" || again.Parent != p.Parent {
		t.Errorf("the prompt came back as %s", again.raw)
	}
	c.sync() // now it has acknowledged it
	w = w.restart()
	c = w.dial("?schema=aiq")
	c.answer("c1", "a1", p.Parent, "Ada")
	if got := c.until(isEnd); bubbles(got) != "You answered: Ada" || slices.ContainsFunc(got, isPrompt) {
		t.Errorf("after a restart:\n%s", c.log())
	}
	c.send(aiqMessage("c1", "m2", "hi"))
	c.until(isEnd)
	c.sync()
	if err := c.conn.Close(websocket.StatusGoingAway, ""); err != nil { // the page is reloaded
		t.Fatal(err)
	}
	c = w.dial("?schema=aiq")
	ask := chat.NewDraft(chat.AgentInputRequest{RequestID: "q-1", InputType: chat.InputText, Text: "Still there?"})
	if _, err := w.Sessions.Append(t.Context(), chat.Trusted, "c1", []chat.Draft{ask}); err != nil {
		t.Fatal(err)
	}
	c.prompt()
	c.sync()
	if err := c.conn.Close(websocket.StatusNormalClosure, ""); err != nil { // the page switches to another conversation
		t.Fatal(err)
	}
	c = w.dial("?schema=aiq")
	c.send(aiqMessage("c2", "m1", "hi"))
	for _, f := range c.until(isEnd) {
		if f.Conversation != "c2" {
			t.Errorf("a client that turned to another conversation got %s", f.raw)
		}
	}
}

// A name that is not valid as a session id is the client's own, and frames have it after the reconnect.
func TestAIQReattachesUnderItsOwnName(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("?schema=aiq")
	c.send(aiqMessage("my talk / 1", "m1", "/ask text"))
	c.prompt()
	c.drop()
	w.waitDeparted(1)
	if p := w.dial("?schema=aiq").prompt(); p.Conversation != "my talk / 1" {
		t.Errorf("the prompt came back as %s", p.raw)
	}
}

// The session list changes while the lost conversation is searched in it.
func TestAIQReattachesWhileSessionsChange(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("?schema=aiq")
	for i := range maxReattached {
		c.send(aiqMessage(fmt.Sprint("other", i), "m1", "hi"))
		c.until(isEnd)
	}
	c.send(aiqMessage("c1", "m1", "/ask text"))
	c.prompt()
	c.drop()
	back, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			select {
			case <-back:
				return
			default:
			}
			if _, err := w.Sessions.Append(t.Context(), chat.Trusted, "c1", []chat.Draft{chat.NewDraft(chat.AgentStatus{Message: "still here"})}); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	w.dial("?schema=aiq").prompt()
	close(back)
	<-done
}
