// Test support: one session that clients of every dialect use.

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/dialecttest"
	"github.com/parley-hq/parley/internal/freeport"
)

// dialects are the dialects in which a client can send a message.
var dialects = dialecttest.Dialects

// line is one message of a conversation in a form that all dialects have in common.
func line(who, text string) string { return who + ": " + text }

// messagesIn returns the messages in a list of events, without those of workstreams.
func messagesIn(events []chat.Event) (list []string) {
	for _, e := range events {
		if e.Workstream != "" {
			continue
		}
		switch b := e.Body.(type) {
		case chat.UserMessage:
			list = append(list, line("user", b.Text))
		case chat.AgentText:
			list = append(list, line("agent", b.Text))
		}
	}
	return list
}

// followNative follows the session with the Go client. The context
// ends after four minutes, so that a test that hangs fails.
func (s *sharedSession) followNative(t *testing.T) (*reader, context.Context) {
	t.Helper()
	c, r := s.connect(""), newReader("native")
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	watched := make(chan error, 1)
	go func() { watched <- r.watchClient(ctx, c, chat.SessionID(s.id)) }()
	t.Cleanup(func() { cancel(); <-watched })
	return r, ctx
}

// lettaList returns Letta's list of messages.
func (s *sharedSession) lettaList() (list []string) {
	s.t.Helper()
	var rows []struct {
		Type    string `json:"message_type"`
		Content any    `json:"content"`
	}
	if err := json.Unmarshal([]byte(s.get("/v1/conversations/"+s.id+"/messages?order=asc&limit=1000")), &rows); err != nil {
		s.t.Fatal(err)
	}
	for _, r := range rows {
		switch r.Type {
		case "user_message":
			list = append(list, line("user", fmt.Sprint(r.Content)))
		case "assistant_message":
			list = append(list, line("agent", fmt.Sprint(r.Content)))
		}
	}
	return list
}

// nth matches the n-th event of a type on the main line.
func nth(typ string, n int) func(chat.Event) bool {
	return func(e chat.Event) bool {
		if e.Type == typ && e.Workstream == "" {
			n--
			return n == 0
		}
		return false
	}
}

// mainDone matches the end of a turn of the main line.
func mainDone(e chat.Event) bool { return e.Type == "turn.completed" && e.Workstream == "" }

// quoted encodes a text as JSON.
func quoted(s string) string { return dialecttest.Quote(s) }

// sharedSession is a server with one session that clients of all dialects use.
type sharedSession struct {
	*process
	id   string
	bus  string
	nc   *nats.Conn
	nemo *nemoClient // sends the messages of the dialect nemo
}

// startShared starts a server and a session.
func startShared(t *testing.T, data string, args ...string) *sharedSession {
	t.Helper()
	bus := freeport.Addr(t)
	s := &sharedSession{process: serveAt(t, freeport.Addr(t), data, append(args, "--nats", bus)...), id: "shared", bus: bus}
	s.post("/parley/v1/sessions", `{"id":"shared"}`)
	s.nc = connectNATS(t, bus)
	return s
}

// restart kills the server and starts it on the same data and addresses.
func (s *sharedSession) restart(data string) {
	s.kill()
	s.process = serveAt(s.t, s.addr, data, "--nats", s.bus)
}

// sendMessage sends a message as a client of the dialect does.
func (s *sharedSession) sendMessage(dialect, text string) {
	s.t.Helper()
	switch dialect {
	case "native":
		s.post("/parley/v1/sessions/"+s.id+"/events", `{"type":"user.message","payload":{"text":`+quoted(text)+`}}`)
	case "vertesia":
		s.post("/api/v1/agents/"+s.id+"/signal/UserInput", `{"message":`+quoted(text)+`}`)
	case "letta":
		// The answer is the stream of the run; post reads it to the end.
		s.post("/v1/conversations/"+s.id+"/messages", `{"messages":[{"role":"user","content":`+quoted(text)+`}],"streaming":true,"background":true}`)
	case "agui":
		// The answer is the stream of the run; post reads it to the end.
		s.post("/ag-ui/default", aguiSend(s.id, text))
	case "aisdk":
		// The answer is the assistant's message; post reads it to the end.
		s.post("/api/chat", aisdkSend(s.id, text))
	case "x1":
		if r := s.input("user.message", `{"text":`+quoted(text)+`}`); r.Error != nil {
			s.t.Fatalf("x1 refuses %q: %+v", text, r.Error)
		}
	case "nemo":
		s.nemo.sendMessage(s.t, s.id, text)
	default:
		s.t.Fatalf("unknown dialect %q", dialect)
	}
}

// input publishes on the session's input subject and waits for the reply.
func (s *sharedSession) input(typ, payload string) (r x1.Reply) {
	s.t.Helper()
	m, err := s.nc.Request(x1.Subject(chat.SessionID(s.id), x1.Input), []byte(`{"session_id":"`+s.id+`","type":"`+typ+`","payload":`+payload+`}`), 30*time.Second)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(m.Data, &r); err != nil {
		s.t.Fatalf("%v: %s", err, m.Data)
	}
	return r
}
