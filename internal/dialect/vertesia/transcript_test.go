package vertesia

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/servertest"
	"github.com/parley-hq/parley/internal/transcript"
)

// TestTranscripts plays the conversations in testdata against a whole server.
// The parts of a file are steps:
//
//	start NAME                  starts a run with the body; {NAME} is its id in later steps
//	METHOD PATH                 an HTTP request: headers, an empty line, the body; or only the body
//	stream NAME PATH            a reader follows a run
//	read NAME TYPE              it reads until a message of that number comes on the main line
//	close NAME                  it is cut off
//	log RUN                     what is in the log now
//	restart                     the server ends and starts again
//
// {prompt} is the last question, {last} the last timestamp that a reader has, {url}
// the last address. The answers of the server follow each step as a part named
// "server" and are rewritten with -update. Chunks, which depend on time, times and
// ids are left out.
func TestTranscripts(t *testing.T) {
	transcript.Play(t, "server", nil, func(t *testing.T, about string, c *servertest.Cluster) transcript.Player {
		t.Parallel()
		p := &player{t: t, w: newServer(t, setup{secured: strings.Contains(about, "secured"), cluster: c}), names: map[string]string{}, streams: map[string]*stream{}}
		return func(f txtar.File) string {
			if said := p.play(f); said != "" {
				return p.settle(said)
			}
			return ""
		}
	})
}

// player plays one transcript.
type player struct {
	t       *testing.T
	w       *testServer
	names   map[string]string // of what is filled in
	streams map[string]*stream
}

var settled = []struct {
	re *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"`), `"TIME"`},
	{regexp.MustCompile(`"(ts|deadline|createdAt|expiresAt|started_at|completed_at|consumed_at|updated_at)":\d+(\.\d+)?`), `"$1":0`},
	{regexp.MustCompile(`"(elapsed_ms|duration_ms|waitDurationMs|execution_duration)":\d+`), `"$1":0`},
	{regexp.MustCompile(`p-[0-9A-Z]{26}`), `PROMPT`},
	{regexp.MustCompile(`"prev":"[0-9a-f]{32}",`), ``},
	{regexp.MustCompile(`\b([ets])-[0-9A-Z]{26}\b`), `$1-ID`},
	{regexp.MustCompile(`http://127\.0\.0\.1:\d+`), `http://HOST`},
	{regexp.MustCompile(`access_token=[\w.%-]+`), `access_token=TOKEN`},
	{regexp.MustCompile(`"token":"[\w.-]+"`), `"token":"JWT"`},
}

func (p *player) settle(s string) string {
	for name, id := range p.names {
		if name != "prompt" && name != "last" && name != "url" {
			s = strings.ReplaceAll(s, id, "{"+name+"}")
		}
	}
	for _, one := range settled {
		s = one.re.ReplaceAllString(s, one.by)
	}
	return s
}

func (p *player) fill(s string) string {
	for name, id := range p.names {
		s = strings.ReplaceAll(s, "{"+name+"}", id)
	}
	return s
}

func (p *player) play(f txtar.File) string {
	word := strings.Fields(f.Name)
	at := func(i int) string {
		if i < len(word) {
			return p.fill(word[i])
		}
		return ""
	}
	switch word[0] {
	case "start":
		said := p.request("POST", "/api/v1/agents", p.fill(string(f.Data)))
		var run struct{ ID string }
		if i := strings.Index(said, "{"); i < 0 || json.Unmarshal([]byte(said[i:]), &run) != nil {
			p.t.Fatalf("start: %s", said)
		}
		p.names[word[1]] = run.ID
		return said
	case "stream":
		p.streams[word[1]] = p.w.follow(at(2))
	case "read":
		return p.read(p.streams[word[1]], at(2))
	case "close":
		p.streams[word[1]].close()
	case "restart":
		p.w = p.w.restart()
	case "log":
		return p.log(chat.SessionID(at(1)))
	default:
		return p.request(word[0], at(1), p.fill(string(f.Data)))
	}
	return ""
}

func (p *player) read(s *stream, until string) string {
	from := len(s.seen)
	s.until(func(m compactMessage) bool { return fmt.Sprint(int(m.T)) == until && m.W == "" })
	var out strings.Builder
	for _, m := range s.seen[from:] {
		p.note(m)
		if !isChunk(m) {
			b, _ := json.Marshal(m)
			out.Write(append(b, '\n'))
		}
	}
	return out.String()
}

// note stores values that later steps may use.
func (p *player) note(m compactMessage) {
	p.names["last"] = string(appendTS(nil, chat.At(m.TS*1000+0.5)))
	var d struct {
		RequestID string `json:"request_id"`
	}
	if m.T == RequestInput && json.Unmarshal(m.D, &d) == nil {
		p.names["prompt"] = d.RequestID
	}
}

func (p *player) log(id chat.SessionID) string {
	facts, _, err := p.w.Sessions.Read(p.t.Context(), chat.Trusted, id, chat.Range{})
	if err != nil {
		p.t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range facts {
		e, err := f.Event()
		if err != nil {
			p.t.Fatal(err)
		}
		fmt.Fprintf(&out, "%d %s", e.Seq, e.Type)
		for _, more := range []string{e.Workstream, e.ClientID, e.Via} {
			if more != "" {
				out.WriteString(" " + more)
			}
		}
		fmt.Fprintf(&out, " %s\n", e.Payload)
	}
	return out.String()
}

func (p *player) request(method, path, rest string) string {
	headers, body := transcript.Request(rest)
	code, got, h := p.w.Call(method, path, body, headers...)
	var given struct{ URL, Token string }
	if json.Unmarshal([]byte(got), &given) == nil {
		if given.URL != "" {
			p.names["url"] = given.URL
		}
		if given.Token != "" {
			p.names["token"] = given.Token
		}
	}
	out := fmt.Sprint(code)
	if v := h.Get("Content-Disposition"); v != "" {
		out += "\n" + h.Get("Content-Type") + "; " + v
	}
	return strings.TrimSpace(out+"\n"+got) + "\n"
}
