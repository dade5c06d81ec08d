// Tests of readers after the end of their membership.

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

// TestRemovedMemberReceivesNothing: a reader of any dialect whose membership ends
// receives no later event.
func TestRemovedMemberReceivesNothing(t *testing.T) {
	bus := freeport.Addr(t)
	p := serveWithTokens(t, "--nats", bus)
	alice, carol := tokenOf("alice"), tokenOf("carol")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p.must(call{method: "POST", path: "/parley/v1/sessions", token: alice, body: `{"id":"room","agent":"none","members":[{"actor":{"kind":"user","id":"carol"},"role":"viewer"}]}`})
	send := func(text string) {
		p.must(call{method: "POST", path: "/parley/v1/sessions/room/events", token: alice, body: `{"type":"user.message","payload":{"text":"` + text + `"}}`})
	}
	received := map[string]*output{}
	ended := map[string]chan struct{}{}
	follow := func(name string, read func(out *output)) {
		out, end := newOutput(), make(chan struct{})
		received[name], ended[name] = out, end
		go func() {
			defer close(end)
			read(out)
		}()
		t.Cleanup(func() { cancel(); <-end })
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	for name, path := range map[string]string{"native": "/parley/v1/sessions/room/stream?after=0", "vertesia": "/api/v1/agents/room/stream?since=0", "older vertesia": "/api/v1/workflows/runs/room/room/stream?since=0"} {
		follow(name, func(out *output) {
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
		follow(name, func(out *output) {
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
	received["x1"] = viaNATS
	if _, err := c.Subscribe("x1.session.room.events", func(m *nats.Msg) { _, _ = viaNATS.Write(m.Data) }); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}

	send("for all")
	for name, out := range received {
		waitFor(t, func() bool { return strings.Contains(out.String(), "for all") }, name+" receives nothing")
	}
	p.must(call{method: "PATCH", path: "/parley/v1/sessions/room", token: alice, body: `{"members":[]}`})
	send("after the removal")
	// Alice has the message, so it was delivered to all readers.
	waitFor(t, func() bool {
		return strings.Contains(p.must(call{path: "/api/v1/agents/room/updates", token: alice}), "after the removal")
	}, "the message was not stored")
	for _, name := range []string{"native", "vertesia", "older vertesia", "vertesia socket"} {
		select {
		case <-ended[name]:
		case <-ctx.Done():
			t.Errorf("%s is still open", name)
		}
	}
	if got := p.ask(carol, "/parley/v1/ws", `{"op":"watch","id":1,"session_id":"room","after":"0"}`); !strings.Contains(got, "not_found") {
		t.Errorf("a new watch: %s", got)
	}
	for name, out := range received {
		if strings.Contains(out.String(), "after the removal") {
			t.Errorf("%s received a message after the removal", name)
		}
	}
}
