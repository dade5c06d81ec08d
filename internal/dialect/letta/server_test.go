package letta

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/demo"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/dialect/letta/stream"
	"github.com/parley-hq/parley/internal/servertest"
	"github.com/parley-hq/parley/internal/session"
)

// testServer is a server in the process with this dialect.
type testServer struct {
	*servertest.Server
	t       testing.TB
	dialect *Dialect
	setup   setup
	user    string // the user whose token requests have
}

// setup is the difference from an open server with the demo agent.
type setup struct {
	secured       bool
	ignoresErased bool // Erased is not called
	dir           string
	agents        map[string]agent.Agent
	cluster       *servertest.Cluster // nil is a single server
	change        func(*Options)
}

func newTestServer(t testing.TB, s setup) *testServer {
	t.Helper()
	o := servertest.Options{Dir: s.dir, Agents: s.agents, Cluster: s.cluster}
	if s.secured {
		o.Tokens = []auth.Token{servertest.User("alice"), servertest.User("bob")}
	}
	h := servertest.Open(t, o)
	w := &testServer{Server: h, t: t, setup: s}
	names := append([]string{demo.Name}, slices.Collect(maps.Keys(s.agents))...)
	opt := Options{
		Sessions: h.Sessions, Files: h.Files, Caller: h.Auth.Caller, Conns: h.Conns, Agents: func(string) []string { return names },
		Agent: func() string { return demo.Name }, Version: "test", OtherNodes: s.cluster != nil,
	}
	if s.change != nil {
		s.change(&opt)
	}
	w.dialect = New(opt)
	h.Sessions.Observe(session.Observer{Published: w.dialect.Published})
	if !s.ignoresErased {
		h.Erased = w.dialect.Erased
	}
	h.Serve(w.dialect.Routes(), w.dialect.Run)
	return w
}

// restart closes the server and starts another one with the same data.
func (w *testServer) restart() *testServer {
	w.Close()
	s := w.setup
	s.dir = w.Dir
	next := newTestServer(w.t, s)
	next.user = w.user
	return next
}

// call makes a request; body is JSON, or "".
func (w *testServer) call(method, path, body string, header ...string) *http.Response {
	w.t.Helper()
	return w.Send(method, path, body, w.authorized(header)...)
}

func (w *testServer) authorized(header []string) []string {
	if w.user == "" {
		return header
	}
	return append([]string{"Authorization", "Bearer " + servertest.TokenOf(w.user)}, header...)
}

// do makes a request and returns its status and body.
func (w *testServer) do(method, path, body string, header ...string) (int, string) {
	w.t.Helper()
	code, got, _ := w.Call(method, path, body, w.authorized(header)...)
	return code, got
}

// get makes a request that must succeed and decodes the answer.
func get[T any](w *testServer, method, path, body string) (v T) {
	w.t.Helper()
	code, b := w.do(method, path, body)
	if code != http.StatusOK {
		w.t.Fatalf("%s %s: %d %s", method, path, code, b)
	}
	if err := json.Unmarshal([]byte(b), &v); err != nil {
		w.t.Fatalf("%s %s: %v: %s", method, path, err, b)
	}
	return v
}

type object = map[string]any

// agent creates an agent and returns its id.
func (w *testServer) agent(body string) string {
	w.t.Helper()
	if body == "" {
		body = `{"name":"ann","model":"parley/demo"}`
	}
	return get[object](w, "POST", "/v1/agents/", body)["id"].(string)
}

// message is a body with one message.
func message(text, more string) string {
	b, _ := json.Marshal(text)
	return `{"messages":[{"role":"user","content":` + string(b) + `}]` + more + `}`
}

// say sends a message and returns the answer.
func (w *testServer) say(agentID, text string) answer {
	w.t.Helper()
	return get[answer](w, "POST", "/v1/agents/"+agentID+"/messages", message(text, ""))
}

// answer is the answer to a message.
type answer struct {
	Messages []frame
	Stop     struct {
		Reason string `json:"stop_reason"`
	} `json:"stop_reason"`
}

// frame is a message as a client sees it.
type frame struct {
	ID, OTID string
	Type     string `json:"message_type"`
	Step     string `json:"step_id"`
	Run      string `json:"run_id"`
	Seq      int64  `json:"seq_id"`
	Content  any
	Thought  string `json:"reasoning"`
	Stop     string `json:"stop_reason"`
	Status   string
	Return   string `json:"tool_return"`
	Call     struct {
		Name string
		Args string `json:"arguments"`
		ID   string `json:"tool_call_id"`
	} `json:"tool_call"`
	Err    string `json:"error_type"`
	Prompt int    `json:"prompt_tokens"`
	event  string
}

// text returns the agent's text.
func (a answer) text() string { return textOf(a.Messages) }

func textOf(list []frame) string {
	var s strings.Builder
	for _, m := range list {
		if m.Type == stream.KindAssistant {
			s.WriteString(m.Content.(string))
		}
	}
	return s.String()
}

// reader reads a stream.
type reader struct {
	t     testing.TB
	res   *http.Response
	lines *bufio.Scanner
	done  bool // [DONE] came
}

func (w *testServer) open(path, body string) *reader {
	w.t.Helper()
	res := w.call("POST", path, body)
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		w.t.Fatalf("%s: %d %s", path, res.StatusCode, b)
	}
	r := &reader{t: w.t, res: res, lines: bufio.NewScanner(res.Body)}
	r.lines.Buffer(nil, 1<<20)
	w.t.Cleanup(r.drop)
	return r
}

func (r *reader) drop() { r.res.Body.Close() }

// next reads one frame; ok is false at the end.
func (r *reader) next() (m frame, ok bool) {
	r.t.Helper()
	event := ""
	for r.lines.Scan() {
		line := r.lines.Text()
		if name, found := strings.CutPrefix(line, "event: "); found {
			event = name
		}
		data, found := strings.CutPrefix(line, "data: ")
		if !found {
			continue
		}
		if data == "[DONE]" {
			r.done = true
			return m, false
		}
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			r.t.Fatalf("%s: %v", data, err)
		}
		m.event = event
		return m, true
	}
	return m, false
}

// rest reads the frames up to the end, without pings.
func (r *reader) rest() (out []frame) {
	r.t.Helper()
	defer r.drop()
	for {
		m, ok := r.next()
		if !ok {
			return out
		}
		if m.Type != stream.KindPing {
			out = append(out, m)
		}
	}
}

// readAll lists the types of a session's events.
func readAll(w *testServer, id string) (types []string, err error) {
	facts, _, err := w.Sessions.Read(w.t.Context(), owner, chat.SessionID(id), chat.Range{Limit: 1000})
	for _, f := range facts {
		e, err := f.Event()
		if err != nil {
			return nil, err
		}
		line := e.Type
		if e.ClientID != "" && e.Actor.Kind == chat.User {
			line += " client_id=" + e.ClientID
		}
		if e.Via != "" {
			line += " via=" + e.Via
		}
		types = append(types, line)
	}
	return types, err
}
