package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/freeport"
)

// TestRevokedReaders: who follows a session and is shown the door hears nothing
// more, in whatever dialect.
func TestRevokedReaders(t *testing.T) {
	bus := freeport.Addr(t)
	p := guarded(t, "--nats", bus)
	alice, carol := tokenOf("alice"), tokenOf("carol")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p.must(call{method: "POST", path: "/parley/v1/sessions", token: alice, body: `{"id":"room","agent":"none","members":[{"actor":{"kind":"user","id":"carol"},"role":"viewer"}]}`})
	say := func(text string) {
		p.must(call{method: "POST", path: "/parley/v1/sessions/room/events", token: alice, body: `{"type":"user.message","payload":{"text":"` + text + `"}}`})
	}
	heard := map[string]*output{}
	ended := map[string]chan struct{}{}
	listen := func(name string, read func(out *output)) {
		out, end := newOutput(), make(chan struct{})
		heard[name], ended[name] = out, end
		go func() {
			defer close(end)
			read(out)
		}()
		t.Cleanup(func() { cancel(); <-end })
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	for name, path := range map[string]string{"native": "/parley/v1/sessions/room/stream?after=0", "vertesia": "/api/v1/agents/room/stream?since=0", "older vertesia": "/api/v1/workflows/runs/room/room/stream?since=0"} {
		listen(name, func(out *output) {
			r, err := http.NewRequestWithContext(ctx, "GET", p.url+path, nil)
			if err != nil {
				return
			}
			r.Header.Set("Authorization", "Bearer "+carol)
			res, err := client.Do(r)
			if err != nil {
				return
			}
			defer res.Body.Close()
			b := make([]byte, 4096)
			for {
				n, err := res.Body.Read(b)
				_, _ = out.Write(b[:n]) // memory
				if err != nil {
					return
				}
			}
		})
	}
	for name, s := range map[string]struct{ path, first string }{
		"native socket":   {"/parley/v1/ws", `{"op":"watch","id":1,"session_id":"room","after":"0"}`},
		"vertesia socket": {"/api/v1/workflows/runs/room/room/ws?since=0", ""},
	} {
		conn, _, err := websocket.Dial(ctx, p.url+s.path, &websocket.DialOptions{HTTPClient: client, HTTPHeader: http.Header{"Authorization": {"Bearer " + carol}}})
		if err != nil {
			t.Fatal(name, err)
		}
		t.Cleanup(func() { conn.CloseNow() })
		if s.first != "" {
			if err := conn.Write(ctx, websocket.MessageText, []byte(s.first)); err != nil {
				t.Fatal(err)
			}
		}
		listen(name, func(out *output) {
			for {
				_, b, err := conn.Read(ctx)
				if err != nil {
					return
				}
				_, _ = out.Write(b) // memory
			}
		})
	}
	var cred x1.Credential
	if err := json.Unmarshal([]byte(p.must(call{method: "POST", path: "/parley/v1/sessions/room/credentials", token: carol, body: `{}`})), &cred); err != nil {
		t.Fatal(err)
	}
	c, err := nats.Connect("nats://"+bus, append(credentialOf(cred, make(chan error, 64)), nats.NoReconnect())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	viaNATS := newOutput()
	heard["x1"] = viaNATS
	if _, err := c.Subscribe("x1.session.room.events", func(m *nats.Msg) { _, _ = viaNATS.Write(m.Data) }); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}

	say("for all")
	for name, out := range heard {
		waitFor(t, func() bool { return strings.Contains(out.String(), "for all") }, name+" hears nothing")
	}
	p.must(call{method: "PATCH", path: "/parley/v1/sessions/room", token: alice, body: `{"members":[]}`})
	say("for nobody else")
	// A reader with every right has it: then the others had their chance.
	waitFor(t, func() bool {
		return strings.Contains(p.must(call{path: "/api/v1/agents/room/updates", token: alice}), "for nobody else")
	}, "it was not said")
	for _, name := range []string{"native", "vertesia", "older vertesia", "vertesia socket"} {
		select {
		case <-ended[name]:
		case <-ctx.Done():
			t.Errorf("%s goes on", name)
		}
	}
	if got := p.ask(carol, "/parley/v1/ws", `{"op":"watch","id":1,"session_id":"room","after":"0"}`); !strings.Contains(got, "not_found") {
		t.Errorf("a new watch: %s", got)
	}
	for name, out := range heard {
		if strings.Contains(out.String(), "for nobody else") {
			t.Errorf("%s heard what was said after it was shown the door", name)
		}
	}
}
