package x1

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
)

// largest is a tool result at the limit, in the spelling of x1's code: the page's one doubles it.
func largest(text string) chat.Draft {
	p := `{"tool_name":"read","call_id":"c","content":"` + strings.Repeat(text, (chat.MaxEvent-1200)/len(text)) + `"}`
	return chat.Draft{Type: "agent.tool_result", Payload: json.RawMessage(p)}
}

func (w *testServer) drafts(id chat.SessionID, drafts ...chat.Draft) {
	w.t.Helper()
	if _, err := w.Sessions.Append(w.t.Context(), auth.Local, id, drafts); err != nil {
		w.t.Fatal(err)
	}
}

// history reads a session on NATS to its end.
func (c *client) history(id chat.SessionID) (list []chat.Event) {
	c.w.t.Helper()
	for after := chat.Seq(0); ; {
		ask := fmt.Appendf(nil, `{"after":%d,"limit":1000}`, after)
		m, err := c.Request(Subject(id, History), ask, testTimeout)
		if err != nil {
			c.w.t.Fatalf("history after %d: %v", after, err)
		}
		var r HistoryReply
		if err := json.Unmarshal(m.Data, &r); err != nil || r.Error != nil || len(r.Events) == 0 {
			c.w.t.Fatalf("history after %d: %v %+v", after, err, r.Error)
		}
		for _, raw := range r.Events {
			e, err := chat.ParseEvent(raw)
			if err != nil {
				c.w.t.Fatal(err)
			}
			list = append(list, e)
			after = e.Seq
		}
		if !r.More {
			return list
		}
	}
}

func TestTheLargestEventsArePublished(t *testing.T) {
	w := newServer(t, options{})
	c := w.root()
	defer c.Close()
	subscription := c.follow(Subject("s1", Events))
	w.create("s1", chat.NoAgent)
	w.drafts("s1", largest("x"))
	w.drafts("s1", largest("<&>"))
	w.drafts("s1", largest(`\"`))
	for range 30 {
		w.append("s1", chat.AgentText{Text: strings.Repeat("<", 20<<10)})
	}
	w.append("s1", chat.AgentText{Text: "behind them"})
	w.complete("s1")
	want := w.Events("s1")
	subscription.until("the last event", func(e *got) bool { return e.Seq == chat.Seq(len(want)) })
	for i, e := range subscription.events() {
		if e.Seq != want[i].Seq || e.ID != want[i].ID {
			t.Fatalf("event %d came at place %d", e.Seq, i)
		}
	}
	read := c.history("s1")
	if len(read) != len(want) {
		t.Fatalf("history has %d events, the log %d", len(read), len(want))
	}
	for i, e := range read {
		if e.ID != want[i].ID {
			t.Fatalf("history has %s at place %d, the log %s", e.ID, i, want[i].ID)
		}
	}
}

// Each event is published in a form that fits the limit of an external NATS.
func TestFit(t *testing.T) {
	d := largest("x")
	if err := d.Normalize(); err != nil {
		t.Fatal(err)
	}
	e := chat.Event{Session: "s.1", Seq: 7, At: 1, Type: d.Type, ID: "e", Payload: d.Payload, Body: d.Body}
	f := e.Fact()
	for _, x := range []struct {
		limit int
		want  string
	}{{4 << 20, `"result":"x`}, {1 << 20, `"content":"x`}, {64 << 10, `"payload":{"ref":{"bytes":`}} {
		b, err := fit("s.1", f, x.limit)
		if err != nil || len(b) > x.limit || !json.Valid(b) || !strings.Contains(string(b), x.want) {
			t.Errorf("limit %d: %d bytes, %v: %.300s", x.limit, len(b), err, b)
		}
		if got, err := chat.ParseEvent(b); err != nil || got.Seq != 7 || got.Type != e.Type || got.ID != "e" {
			t.Errorf("limit %d: %v %+v", x.limit, err, got.Seq)
		}
	}
	b, _ := fit("s.1", f, 1<<10)
	if !strings.Contains(string(b), `"url":"/parley/v1/sessions/s.1/events?after=6&limit=1"`) {
		t.Errorf("%s", b)
	}
	say := chat.NewDraft(chat.UserPermissionResponse{RequestID: "r", Granted: []string{strings.Repeat("a", 600<<10)}})
	if err := say.Normalize(); err != nil {
		t.Fatal(err)
	}
	u := chat.Event{Session: "s1", Seq: 8, At: 1, Type: say.Type, Payload: say.Payload, Body: say.Body}
	for _, limit := range []int{4 << 20, 1 << 20, 4 << 10} {
		if b, ok := fitInput(&u, limit); !ok || len(b) > limit {
			t.Errorf("limit %d: %d bytes to the sidecar", limit, len(b))
		}
	}
}
