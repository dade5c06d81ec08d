package nemo

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/servertest"
)

// A header, the address, auth_message or each message can have the credential.
func TestAuthentication(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{secured: true})
	c := w.dial("")
	c.say("c1", "m1", "hi")
	frames := c.until(isEnd)
	if f := frames[1]; f.Content.Code != codeAuth {
		t.Errorf("without a credential: %s", f.raw)
	}
	mistyped := w.dial("?access_token=wrong")
	mistyped.say("c1", "m1", "hi")
	if f := mistyped.until(isEnd)[1]; f.Content.Code != codeAuth || !strings.Contains(f.Content.Details, "this token is unknown") {
		t.Errorf("a wrong token in the address: %s", f.raw)
	}
	c.send(`{"type":"auth_message","payload":{"method":"jwt","token":"wrong"}}`)
	if f := c.next(); f.Type != typeAuthResponse || f.Status != "error" || f.Payload == nil || f.Payload.Code != codeAuth {
		t.Errorf("a wrong token: %s", f.raw)
	}
	c.send(`{"type":"auth_message","payload":{"method":"dance"}}`)
	if f := c.next(); f.Type != typeAuthResponse || f.Status != "error" {
		t.Errorf("a wrong method: %s", f.raw)
	}
	secured := func(token string) string {
		return strings.Replace(userMessage("c1", "m2", "chat", "hi"), `"content"`, fmt.Sprintf(`"security":{"token":%q},"content"`, token), 1)
	}
	c.send(secured("wrong"))
	if f := c.until(isEnd)[1]; f.Content.Code != codeAuth {
		t.Errorf("a wrong token in a message: %s", f.raw)
	}
	c.send(secured(servertest.TokenOf("bob")))
	if got := textOf(c.readTurn()); got != "You said: hi" {
		t.Errorf("bob by his message: %q", got)
	}
	c.send(fmt.Sprintf(`{"type":"auth_message","payload":{"method":"api_key","token":%q}}`, servertest.TokenOf("alice")))
	f := c.next()
	if f.Status != "success" || f.UserID == "" {
		t.Errorf("alice: %s", f.raw)
	}
	c.say("c2", "m1", "hi")
	if got := textOf(c.readTurn()); got != "You said: hi" {
		t.Errorf("alice: %q", got)
	}
	key := w.dial("", "X-API-Key", servertest.TokenOf("alice"))
	key.say("c3", "m1", "hi")
	key.readTurn()
	owners := map[chat.SessionID]string{"c1": "bob", "c2": "alice", "c3": "alice"}
	for id, owner := range owners {
		if s, err := w.Sessions.Get(t.Context(), chat.Trusted, id); err != nil || s.Owner.ID != owner {
			t.Errorf("%s belongs to %s, want %s (%v)", id, s.Owner.ID, owner, err)
		}
	}
	for _, bad := range []string{"%3Cscript%3E", strings.Repeat("s", 257)} {
		if code, _, _ := w.Call("GET", "/websocket?session="+bad, ""); code != 403 {
			t.Errorf("the session parameter %s: %d", bad, code)
		}
	}
	if code, _, _ := w.Call("GET", "/websocket?session="+strings.Repeat("s", 256), ""); code == 403 {
		t.Error("a session parameter of 256 characters is refused")
	}
}

// HTTP accepts the same credentials as the socket.
func TestAuthenticationOverHTTP(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{secured: true})
	basic := func(password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+password))
	}
	for _, c := range []struct {
		header, value string
		want          int
	}{
		{"X-API-Key", servertest.TokenOf("alice"), 200},
		{"Authorization", "Bearer " + servertest.TokenOf("alice"), 200},
		{"Authorization", basic(servertest.TokenOf("alice")), 200},
		{"X-API-Key", "wrong", 401},
		{"Authorization", "Bearer wrong", 401},
		{"Authorization", basic("wrong"), 401},
		{"X-Nothing", "x", 401},
	} {
		for path, body := range map[string]string{"/chat": chatBody("hi"), "/generate": inputBody("hi"), "/v1/chat/completions": chatBody("hi")} {
			if code, got, _ := w.Call("POST", path, body, c.header, c.value, "Conversation-Id", "c1"); code != c.want {
				t.Errorf("%s %s: %s is %d, want %d: %s", c.header, c.value, path, code, c.want, got)
			}
		}
		if c.want == 200 {
			s := w.dial("?conversation_id=c2", c.header, c.value)
			s.say("c2", "", "hi")
			if got := textOf(s.readTurn()); got != "You said: hi" {
				t.Errorf("%s %s on a socket: %q", c.header, c.value, got)
			}
			s.drop()
		}
	}
	for _, id := range []chat.SessionID{"c1", "c2"} {
		if s, err := w.Sessions.Get(t.Context(), chat.Trusted, id); err != nil || s.Owner.ID != "alice" {
			t.Errorf("%s belongs to %s, want alice (%v)", id, s.Owner.ID, err)
		}
	}
}
