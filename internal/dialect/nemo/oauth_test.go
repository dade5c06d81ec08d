package nemo

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/servertest"
	"github.com/parley-hq/parley/internal/session"
)

// consentAgent asks for consent.
var consentAgent = map[string]agent.Agent{"demo": answerFunc(func(ctx context.Context, turn *agent.Turn) error {
	a, err := turn.Ask(ctx, chat.AgentInputRequest{InputType: chat.InputOAuth, Text: "https://login.example/authorize?client_id=x&state=s3cr3t-state"})
	if err != nil {
		return err
	}
	return turn.Say(ctx, "The answer was "+a.Text)
})}

// A redirect answers a consent prompt, also after a restart, and only with the right state.
func TestRedirectAnswersConsent(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{secured: true, agents: consentAgent})
	c := w.dial("?conversation_id=c1", "X-API-Key", servertest.TokenOf("alice"))
	c.say("c1", "m1", "sign me in")
	p := c.prompt()
	if p.Content.InputType != "oauth_consent" || !strings.Contains(*p.Content.Text, "state=s3cr3t-state") {
		t.Fatalf("asked %s", p.raw)
	}
	for _, bad := range []string{"", "?state=s3cr3t-state", "?state=other&code=c0de", "?state=" + p.ID + "&code=c0de"} {
		if code, body, _ := w.Call("GET", "/auth/redirect"+bad, ""); code != 400 || !strings.Contains(body, "<h1>") {
			t.Errorf("%q: %d %s", bad, code, body)
		}
	}
	c.drop()
	w = w.restart()
	code, body, header := w.Call("GET", "/auth/redirect?state=s3cr3t-state&code=c0de%26&junk=1", "")
	if code != 200 || !strings.Contains(body, "AUTH_SUCCESS") || !strings.Contains(body, "window.close()") {
		t.Errorf("redirected: %d %s", code, body)
	}
	if csp := header.Get("Content-Security-Policy"); !strings.Contains(csp, "'sha256-") || strings.Contains(csp, "unsafe") {
		t.Errorf("policy %q", csp)
	}
	back := w.dial("?conversation_id=c1", "X-API-Key", servertest.TokenOf("alice"))
	if got := textOf(back.readTurn()); got != "The answer was code=c0de%26" {
		t.Errorf("got %q", got)
	}
	if code, _, _ := w.Call("GET", "/auth/redirect?state=s3cr3t-state&code=again", ""); code != 400 {
		t.Errorf("a second time: %d", code)
	}
}

// The address is public: few requests may wait for a search.
func TestRedirectSearchesAreBounded(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{secured: true})
	for range maxSearches {
		w.dialect.consents.waiting <- struct{}{}
	}
	if code, _, header := w.Call("GET", "/auth/redirect?state=x&code=y", ""); code != 429 || header.Get("Retry-After") == "" {
		t.Errorf("one too many: %d %v", code, header)
	}
	<-w.dialect.consents.waiting
	if code, _, _ := w.Call("GET", "/auth/redirect?state=x&code=y", ""); code != 400 {
		t.Errorf("there is room again: %d", code)
	}
}

// A refusal of the authorization server is an answer too.
func TestConsentIsRefused(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{agents: consentAgent})
	c := w.dial("")
	c.say("c1", "m1", "sign me in")
	c.prompt()
	code, body, _ := w.Call("GET", "/auth/redirect?state=s3cr3t-state&error=access_denied", "")
	if code != 200 || strings.Contains(body, "AUTH_SUCCESS") {
		t.Errorf("%d %s", code, body)
	}
	if got := textOf(c.readTurn()); got != "The answer was error=access_denied" {
		t.Errorf("got %q", got)
	}
}

// busy appends to c1 after the first session of a list was read, once, so that c1 moves to the front of the list. Pages
// have one session.
type busy struct {
	*session.Sessions
	t     *testing.T
	armed atomic.Bool
}

func (b *busy) ListAll(ctx context.Context, c chat.Caller, f core.Filter) iter.Seq2[chat.Session, error] {
	f.Limit = 1
	return func(yield func(chat.Session, error) bool) {
		for sess, err := range b.Sessions.ListAll(ctx, c, f) {
			if !yield(sess, err) {
				return
			}
			if b.armed.CompareAndSwap(true, false) {
				if _, err := b.Append(ctx, chat.Trusted, "c1", []chat.Draft{chat.NewDraft(chat.AgentStatus{Message: "still here"})}); err != nil {
					b.t.Error(err)
				}
			}
		}
	}
}

func TestConsentWhileSessionsChange(t *testing.T) {
	t.Parallel()
	b := &busy{t: t}
	w := newServer(t, setup{agents: consentAgent, change: func(o *Options) {
		b.Sessions = o.Sessions.(*session.Sessions)
		o.Sessions = b
	}})
	c := w.dial("")
	c.say("c1", "m1", "sign me in")
	c.prompt()
	other := chat.NewDraft(chat.AgentInputRequest{RequestID: "q-1", InputType: chat.InputText, Text: "?"})
	if _, _, err := w.Sessions.Create(t.Context(), chat.Trusted, chat.NewSession{ID: "c2", Agent: chat.NoAgent}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Sessions.Append(t.Context(), chat.Trusted, "c2", []chat.Draft{other}); err != nil {
		t.Fatal(err)
	}
	b.armed.Store(true)
	if code, body, _ := w.Call("GET", "/auth/redirect?state=s3cr3t-state&code=c0de", ""); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	if b.armed.Load() {
		t.Error("nothing happened between two pages")
	}
	if got := textOf(c.readTurn()); got != "The answer was code=c0de" {
		t.Errorf("got %q", got)
	}
}

// Where the agent's URL has no state, that of /executions works for callers who may see the session.
func TestConsentByExecution(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{secured: true})
	alice := []string{"X-API-Key", servertest.TokenOf("alice")}
	code, body, _ := w.Call("POST", "/v1/workflow", `{"input_message":"/ask oauth_consent"}`, alice...)
	var e execution
	if err := json.Unmarshal([]byte(body), &e); err != nil || code != 202 || e.OAuthState == "" {
		t.Fatalf("%d %s (%v)", code, body, err)
	}
	for _, c := range []struct {
		who  []string
		want int
	}{{nil, 400}, {[]string{"X-API-Key", servertest.TokenOf("bob")}, 400}, {alice, 200}} {
		if code, body, _ := w.Call("GET", "/auth/redirect?code=c&state="+e.OAuthState, "", c.who...); code != c.want {
			t.Errorf("%v: %d %s", c.who, code, body)
		}
	}
	w.poll(e.StatusURL, `"status":"completed","result":{"value":"You answered: code=c"}`, alice...)
}
