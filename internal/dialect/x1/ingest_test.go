package x1

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
)

// x1Sidecar publishes events with a counter of its own, and archive copies.
type x1Sidecar struct {
	*client
	id     chat.SessionID
	n      int64
	buffer [][2]string
}

// restart restarts the sidecar: it sends its agent's buffer again.
func (s *x1Sidecar) restart() {
	s.n = 0
	for _, e := range s.buffer {
		s.publish(e[0], e[1])
	}
}

func (s *x1Sidecar) publish(typ, payload string) {
	s.w.t.Helper()
	b := encoded(s.id, event(typ, payload, s.n))
	s.n++
	for _, k := range []Kind{Events, Archive} {
		if err := s.Publish(Subject(s.id, k), b); err != nil {
			s.w.t.Fatal(err)
		}
	}
	s.flush()
}

// sayBuffered sends an event of the agent's stream, which is in the replay buffer.
func (s *x1Sidecar) sayBuffered(typ, payload string) {
	s.w.t.Helper()
	s.buffer = append(s.buffer, [2]string{typ, payload})
	s.publish(typ, payload)
}

// texts are the agent texts of a log.
func texts(list []chat.Event) (out []string) {
	for _, e := range list {
		if b, ok := e.Body.(chat.AgentText); ok {
			out = append(out, b.Text)
		}
	}
	return out
}

func TestX1Sidecars(t *testing.T) {
	for _, login := range []string{"", sidecarUser} {
		t.Run("as "+cmp.Or(login, "anybody"), func(t *testing.T) {
			w := newServer(t, options{})
			var opts []nats.Option
			if login != "" {
				opts = append(opts, nats.UserInfo(login, ""))
			}
			viewer := w.dial()
			events := viewer.follow("x1.session.*.events")
			s := &x1Sidecar{client: w.dial(opts...), id: "old"}
			s.publish("session.started", `{"agent_id":"coder","session_id":"old","mcp_servers":[]}`)
			s.sayBuffered("agent.text", `{"text":"one"}`)
			s.publish("agent.status", `{"status":"working"}`)
			s.sayBuffered("agent.text", `{"text":"two"}`)
			s.sayBuffered("agent.tool_call", `{"tool_name":"look","tool_use_id":"u1","input":{}}`)
			s.restart() // its counter is at 0 again, and all but the status comes again
			s.sayBuffered("agent.text", `{"text":"three"}`)
			s.sayBuffered("agent.text", `{"text":"one"}`) // said again, for real
			s.sayBuffered("session.completed", `{}`)
			last := events.until("the end", typ("session.completed"))
			want := []string{"session.started", "session.started", "agent.text", "agent.status", "agent.text", "agent.tool_call", "agent.text", "agent.text", "session.completed"}
			var have []string
			for i, e := range events.events() {
				have = append(have, e.Type)
				if e.Seq != chat.Seq(i+1) {
					t.Fatalf("place %d has number %d", i, e.Seq)
				}
			}
			if !slices.Equal(have, want) {
				t.Fatalf("viewers saw %v", have)
			}
			if got := texts(w.Events("old")); !slices.Equal(got, []string{"one", "two", "three", "one"}) {
				t.Fatal(got)
			}
			if e := w.Events("old")[2]; e.Actor != (chat.Actor{Kind: chat.Agent, ID: "coder"}) {
				t.Fatalf("%+v", e.Actor)
			}
			w.complete("old")
			if n := len(events.events()); last.Seq != chat.Seq(n) {
				t.Fatal(last.Seq, n)
			}
		})
	}
}

// A restart of the server does not change how a replay is recognised.
func TestReplayAfterAServerRestart(t *testing.T) {
	dir := t.TempDir()
	w := newServer(t, options{dir: dir})
	s := &x1Sidecar{client: w.dial(), id: "old"}
	for i := range 30 {
		s.sayBuffered("agent.text", fmt.Sprintf(`{"text":"%d"}`, i))
	}
	w.until("all are stored", func() bool { return len(texts(w.Events("old"))) == 30 })
	w.close()
	w = newServer(t, options{dir: dir})
	s.client = w.dial()
	s.restart()
	s.sayBuffered("agent.text", `{"text":"new"}`)
	w.until("the new one is stored", func() bool { l := texts(w.Events("old")); return l[len(l)-1] == "new" })
	if n := len(texts(w.Events("old"))); n != 31 {
		t.Fatalf("%d texts", n)
	}
	w.complete("old")
}

// The server is restarted in the replay of a buffer that has lost its first events.
func TestServerRestartDuringAReplay(t *testing.T) {
	dir := t.TempDir()
	w := newServer(t, options{dir: dir})
	s := &x1Sidecar{client: w.dial(), id: "old"}
	for i := range 20 {
		s.sayBuffered("agent.text", fmt.Sprintf(`{"text":"%d"}`, i))
	}
	w.until("all are stored", func() bool { return len(texts(w.Events("old"))) == 20 })
	whole := s.buffer[8:]
	s.buffer = whole[:6]
	s.restart()
	w.close()
	w = newServer(t, options{dir: dir})
	s.client = w.dial()
	for _, e := range whole[6:] {
		s.publish(e[0], e[1])
	}
	s.sayBuffered("agent.text", `{"text":"19"}`) // said again, for real
	s.sayBuffered("agent.text", `{"text":"done"}`)
	w.until("the new ones are stored", func() bool { l := texts(w.Events("old")); return l[len(l)-1] == "done" })
	if l := texts(w.Events("old")); len(l) != 22 || l[20] != "19" {
		t.Fatalf("%d texts: %q", len(l), l)
	}
	w.complete("old")
}

func TestAJetStreamPublisherIsAnswered(t *testing.T) {
	w := newServer(t, options{})
	js, err := jetstream.New(w.dial().Conn)
	if err != nil {
		t.Fatal(err)
	}
	ack, err := js.Publish(t.Context(), Subject("s1", Archive), encoded("s1", event("agent.text", `{"text":"x"}`, 0)))
	if err != nil || ack.Stream != ArchiveStream {
		t.Fatal(ack, err)
	}
	w.complete("s1")
}

func TestUserMessagesArePublishedOnInput(t *testing.T) {
	w := newServer(t, options{})
	s := &x1Sidecar{client: w.dial(nats.UserInfo(sidecarUser, "")), id: "s1"}
	input := s.follow(Subject("s1", Input))
	s.publish("session.started", `{"agent_id":"coder"}`)
	s.publish("agent.permission_request", `{"scopes":["repo:write","mail"],"justification":"to push"}`)
	s.sayBuffered("agent.input_request", `{"question":"which?","options":["a","b"],"request_id":"q1"}`)
	w.until("the questions are stored", func() bool { return len(w.Events("s1")) == 4 })
	permission := w.Events("s1")[2].Body.(chat.AgentPermissionRequest).RequestID

	// By NATS, by another dialect, and a decision.
	c := w.dial()
	c.say("s1", Input, message("from NATS"))
	w.append("s1", chat.UserMessage{Text: "from elsewhere"})
	c.say("s1", Input, Message{Type: "user.input_response", Payload: json.RawMessage(`{"answer":"b","request_id":"q1"}`)})
	if _, err := w.Sessions.Answer(t.Context(), auth.Local, "s1", permission, chat.Answer{Granted: &[]string{"mail"}}); err != nil {
		t.Fatal(err)
	}
	input.until("the decision", upTo(8))
	var have []string
	for i, m := range input.all() {
		var e Message
		if err := json.Unmarshal(m.Data, &e); err != nil {
			t.Fatal(err)
		}
		if m.Header.Get(HeaderSequence) != fmt.Sprint(5+i) || *e.Sequence != int64(5+i) {
			t.Fatalf("message %d has the number %s", i, m.Header.Get(HeaderSequence))
		}
		have = append(have, e.Type+" "+e.userFields().Text)
	}
	want := []string{"user.message from NATS", "user.message from elsewhere", "user.input_response b", "user.message Permission granted: mail; denied: repo:write"}
	if !slices.Equal(have, want) {
		t.Fatalf("the sidecar was delivered %q", have)
	}

	// The agent echoes all of it, as its history; none becomes a second fact.
	s.sayBuffered("user.message", `{"text":"from NATS","source":"user"}`)
	s.sayBuffered("user.message", `{"text":"from elsewhere"}`)
	s.sayBuffered("user.input_response", `{"answer":"b","request_id":"q1"}`)
	s.sayBuffered("user.message", `{"text":"Permission granted: mail; denied: repo:write","is_synthetic":true}`)
	s.sayBuffered("agent.text", `{"text":"all right"}`)
	s.restart()
	s.sayBuffered("agent.text", `{"text":"go on"}`)
	w.until("the agent goes on", func() bool { return strings.Join(texts(w.Events("s1")), "|") == "all right|go on" })
	facts := 0
	for _, e := range w.Events("s1") {
		if strings.HasPrefix(e.Type, "user.") {
			facts++
		}
	}
	if facts != 4 {
		t.Fatalf("%d user facts", facts)
	}
	w.complete("s1")
}

// Echoes of user messages in a replay buffer, at its beginning, at its end or twice, are not
// stored and not delivered again, and the events between them are not stored twice. The same
// holds after a restart of the server.
func TestAReplayThatBeginsWithAnEcho(t *testing.T) {
	dir := t.TempDir()
	w := newServer(t, options{dir: dir})
	login := nats.UserInfo(sidecarUser, "")
	s := &x1Sidecar{client: w.dial(login), id: "s1"}
	s.publish("session.started", `{"agent_id":"coder"}`)
	w.until("it has started", func() bool { return len(w.Events("s1")) == 2 })
	input := s.follow(Subject("s1", Input))
	ask := func(text string) {
		w.append("s1", chat.UserMessage{Text: text})
		var n chat.Seq
		for _, e := range w.Events("s1") {
			if e.Type == "user.message" { // the agent may have said more meanwhile
				n = e.Seq
			}
		}
		input.until("the input "+text, upTo(n))
		s.sayBuffered("user.message", fmt.Sprintf(`{"text":%q,"source":"user"}`, text))
	}
	var said []string
	answer := func(text string) {
		s.sayBuffered("agent.text", fmt.Sprintf(`{"text":%q}`, text))
		said = append(said, text)
		w.until(text+" is stored", func() bool { return len(texts(w.Events("s1"))) >= len(said) })
	}
	check := func(when string, users int) {
		t.Helper()
		facts := 0
		for _, e := range w.Events("s1") {
			if e.Type == "user.message" {
				facts++
			}
		}
		if have := texts(w.Events("s1")); facts != users || !slices.Equal(have, said) {
			t.Fatalf("%s: %d user facts, texts %q", when, facts, have)
		}
	}
	ask("hi")
	answer("hello")
	ask("hi")
	answer("hello")
	s.publish("agent.status", `{"message":"busy"}`)
	ask("bye")
	s.restart()
	answer("one")
	check("after a restart of the sidecar", 3)
	w.close()

	w = newServer(t, options{dir: dir})
	s.client = w.dial(login)
	input = s.follow(Subject("s1", Input))
	s.restart()
	answer("two")
	check("after a restart of both", 3)
	ask("hi") // said again, for real
	answer("hello")
	check("after more was said", 4)
	if n := len(input.all()); n != 1 {
		t.Errorf("the sidecar was delivered %d times", n)
	}
	w.complete("s1")
}

// A user message that the agent itself made, such as the prompt it was started with, is
// stored and not delivered to the agent.
func TestAnAgentsOwnPromptIsNotSentToIt(t *testing.T) {
	w := newServer(t, options{})
	s := &x1Sidecar{client: w.dial(nats.UserInfo(sidecarUser, "")), id: "s1"}
	input := s.follow(Subject("s1", Input))
	s.sayBuffered("user.message", `{"text":"do it"}`)
	s.sayBuffered("agent.text", `{"text":"done"}`)
	s.restart()
	s.sayBuffered("agent.text", `{"text":"more"}`)
	w.until("all is stored", func() bool { return slices.Equal(texts(w.Events("s1")), []string{"done", "more"}) })
	w.append("s1", chat.UserMessage{Text: "thanks"})
	input.until("what a person says", upTo(5))
	if n, stored := len(input.all()), len(w.Events("s1")); n != 1 || stored != 5 {
		t.Fatalf("delivered %d times, %d events", n, stored)
	}
}

func TestAClientIDIsStoredOnce(t *testing.T) {
	w := newServer(t, options{})
	w.create("s1", chat.NoAgent)
	c := w.with(w.credential("s1", "", Sidecar))
	m := event("agent.text", `{"text":"same"}`, 0)
	m.ClientID = "a"
	one := c.say("s1", Events, m)
	if again := c.say("s1", Events, m); again.Sequence != one.Sequence {
		t.Fatal(again)
	}
	m.ClientID = "b"
	if other := c.say("s1", Events, m); other.Sequence != one.Sequence+1 {
		t.Fatal(other)
	}
}

// An agent's name is stored when the agent sends it, also after its first event. A name that
// its token may not serve, and the name in the metadata, do not count.
func TestTheAgentNameIsStored(t *testing.T) {
	w := newServer(t, options{secured: true})
	w.begin("s1", chat.Member{Actor: chat.Actor{Kind: chat.User, ID: "agent"}, Role: chat.Answerer})
	c := w.with(w.credential("s1", tokenOf("agent"), Sidecar))
	for i, m := range []Message{
		event("agent.text", `{"text":"hi"}`, 0), event("session.started", `{"agent_id":"coder"}`, 1), event("session.started", `{"agent_id":"agent"}`, 2),
		event("session.started", `{"agent_id":"another"}`, 3),
	} {
		m.ClientID = fmt.Sprint("k", i)
		c.say("s1", Events, m)
	}
	sess, err := w.Sessions.Get(t.Context(), chat.Trusted, "s1")
	if err != nil || sidecarOf(&sess) != (sidecarMeta{Sidecar: true, AgentID: "agent"}) || sess.ServedBy != "agent" {
		t.Fatalf("%s %q %v", sess.Metadata, sess.ServedBy, err)
	}
	alice := chat.Caller{Actor: sess.Owner, Scopes: []chat.Scope{chat.ScopeUser}}
	forged := chat.SessionUpdated{Metadata: json.RawMessage(`{"x1":{"sidecar":true,"agent_id":"coder"}}`)}
	if sess, err = w.Sessions.Update(t.Context(), alice, "s1", forged); err != nil || sidecarOf(&sess).AgentID != "agent" {
		t.Fatalf("%+v %v", sess, err)
	}
	if n := len(texts(w.Events("s1"))); n != 1 {
		t.Error(n)
	}
}

func TestTransientHintsTakeNoNumber(t *testing.T) {
	w := newServer(t, options{})
	s := &x1Sidecar{client: w.dial(), id: "s1"}
	delta := w.dial().follow(Subject("s1", Delta))
	s.publish("agent.text", `{"text":"x"}`)
	s.publish("session.agent_thinking", `{"event_id":"e"}`)
	s.publish("session.agent_thinking_cancelled", `{"event_id":"e"}`)
	s.publish("agent.text", `{"text":"y"}`)
	w.until("the rest is stored", func() bool { return len(w.Events("s1")) == 3 })
	w.until("the hints come", func() bool { return len(delta.all()) >= 2 })
	for i, want := range []string{"session.agent_thinking", "session.agent_thinking_cancelled"} {
		var m Message
		if err := json.Unmarshal(delta.all()[i].Data, &m); err != nil || m.Type != want || m.Sequence != nil {
			t.Errorf("%d: %s %v", i, delta.all()[i].Data, err)
		}
	}
}

func TestBadEventsOfASidecarDoNotHoldUpGoodOnes(t *testing.T) {
	w := newServer(t, options{})
	s := &x1Sidecar{client: w.dial(), id: "s1"}
	s.publish("agent.text", `{"text":"a"}`)
	s.publish("turn.completed", `{}`)
	s.publish("Not A Type", `{}`)
	s.publish("agent.tool_call", `{}`)
	s.publish("agent.text", `{"text":5}`)
	s.publish("agent.text", `{"text":"b"}`)
	w.until("the good ones are stored", func() bool { return slices.Equal(texts(w.Events("s1")), []string{"a", "b"}) })
	if n := len(w.Events("s1")); n != 3 {
		t.Fatalf("%d events", n)
	}
}

func TestEvictedSidecarSessionsAreReadFromTheLog(t *testing.T) {
	w := newServer(t, options{})
	s := &x1Sidecar{client: w.dial(), id: "old"}
	s.sayBuffered("agent.text", `{"text":"a"}`)
	s.sayBuffered("agent.text", `{"text":"b"}`)
	w.until("both are stored", func() bool { return len(texts(w.Events("old"))) == 2 })
	a := w.dialect.sidecars
	for i := range maxSidecarSessions + 1 {
		a.add(chat.SessionID(fmt.Sprint("other-", i)), "")
	}
	a.mu.Lock()
	n := len(a.known)
	a.mu.Unlock()
	if n != maxSidecarSessions {
		t.Fatalf("%d are kept", n)
	}
	a.forget("old")
	s.restart()
	s.sayBuffered("agent.text", `{"text":"c"}`)
	w.until("the new one is stored", func() bool { l := texts(w.Events("old")); return l[len(l)-1] == "c" })
	if got := texts(w.Events("old")); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Fatal(got)
	}
}

// Agents of x1 report the prompt without its cached tokens. The stored event has the whole
// prompt, viewers get the numbers that were sent, and a replay is recognised.
func TestCachedTokensAreStoredAsInput(t *testing.T) {
	w := newServer(t, options{})
	side, viewer := w.dial(), w.dial()
	events := viewer.follow(Subject("s1", Events))
	const sent = `{"model":"m","input_tokens":5,"output_tokens":7,"cache_creation_input_tokens":20,"cache_read_input_tokens":100,"extra":[1]}`
	for _, at := range []string{"2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"} {
		sequence := int64(0)
		side.say("s1", Events, Message{Sequence: &sequence, Timestamp: at, Type: "agent.usage", Payload: json.RawMessage(sent)})
	}
	side.say("s1", Events, Message{Type: "agent.text", Payload: json.RawMessage(`{"text":"done"}`)})
	events.until("the text", typ("agent.text"))
	var got []chat.AgentUsage
	for _, e := range w.Events("s1") {
		if b, ok := e.Body.(chat.AgentUsage); ok {
			got = append(got, b)
		}
	}
	want := chat.Usage{InputTokens: 125, OutputTokens: 7, CacheCreationTokens: 20, CacheReadTokens: 100}
	if len(got) != 1 || got[0].Usage != want || got[0].Model != "m" {
		t.Fatalf("stored is %+v", got)
	}
	seen := events.until("the usage", typ("agent.usage"))
	if DigestOf("agent.usage", seen.Payload) != DigestOf("agent.usage", json.RawMessage(sent)) {
		t.Fatalf("viewers get %s", seen.Payload)
	}
	w.complete("s1")
}
