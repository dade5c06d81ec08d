package sidecar

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/internal/sidecar/sidecartest"
)

func TestProviders(t *testing.T) {
	w := newServer(t)
	a := w.agent(sidecartest.Options{})
	root := w.root()
	answer := make(chan string, 1)
	asked := make(chan string, 1)
	if _, err := root.Subscribe("x1.provider.*.*", func(m *nats.Msg) {
		asked <- m.Subject + " " + string(m.Data)
		select {
		case b := <-answer:
			_ = m.Respond([]byte(b))
		default: // it does not answer
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := root.Flush(); err != nil {
		t.Fatal(err)
	}
	r := w.attach(a, func(o *Options) {
		o.Provider = 3 * time.Second // of which one request waits for all
		o.Collections = []Collection{{ID: "1", Slug: "ideas", Handle: "col_ideas", Default: true}, {ID: "2", Slug: "other", Handle: "col_other"}}
	})
	answer <- `{"ok":true,"matches":[]}`
	if code, v := r.post("/vector/search", `{"vector":[1],"provenance":{"session_id":"forged"}}`); code != 200 || v["ok"] != true {
		t.Fatal(code, v)
	}
	if got := <-asked; !strings.Contains(got, "x1.provider.vector.search") || !strings.Contains(got, `"namespace":"col_ideas"`) || !strings.Contains(got, `"session_id":"s1"`) || strings.Contains(got, "forged") {
		t.Fatal(got)
	}
	answer <- `{"ok":true}`
	if code, _ := r.post("/graph/write", `{"collection":"other","record_type":"x","data":{},"confidence":0.5}`); code != 200 {
		t.Fatal(code)
	}
	if got := <-asked; !strings.Contains(got, `"handle":"col_other"`) || !strings.Contains(got, `"confidence":0.5`) {
		t.Fatal(got)
	}
	if code, v := r.post("/graph/query", `{"collection":"secret","query":"*"}`); code != 404 || !strings.Contains(fmt.Sprint(v), "collection_not_attached") {
		t.Fatal(code, v)
	}
	if code, v := r.post("/email/send", `{}`); code != 504 || !strings.Contains(fmt.Sprint(v), "provider_timeout") {
		t.Fatal(code, v)
	}
	<-asked
	if code, v := r.post("/email/se.nd", `{}`); code != 400 {
		t.Fatal(code, v)
	}
	if code, v := r.post("/email/send", `[1]`); code != 400 {
		t.Fatal(code, v)
	}
	// A careless provider: the agent gets no credentials, neither its nor ours.
	secret := ""
	for _, s := range r.s.conn.secrets {
		if len(s) > len(secret) {
			secret = s
		}
	}
	if secret == "" {
		t.Fatal("the sidecar has no secret")
	}
	answer <- fmt.Sprintf(`{"ok":true,"n":12345678901234567890,"account":{"access_token":"abc","name":"me","note":"uses %s"}}`, secret)
	code, v := r.post("/docs/get", `{}`)
	<-asked
	if text := fmt.Sprint(v); code != 200 || strings.Contains(text, "abc") || strings.Contains(text, secret) || !strings.Contains(text, "name:me") {
		t.Fatal(code, text)
	}
	answer <- "the password is " + secret
	if code, v := r.post("/docs/get", `{}`); code != 502 || !strings.Contains(fmt.Sprint(v), "bad_answer") || strings.Contains(fmt.Sprint(v), secret) {
		t.Fatal(code, v)
	}
	<-asked
}

// A request to a domain without a provider is refused at once.
func TestADomainWithoutAProvider(t *testing.T) {
	w := newServer(t)
	r := w.attach(w.agent(sidecartest.Options{}), func(o *Options) { o.Provider = time.Hour })
	for _, domain := range domains {
		if code, v := r.post("/"+domain+"/list", `{}`); code != 502 || !strings.Contains(fmt.Sprint(v), "no_provider") || !strings.Contains(fmt.Sprint(v), domain) {
			t.Errorf("%s: %d %v", domain, code, v)
		}
	}
	if code, v := r.post("/weather/list", `{}`); code != 404 {
		t.Error("there is no such domain", code, v)
	}
}

// A sidecar can connect to NATS directly, as x1's own does.
func TestADirectConnectionToNATS(t *testing.T) {
	w := newServer(t)
	a := w.agent(sidecartest.Options{})
	for _, user := range []string{"sidecar", ""} {
		r := w.attach(a, func(o *Options) { o.Server, o.NATS, o.User = "", "nats://"+w.nats, user })
		n := len(w.texts("agent.text", "text"))
		a.Say("agent.text", map[string]any{"text": "from " + user})
		w.until("it is stored", func() bool { return len(w.texts("agent.text", "text")) == n+1 })
		received, _ := a.Received()
		w.tell("hello " + user)
		w.until("it is delivered", func() bool { now, _ := a.Received(); return len(now) == len(received)+1 })
		r.stop()
	}
}
