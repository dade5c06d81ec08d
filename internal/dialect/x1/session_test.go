package x1

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/sleep"
)

func TestAMessageOverNATSIsAnswered(t *testing.T) {
	w := newServer(t, options{})
	c := w.dial()
	events, delta := c.follow("x1.session.*.events"), c.follow("x1.session.s1.delta")
	r := c.say("s1", Input, message("/echo one two three"))
	if r.Sequence != 2 {
		t.Fatalf("%+v", r)
	}
	done := events.until("the end of the turn", typ("turn.completed"))
	list := events.events()
	for i, e := range list {
		if e.Session != "s1" || e.Seq != chat.Seq(i+1) {
			t.Fatalf("place %d has %d of %s", i, e.Seq, e.Session)
		}
	}
	if b, _ := events.until("the answer", typ("agent.text")).Body.(chat.AgentText); b.Text != "one two three" {
		t.Fatal(b.Text)
	}
	// Subscriptions of one client do not wait for each other.
	w.until("the last piece comes", func() bool {
		all := delta.all()
		return len(all) > 0 && strings.Contains(string(all[len(all)-1].Data), `"end":13`)
	})
	text := ""
	for _, m := range delta.all() {
		var d struct {
			Type    string
			Payload struct {
				Offset int
				Text   string
			}
		}
		if err := json.Unmarshal(m.Data, &d); err != nil || d.Type != "agent.text.delta" || d.Payload.Offset != len(text) {
			t.Fatalf("%s %v", m.Data, err)
		}
		text += d.Payload.Text
	}
	if text != "one two three" {
		t.Fatalf("the previews say %q", text)
	}
	w.complete("s1")
	if n := len(w.Events("s1")); chat.Seq(n) != done.Seq {
		t.Fatal(n, done.Seq)
	}
}

func TestSessionsOfOtherDialectsArePublished(t *testing.T) {
	w := newServer(t, options{})
	c := w.dial()
	events := c.follow("x1.session.a%2Eb.events")
	w.create("a.b", "")
	w.append("a.b", chat.UserMessage{Text: "hello"})
	if b, _ := events.until("the answer", typ("agent.text")).Body.(chat.AgentText); b.Text != "You said: hello" {
		t.Fatal(b.Text)
	}
	events.until("the end", typ("turn.completed"))
	w.complete("a.b")
}

func TestFieldsOfTheProtocolPageAreSent(t *testing.T) {
	w := newServer(t, options{})
	c := w.dial()
	events := c.follow(Subject("s1", Events))
	w.create("s1", chat.NoAgent)
	for _, d := range []struct{ typ, payload string }{
		{"agent.tool_call", `{"tool_name":"look","tool_use_id":"u1","input":{"a":1}}`},
		{"agent.tool_result", `{"tool_use_id":"u1","content":"found","is_error":false}`},
		{"agent.tool_error", `{"tool_use_id":"u2","content":"broken","is_error":true}`},
		{"agent.status", `{"status":"working","detail":"on it"}`},
		{"agent.artifact", `{"artifact_type":"table","content":[1]}`},
		{"agent.input_request", `{"question":"which?","options":["a","b"],"request_id":"r1"}`},
		{"agent.strange", `{"of":"tomorrow"}`},
	} {
		if _, err := w.Sessions.Append(t.Context(), auth.Local, "s1", []chat.Draft{{Type: d.typ, Payload: json.RawMessage(d.payload)}}); err != nil {
			t.Fatal(d.typ, err)
		}
	}
	c.say("s1", Input, Message{Type: "user.input_response", Payload: json.RawMessage(`{"answer":"b","request_id":"r1"}`)})
	events.until("the last", upTo(9))
	for typ, want := range map[string]map[string]string{
		"session.started":     {"agent_id": `"none"`, "session_id": `"s1"`},
		"agent.tool_call":     {"tool": `"look"`, "params": `{"a":1}`},
		"agent.tool_result":   {"tool": `""`, "result": `"found"`},
		"agent.tool_error":    {"error": `"broken"`},
		"agent.status":        {"message": `"on it"`},
		"agent.artifact":      {"type": `"table"`, "data": `[1]`},
		"agent.input_request": {"question": `"which?"`, "request_id": `"r1"`},
		"agent.strange":       {"of": `"tomorrow"`},
		"user.input_response": {"text": `"b"`, "request_id": `"r1"`},
	} {
		e := events.until(typ, func(e *got) bool { return e.Type == typ })
		var env struct{ Payload map[string]json.RawMessage }
		if err := json.Unmarshal(e.raw, &env); err != nil {
			t.Fatal(err)
		}
		for k, v := range want {
			if string(env.Payload[k]) != v {
				t.Errorf("%s: %s is %s, not %s", typ, k, env.Payload[k], v)
			}
		}
	}
	w.complete("s1")
}

func TestInputIsStoredOnce(t *testing.T) {
	w := newServer(t, options{})
	c := w.dial()
	w.create("s1", chat.NoAgent)
	m := message("once")
	m.ClientID = "k1"
	first := c.say("s1", Input, m)
	if again := c.say("s1", Input, m); again.Sequence != first.Sequence {
		t.Fatal("by client_id", again, first)
	}
	header := &nats.Msg{Subject: Subject("s1", Input), Data: encoded("s1", message("also once")), Header: nats.Header{HeaderKey: {"k2"}}}
	one, two := c.askMsg(header), c.askMsg(header)
	if one.Sequence != 3 || two.Sequence != 3 {
		t.Fatal("by header", one, two)
	}
	m.Payload = json.RawMessage(`{"text":"other words"}`)
	if r := c.ask("s1", Input, m); r.Error == nil || r.Error.Reason != chat.Conflict {
		t.Fatal("the same key with other words", r)
	}
	late := message("too late")
	late.ExpiresAt = time.Now().Add(-time.Second).UnixMilli()
	if r := c.say("s1", Input, late); r.Dropped != "expired" {
		t.Fatal("expired", r)
	}
	intime := message("in time")
	intime.ExpiresAt = time.Now().Add(time.Hour).UnixMilli()
	c.say("s1", Input, intime)
	forged := message("forged")
	forged.Session = "s2"
	if r := c.ask("s1", Input, forged); r.Error == nil || r.Error.Reason != chat.Invalid {
		t.Fatal("another session in the body", r)
	}
	if r := c.ask("s1", Input, event("agent.text", `{"text":"not mine"}`, 1)); r.Error == nil {
		t.Fatal("an agent's word on input", r)
	}
	for _, bad := range []string{``, `{`, `[]`, `{"type":1}`, `null`, strings.Repeat("[", 10000)} {
		if r := c.askMsg(&nats.Msg{Subject: Subject("s1", Input), Data: []byte(bad)}); r.Error == nil {
			t.Errorf("%q was taken: %+v", bad, r)
		}
	}
	if r := c.askMsg(&nats.Msg{Subject: Subject("s1", Input), Data: []byte(`{"type":"user.message","payload":{"text":"x"},"expires_at":"soon"}`)}); r.Error == nil || !strings.Contains(r.Error.Description, "its expires_at cannot be a string") {
		t.Error("what is wrong with it?", r.Error)
	}
	if n := len(w.Events("s1")); n != 4 {
		t.Fatalf("%d events", n)
	}
}

func TestTrustedSendersNameTheirUser(t *testing.T) {
	w := newServer(t, options{})
	c := w.dial()
	w.create("s1", chat.NoAgent)
	c.say("s1", Input, Message{Type: "user.message", Payload: json.RawMessage(`{"text":"hi","user_id":"u-7"}`)})
	if e := w.Events("s1")[1]; e.Actor.ID != "u-7" || e.Via != "x1" {
		t.Fatalf("%+v", e.Actor)
	}
}

func TestTwoViewersRaceAnApproval(t *testing.T) {
	w := newServer(t, options{})
	c := w.dial()
	events := c.follow("x1.session.*.events")
	for i := range 10 {
		id := chat.SessionID(fmt.Sprintf("race-%d", i))
		c.say(id, Input, message(`/approve rm {"path":"x"}`))
		e := events.until("the question", func(e *got) bool { return e.Session == id && e.Type == "agent.approval_request" })
		request := e.Body.(chat.AgentApprovalRequest).RequestID
		var wg sync.WaitGroup
		replies := make([]Reply, 2)
		for v, word := range []string{"approve", "deny"} {
			viewer := w.dial()
			wg.Go(func() {
				replies[v] = viewer.ask(id, Input, Message{Type: "user.input_response", ClientID: word,
					Payload: json.RawMessage(fmt.Sprintf(`{"text":%q,"request_id":%q,"user_id":"viewer-%d"}`, word, request, v))})
			})
		}
		wg.Wait()
		won := 0
		for _, r := range replies {
			if r.Error == nil {
				won++
			} else if r.Error.Reason != chat.Conflict || r.Error.Details["answered_by"] == nil {
				t.Fatalf("%+v", r.Error)
			}
		}
		if won != 1 {
			t.Fatalf("%d viewers decided", won)
		}
		events.until("the end", func(e *got) bool { return e.Session == id && e.Type == "turn.completed" })
		decisions := 0
		for _, e := range w.Events(id) {
			if e.Type == "user.approval_response" {
				decisions++
			}
		}
		if decisions != 1 {
			t.Fatalf("%d decisions", decisions)
		}
	}
}

// A client that got no reply sends its answer again, when the prompt has ended: it gets the reply of the first one. An
// answer that came late is refused, also when it is sent again.
func TestTheSameAnswerAgainIsAccepted(t *testing.T) {
	w := newServer(t, options{})
	c := w.dial()
	events := c.follow("x1.session.*.events")
	for id, ask := range map[chat.SessionID]string{"approval": `/approve rm {"path":"x"}`, "text": "/ask text"} {
		for _, named := range []bool{true, false} {
			id := chat.SessionID(fmt.Sprintf("%s-%t", id, named))
			c.say(id, Input, message(ask))
			e := events.until("the question", func(e *got) bool { return e.Session == id && strings.HasSuffix(e.Type, "_request") })
			p, _ := chat.AsPrompt(&e.Event)
			answer := func(key string) Message {
				request := ""
				if named || key == "late" {
					request = p.RequestID
				}
				return Message{Type: "user.input_response", ClientID: key, Payload: json.RawMessage(fmt.Sprintf(`{"text":"approve","request_id":%q}`, request))}
			}
			first := c.say(id, Input, answer("first"))
			events.until("the end", func(e *got) bool { return e.Session == id && e.Type == "turn.completed" })
			if again := c.say(id, Input, answer("first")); again.Sequence != first.Sequence {
				t.Errorf("%s: event %d, then %d", id, first.Sequence, again.Sequence)
			}
			for range 2 {
				if r := c.ask(id, Input, answer("late")); r.Error == nil || r.Error.Reason != chat.Conflict {
					t.Errorf("%s: the late answer gets %+v", id, r)
				}
			}
		}
	}
}

// A viewer that joins at any moment and loses one message in twenty sees every
// event once and in order, with what the envelope and history give it.
func TestViewersUnderLoss(t *testing.T) {
	w := newServer(t, options{})
	w.create("s1", chat.NoAgent)
	const total = 1500
	go func() {
		for i := range total / 5 {
			drafts := make([]chat.Draft, 5)
			for k := range drafts {
				drafts[k] = chat.NewDraft(chat.AgentStatus{Message: fmt.Sprint(i, k)})
			}
			if _, err := w.Sessions.Append(t.Context(), auth.Local, "s1", drafts); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	var wg sync.WaitGroup
	for v := range 4 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(7, uint64(v)))
			sleep.For(t.Context(), time.Duration(rnd.IntN(30))*time.Millisecond)
			c := w.dial()
			live := make(chan *nats.Msg, 4096)
			if _, err := c.ChanSubscribe(Subject("s1", Events), live); err != nil {
				t.Error(err)
				return
			}
			if err := c.Flush(); err != nil {
				t.Error(err)
				return
			}
			seen := chat.Seq(0)
			fill := func() bool {
				for {
					b, _ := json.Marshal(HistoryRequest{After: seen, Limit: 1000})
					m, err := c.Request(Subject("s1", History), b, testTimeout)
					var r HistoryReply
					if err == nil {
						err = json.Unmarshal(m.Data, &r)
					}
					if err != nil || r.Error != nil {
						t.Error(err, r.Error)
						return false
					}
					for _, raw := range r.Events {
						e, err := chat.ParseEvent(raw)
						if err != nil || e.Seq != seen+1 {
							t.Errorf("history has %d after %d (%v)", e.Seq, seen, err)
							return false
						}
						seen = e.Seq
					}
					if !r.More {
						return true
					}
				}
			}
			if !fill() {
				return
			}
			for seen < total+1 {
				select {
				case m := <-live:
					if rnd.IntN(20) == 0 {
						continue // lost
					}
					e, err := chat.ParseEvent(m.Data)
					if err != nil {
						t.Error(err)
						return
					}
					switch {
					case e.Seq <= seen:
					case e.Seq == seen+1:
						seen = e.Seq
					default:
						if !fill() {
							return
						}
					}
				case <-time.After(200 * time.Millisecond): // the last one may be lost
					if !fill() {
						return
					}
				}
			}
			if seen != total+1 {
				t.Errorf("viewer %d ended at %d", v, seen)
			}
		})
	}
	wg.Wait()
	w.complete("s1")
}

func TestPresenceReachesTheSidecar(t *testing.T) {
	w := newServer(t, options{})
	w.create("s1", chat.NoAgent)
	sidecar := w.with(w.credential("s1", "", Sidecar))
	pokes := sidecar.follow(Subject("s1", Presence))
	viewer := w.with(w.credential("s1", "", Viewer))
	for _, c := range []*client{viewer, w.dial()} {
		before := len(pokes.all())
		if err := c.Publish(Subject("s1", Presence), nil); err != nil {
			t.Fatal(err)
		}
		w.until("the poke comes", func() bool { return len(pokes.all()) == before+1 })
	}
}

// A viewer is connected to another node than the sidecar, which gets each presence message once.
func TestPresenceReachesTheSidecarAtAnotherNode(t *testing.T) {
	var nodes [2]*testServer
	var sent [2]atomic.Int32
	for i := range nodes {
		nodes[i] = newServer(t, options{change: func(o *Options) {
			o.Broadcast = func(data []byte) {
				sent[i].Add(1)
				nodes[1-i].dialect.ReceivePresence(data)
			}
		}})
		nodes[i].create("s1", chat.NoAgent)
	}
	sidecar := nodes[0].with(nodes[0].credential("s1", "", Sidecar))
	pokes := sidecar.follow(Subject("s1", Presence))
	viewer := nodes[1].with(nodes[1].credential("s1", "", Viewer))
	for i, c := range []*client{viewer, nodes[1].dial(), viewer} {
		data := fmt.Sprint("presence ", i)
		if err := c.Publish(Subject("s1", Presence), []byte(data)); err != nil {
			t.Fatal(err)
		}
		nodes[0].until("the poke comes", func() bool { return len(pokes.all()) > i })
		if m := pokes.all()[i]; string(m.Data) != data || len(pokes.all()) != i+1 {
			t.Fatalf("%d messages, the last one is %q", len(pokes.all()), m.Data)
		}
	}
	// A message of the sidecar goes the other way. It is handled behind the pokes, so none of them was sent back.
	heard := viewer.follow(Subject("s1", Presence))
	if err := sidecar.Publish(Subject("s1", Presence), []byte("alive")); err != nil {
		t.Fatal(err)
	}
	nodes[1].until("the viewer gets it", func() bool { return len(heard.all()) == 1 })
	if n := sent[0].Load(); n != 1 {
		t.Errorf("the node of the sidecar has sent %d messages to the other one", n)
	}
}

func TestTrafficRecordsAreStored(t *testing.T) {
	w := newServer(t, options{secured: true})
	alice := chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "alice"}, Scopes: []chat.Scope{chat.ScopeUser}}
	if _, _, err := w.Sessions.Create(t.Context(), alice, chat.NewSession{ID: "s1", Agent: chat.NoAgent}); err != nil {
		t.Fatal(err)
	}
	root := w.root()
	sidecar := w.with(w.credential("s1", tokenOf("root"), Sidecar))
	if r := sidecar.askMsg(&nats.Msg{Subject: Subject("s1", Traffic), Data: []byte(`{"method":"POST","route":"/graph","status":200}`)}); r.Error != nil {
		t.Fatal(r.Error)
	}
	if r := root.askMsg(&nats.Msg{Subject: "x1.audit.graph.query", Data: []byte(`{"session_id":"s2","ms":3}`)}); r.Error != nil {
		t.Fatal(r.Error)
	}
	if r := sidecar.askMsg(&nats.Msg{Subject: Subject("s1", Traffic), Data: []byte(`{"session_id":"s2"}`)}); r.Error == nil {
		t.Fatal("a record that names another session was taken")
	}
	var page trafficPage
	if code := w.call("GET", "/parley/v1/x1/audit", tokenOf("root"), nil, &page); code != 200 || len(page.Records) != 2 || page.Records[0].Subject != "x1.audit.graph.query" {
		t.Fatal(code, page)
	}
	if r := page.Records[1]; r.By == nil || r.By.ID != "root" || r.Session != "s1" {
		t.Fatalf("%+v", r)
	}
	if code := w.call("GET", "/parley/v1/x1/audit?session=s1", tokenOf("alice"), nil, &page); code != 200 || len(page.Records) != 1 {
		t.Fatal(code, page)
	}
	for path, want := range map[string]int{"/parley/v1/x1/audit": 403, "/parley/v1/x1/audit?session=s1": 404} {
		if code := w.call("GET", path, tokenOf("bob"), nil, nil); code != want {
			t.Errorf("%s: %d", path, code)
		}
	}
	if code := w.call("GET", "/parley/v1/x1/audit?limit=x", tokenOf("root"), nil, nil); code != 400 {
		t.Error(code)
	}
}

func TestSummariesAreStored(t *testing.T) {
	w := newServer(t, options{change: func(o *Options) { o.Summaries = true }})
	c := w.dial()
	for i := range summaryEvents {
		c.say("s1", Input, message(fmt.Sprint("number ", i)))
	}
	w.until("the summary is there", func() bool {
		s, err := w.Sessions.Get(t.Context(), auth.Local, "s1")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(s.Summary, "Asked: ")
	})
}
