package sidecar

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/sidecar/sidecartest"
)

// A second sidecar stops, and a replaced one cannot write any more.
func TestOneSidecarPerSession(t *testing.T) {
	t.Parallel()
	w := newServer(t)
	a := w.agent(sidecartest.Options{})
	first := w.attach(a, nil)
	second, _ := w.launch(a, func(o *Options) { o.Probe = 0 }) // the usual time: it stops when the first one answers
	second.end("has a sidecar already")
	say(a, 0, 2)
	w.agentEvent(2)
	// Somebody takes over by force: the first one notices at its next word.
	root := w.root()
	body := fmt.Sprintf(`{"type":%q,"epoch":2,"client_id":"x","payload":{"epoch":2,"instance":"other"}}`, x1.AttachedType)
	if _, err := root.Request(x1.Subject(me, x1.Events), []byte(body), testTimeout); err != nil {
		t.Fatal(err)
	}
	say(a, 2, 4)
	first.end("has a sidecar already")
	if got := w.texts("agent.text", "text"); len(got) != 2 {
		t.Fatalf("it still spoke: %v", got)
	}
	// The fence outlives the server, and an epoch is taken once.
	w.stop()
	w.start()
	root = w.root()
	for _, late := range []string{
		`{"type":"agent.text","epoch":1,"client_id":"y","payload":{"text":"a zombie"}}`,
		fmt.Sprintf(`{"type":%q,"epoch":2,"client_id":"z","payload":{"epoch":2}}`, x1.AttachedType),
		fmt.Sprintf(`{"type":%q,"epoch":3,"client_id":"z","payload":{"epoch":4}}`, x1.AttachedType),
	} {
		w.until("the server listens", func() bool { return root.FlushTimeout(testTimeout) == nil && root.IsConnected() })
		var m *nats.Msg
		w.until("it answers", func() (ok bool) {
			var err error
			m, err = root.Request(x1.Subject(me, x1.Events), []byte(late), testTimeout)
			return err == nil
		})
		if !strings.Contains(string(m.Data), `"error"`) {
			t.Errorf("%s: %s", late, m.Data)
		}
	}
}

// Of two sidecars that start at the same moment, one gets the session.
func TestTwoSidecarsStartAtOnce(t *testing.T) {
	t.Parallel()
	w := newServer(t)
	a := w.agent(sidecartest.Options{})
	var all []*running
	for range 4 {
		r, _ := w.launch(a, nil)
		all = append(all, r)
	}
	over := make(chan error, len(all))
	for _, r := range all {
		go func() { over <- <-r.err }()
	}
	for range len(all) - 1 {
		select {
		case err := <-over:
			if err == nil || !strings.Contains(err.Error(), "has a sidecar already") {
				t.Fatal(err)
			}
		case <-time.After(testTimeout):
			t.Fatal("more than one goes on")
		}
	}
	say(a, 0, 20)
	w.agentEvent(20)
	for _, r := range all {
		r.quit()
	}
	if err := <-over; err != nil {
		t.Fatal(err)
	}
}

// Expired input, and input that names another session, is not injected.
func TestEventsThatAreNotInjected(t *testing.T) {
	t.Parallel()
	w := newServer(t)
	a := w.agent(sidecartest.Options{})
	w.attach(a, nil)
	root := w.root()
	for _, in := range []string{
		`{"session_id":"s1","type":"user.message","payload":{"text":"too late"},"expires_at":1000}`,
		`{"session_id":"other","type":"user.message","payload":{"text":"forged"}}`,
		`{"session_id":"s1","type":"user.message","payload":{"text":"once"},"client_id":"k"}`,
		`{"session_id":"s1","type":"user.message","payload":{"text":"once"},"client_id":"k"}`,
		`{"session_id":"s1","type":"user.message","payload":{"text":"the last"}}`,
	} {
		if _, err := root.Request(x1.Subject(me, x1.Input), []byte(in), testTimeout); err != nil {
			t.Fatal(err)
		}
	}
	w.until("the last is received", func() bool {
		h, _ := a.Received()
		return len(h) > 0 && h[len(h)-1]["text"] == "the last"
	})
	if h, _ := a.Received(); len(h) != 2 || h[0]["text"] != "once" {
		t.Fatal(h)
	}
}
