package aisdk

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/internal/pages"
	"github.com/parley-hq/parley/internal/servertest"
)

// testServer is a server in the process with this dialect.
type testServer struct {
	*servertest.Server
	t       testing.TB
	dialect *Dialect
	user    string // whose token requests have; "" on an open server
}

func newTestServer(t testing.TB, agents map[string]agent.Agent, users ...string) *testServer {
	t.Helper()
	return newTestServerIn(t, nil, agents, users...)
}

// newTestServerIn is newTestServer for a node of a cluster; nil means a single server.
func newTestServerIn(t testing.TB, c *servertest.Cluster, agents map[string]agent.Agent, users ...string) *testServer {
	t.Helper()
	o := servertest.Options{Agents: agents, Cluster: c}
	for _, u := range users {
		o.Tokens = append(o.Tokens, servertest.User(u))
	}
	s := &testServer{Server: servertest.Open(t, o), t: t}
	if len(users) > 0 {
		s.user = users[0]
	}
	s.dialect = New(Options{
		Options:       pages.Options{Sessions: s.Sessions, Files: s.Files, Caller: s.Auth.Caller, Conns: s.Conns},
		SocketOptions: SocketOptions{Authenticate: s.Auth.Authenticate, Bind: s.Auth.Context, ClientAddress: s.Auth.ClientAddress},
	})
	s.Serve(s.dialect.Routes())
	return s
}

func (s *testServer) header() []string {
	h := []string{"Content-Type", "application/json"}
	if s.user != "" {
		h = append(h, "Authorization", "Bearer "+servertest.TokenOf(s.user))
	}
	return h
}

// response is the chunks of a response.
type response struct {
	status int
	run    string
	text   string // of an error
	chunks []map[string]any
}

// read reads a response to its end, or n chunks of it; n 0 means all.
func (s *testServer) read(res *http.Response, n int) response {
	s.t.Helper()
	defer res.Body.Close()
	out := response{status: res.StatusCode, run: res.Header.Get("X-Workflow-Run-Id")}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok && res.StatusCode != http.StatusOK:
			out.text += lines.Text()
		case ok && data != "[DONE]":
			var c map[string]any
			if err := json.Unmarshal([]byte(data), &c); err != nil {
				s.t.Fatalf("%q: %v", data, err)
			}
			if out.chunks = append(out.chunks, c); len(out.chunks) == n {
				return out
			}
		}
	}
	if lines.Err() != nil {
		s.t.Fatal(lines.Err())
	}
	return out
}

func (s *testServer) post(body string) response {
	s.t.Helper()
	return s.read(s.Send("POST", "/api/chat", body, s.header()...), 0)
}

func (s *testServer) get(path string) response {
	s.t.Helper()
	return s.read(s.Send("GET", path, "", s.header()...), 0)
}

// say sends a user message.
func (s *testServer) say(chatID, id, text string) response {
	s.t.Helper()
	return s.post(userMessage(chatID, id, text))
}

func userMessage(chatID, id, text string) string {
	return fmt.Sprintf(`{"id":%q,"trigger":"submit-message","messages":[{"id":%q,"role":"user","parts":[{"type":"text","text":%q}]}]}`, chatID, id, text)
}

// answer sends an assistant message with a part.
func (s *testServer) answer(chatID, message, part string) response {
	s.t.Helper()
	return s.post(fmt.Sprintf(`{"id":%q,"trigger":"submit-message","messageId":%q,"messages":[{"id":%q,"role":"assistant","parts":[{"type":"step-start"},%s]}]}`,
		chatID, message, message, part))
}

func (r *response) types() (types []string) {
	for _, c := range r.chunks {
		types = append(types, c["type"].(string))
	}
	return types
}

// words is the text of a response.
func (r *response) words() string {
	var text strings.Builder
	for _, c := range r.chunks {
		if c["type"] == chunkTextDelta {
			text.WriteString(c["delta"].(string))
		}
	}
	return text.String()
}

// find returns the first chunk of a type.
func (r *response) find(t testing.TB, typ string) map[string]any {
	t.Helper()
	i := slices.IndexFunc(r.chunks, func(c map[string]any) bool { return c["type"] == typ })
	if i < 0 {
		t.Fatalf("no chunk %s in %v (%d %s)", typ, r.types(), r.status, r.text)
	}
	return r.chunks[i]
}

func (r *response) id(t testing.TB) string { return r.find(t, chunkStart)["messageId"].(string) }

// finish is the reason in the last chunk.
func (r *response) finish(t testing.TB) string {
	t.Helper()
	last := r.chunks[len(r.chunks)-1]
	if last["type"] != chunkFinish {
		t.Fatalf("the last chunk is %v", last)
	}
	return last["finishReason"].(string)
}
