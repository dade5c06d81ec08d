package agui

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/demo"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/pages"
	"github.com/parley-hq/parley/internal/servertest"
	"github.com/parley-hq/parley/internal/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testServer is a server in the process with this dialect.
type testServer struct {
	*servertest.Server
	t    testing.TB
	user string // the user whose token requests have
}

// setup is the difference from an open server with the demo agent.
type setup struct {
	secured bool
	dir     string
	agents  map[string]agent.Agent
	cluster *servertest.Cluster                    // nil is a single server
	between func(*session.Sessions) pages.Sessions // replaces the session layer
}

func newTestServer(t testing.TB, s setup) *testServer {
	t.Helper()
	o := servertest.Options{Dir: s.dir, Agents: s.agents, Cluster: s.cluster}
	if s.secured {
		o.Tokens = []auth.Token{servertest.User("alice"), servertest.User("bob")}
	}
	h := servertest.Open(t, o)
	names := append([]string{demo.Name}, slices.Collect(maps.Keys(s.agents))...)
	var layer pages.Sessions = h.Sessions
	if s.between != nil {
		layer = s.between(h.Sessions)
	}
	d := New(Options{
		Options: pages.Options{Sessions: layer, Files: h.Files, Caller: h.Auth.Caller, Conns: h.Conns, Agents: func(string) []string { return names }},
		Version: "test",
	})
	h.Serve(d.Routes())
	return &testServer{Server: h, t: t}
}

// got is a frame as a client reads it.
type got struct {
	id   string
	json string
	gotEvent
}

type gotEvent struct {
	Type, ThreadID, RunID, MessageID, Role, Delta, ToolCallID, ToolCallName, Name, Message, Code, SubagentRunID, ProtocolVersion string

	Content json.RawMessage
	Value   json.RawMessage
	Outcome *struct {
		Type       string
		Pending    []string `json:"pendingToolCallIds"`
		Interrupts []struct {
			ID, Reason, Message, ToolCallID, ExpiresAt, SubagentRunID string
			ResponseSchema                                            json.RawMessage
			Metadata                                                  map[string]json.RawMessage
		}
	}
	Usage    []map[string]any
	Input    *struct{ Messages []struct{ ID, Role string } }
	Messages []struct{ ID, Role string }
	Snapshot json.RawMessage
}

// body is the body of a run with messages. A message is "id text", or JSON.
func body(thread, run string, messages ...string) string {
	var list []string
	for _, m := range messages {
		if !strings.HasPrefix(m, "{") {
			id, text, _ := strings.Cut(m, " ")
			m = fmt.Sprintf(`{"id":%q,"role":"user","content":%s}`, id, quote(text))
		}
		list = append(list, m)
	}
	return fmt.Sprintf(`{"protocolVersion":"1.0","threadId":%s,"runId":%s,"state":{},"messages":[%s],"tools":[],"context":[],"forwardedProps":{}}`,
		quote(thread), quote(run), strings.Join(list, ","))
}

// resumed is the body of a run with resume entries.
func resumed(thread, run, entries string, messages ...string) string {
	return strings.Replace(body(thread, run, messages...), `"tools":`, `"resume":[`+entries+`],"tools":`, 1)
}

func (s *testServer) header(header []string) []string {
	if s.user != "" {
		header = append(header, "Authorization", "Bearer "+servertest.TokenOf(s.user))
	}
	return header
}

// openStream is a response that is read in parts.
type openStream struct {
	*bufio.Reader
	io.Closer
}

// open sends a run and returns the body of the response, which must be a stream.
func (s *testServer) open(path, body string, header ...string) openStream {
	s.t.Helper()
	res := s.Send("POST", path, body, s.header(header)...)
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		s.t.Fatalf("POST %s: %d %s", path, res.StatusCode, b)
	}
	return openStream{bufio.NewReader(res.Body), res.Body}
}

// run sends a run and returns its frames.
func (s *testServer) run(body string, header ...string) []got {
	s.t.Helper()
	return s.stream("/ag-ui/demo", body, header...)
}

func (s *testServer) stream(path, body string, header ...string) []got {
	s.t.Helper()
	res := s.open(path, body, header...)
	defer res.Close()
	frames, err := readFrames(res.Reader, -1)
	if err != nil {
		s.t.Fatal(err)
	}
	return frames
}

// refused sends a run that must be refused, and returns the message.
func (s *testServer) refused(status int, path, body string, header ...string) string {
	s.t.Helper()
	code, text, _ := s.Call("POST", path, body, s.header(header)...)
	var e struct{ Error, Message string }
	if err := json.Unmarshal([]byte(text), &e); err != nil || code != status || e.Message == "" || e.Error == "" {
		s.t.Fatalf("POST %s: %d %s", path, code, text)
	}
	return e.Message
}

// readFrames reads up to n frames, all when n is negative. What is read of a response in parts must be a *bufio.Reader.
func readFrames(r io.Reader, n int) (frames []got, err error) {
	if n < 0 {
		n = 1 << 30
	}
	in, ok := r.(*bufio.Reader)
	if !ok {
		in = bufio.NewReader(r)
	}
	var one got
	for n > 0 {
		line, err := in.ReadString('\n')
		if err == io.EOF {
			return frames, nil
		}
		if err != nil {
			return frames, err
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "id: "):
			one.id = line[4:]
		case strings.HasPrefix(line, "data: "):
			one.json = line[6:]
			if err := json.Unmarshal([]byte(one.json), &one.gotEvent); err != nil {
				return frames, fmt.Errorf("%s: %w", line, err)
			}
		case line == "" && one.json != "":
			frames, one = append(frames, one), got{}
			n--
		}
	}
	return frames, nil
}

// types are the types of frames, without repeated ones.
func types(frames []got) string {
	var out []string
	for _, f := range frames {
		if len(out) == 0 || out[len(out)-1] != f.Type {
			out = append(out, f.Type)
		}
	}
	return strings.Join(out, " ")
}

// said is the text of the assistant in frames.
func said(frames []got) string {
	var b strings.Builder
	for _, f := range frames {
		if f.Type == "TEXT_MESSAGE_CONTENT" {
			b.WriteString(f.Delta)
		}
	}
	return b.String()
}

func last(frames []got) got {
	if len(frames) == 0 {
		return got{}
	}
	return frames[len(frames)-1]
}

// count is the number of events of a type in a session.
func (s *testServer) count(id string, body chat.Body) int {
	return len(s.Events(chat.SessionID(id), body.Type()))
}
