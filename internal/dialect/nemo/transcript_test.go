package nemo

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/tools/txtar"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/servertest"
	"github.com/parley-hq/parley/internal/transcript"
)

// TestTranscripts plays the conversations in testdata against a whole server.
// The parts of a file are steps:
//
//	dial NAME [QUERY]           a WebSocket client connects
//	send NAME                   it sends the frames in the body, one per line
//	read NAME UNTIL             it reads until an end, prompt, error, trace or auth frame
//	skip NAME N                 it reads until it has N words of an answer; they are not shown
//	await NAME UNTIL            the same, until a frame comes
//	text NAME…                  what these clients saw of answers, one after the other
//	sync NAME                   it has acknowledged what it saw, and the server has read that
//	drop NAME                   its connection breaks
//	reload NAME                 it closes the connection as a page does that is reloaded
//	close NAME                  it closes the connection
//	METHOD PATH                 an HTTP request: headers, an empty line, the body
//	poll PATH TEXT              the same with GET, until the answer has the text in it
//	log SESSION                 what is in the log now
//	append SESSION              an agent adds the events in the body, one per line
//	event SESSION TYPE          until the log has such an event
//	wait DURATION               the clock is set forward; it stands still otherwise, where the first line says "clock"
//	restart [NAME]              the server ends and starts again, while the client reads on; that is not shown
//
// The output of the server follows each step as a part named "server" and is rewritten with -update. Consecutive pieces of
// text are shown as one, because how a text is cut depends on time; times are left out.
func TestTranscripts(t *testing.T) {
	transcript.Play(t, "server", inCluster, func(t *testing.T, about string, c *servertest.Cluster) transcript.Player {
		t.Parallel()
		s := setup{secured: strings.Contains(about, "secured"), cluster: c}
		p := &player{clients: map[string]*client{}}
		if strings.Contains(about, "clock") {
			begun := time.Now()
			s.now = func() time.Time { return begun.Add(time.Duration(p.later.Load())) }
		}
		p.w = newServer(t, s)
		return func(f txtar.File) string { return settle(p.play(t, f)) }
	})
}

// inCluster removes what may differ in a cluster: why a turn was resumed after all nodes were restarted.
func inCluster(b []byte) []byte { return resumedBecause.ReplaceAll(b, []byte(`"reason":""`)) }

var resumedBecause = regexp.MustCompile(`"reason":"the server (was restarted|that ran it was lost, and another one took the session over)"`)

var settled = []struct {
	re *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"`), `"TIME"`},
	{regexp.MustCompile(`"created":\d+`), `"created":0`},
	{regexp.MustCompile(`"prev":"[0-9a-f]{32}",`), ``},
}

func settle(s string) string {
	for _, one := range settled {
		s = one.re.ReplaceAllString(s, one.by)
	}
	// The low bits of a prompt frame's id tell how late it is shown.
	return promptID.ReplaceAllStringFunc(s, func(id string) string {
		parsed, _ := chat.ParseID("", id[len(id)-36:])
		parsed[15] &^= 0x7f
		return id[:len(id)-36] + parsed.UUID()
	})
}

var promptID = regexp.MustCompile(`"type":"system_(human_)?interaction(_message|_name)?","id":"[0-9a-f-]{36}`)

// player plays one transcript.
type player struct {
	w       *testServer
	clients map[string]*client
	later   atomic.Int64 // how far the clock was set forward
}

func (p *player) play(t *testing.T, f txtar.File) string {
	t.Helper()
	word := strings.Fields(f.Name)
	at := func(i int) string {
		if i < len(word) {
			return word[i]
		}
		return ""
	}
	switch word[0] {
	case "dial":
		p.clients[at(1)] = p.w.dial(at(2))
	case "send":
		for line := range strings.Lines(string(f.Data)) {
			p.clients[at(1)].send(strings.TrimSpace(line))
		}
	case "read":
		return p.read(t, p.clients[at(1)], at(2))
	case "skip":
		n, _ := strconv.Atoi(at(2))
		p.clients[at(1)].readWords(n)
	case "await":
		p.clients[at(1)].until(untils[at(2)])
	case "text":
		var all []frame
		for _, name := range word[1:] {
			all = append(all, p.clients[name].seen...)
		}
		return textOf(all) + "\n"
	case "poll":
		p.w.poll(at(1), at(2))
		return p.request(t, "GET", at(1), "")
	case "sync":
		p.clients[at(1)].sync()
	case "drop":
		p.clients[at(1)].drop()
	case "reload", "close":
		code := websocket.StatusNormalClosure
		if word[0] == "reload" {
			code = websocket.StatusGoingAway
		}
		if err := p.clients[at(1)].conn.Close(code, ""); err != nil {
			t.Fatal(err)
		}
	case "restart":
		if c := p.clients[at(1)]; c != nil {
			p.w = p.w.restartReading(c, new([]frame))
		} else {
			p.w = p.w.restart()
		}
	case "append":
		drafts, err := chat.ParseDrafts([]byte("[" + strings.ReplaceAll(strings.TrimSpace(string(f.Data)), "\n", ",") + "]"))
		if err == nil {
			_, err = p.w.Sessions.Append(t.Context(), chat.Trusted, chat.SessionID(at(1)), drafts)
		}
		if err != nil {
			t.Fatal(err)
		}
	case "event":
		p.w.happened(chat.SessionID(at(1)), at(2))
	case "wait":
		d, err := time.ParseDuration(at(1))
		if err != nil {
			t.Fatal(err)
		}
		p.later.Add(int64(d))
	case "log":
		return p.log(t, chat.SessionID(at(1)))
	default:
		return p.request(t, at(0), at(1), string(f.Data))
	}
	return ""
}

var untils = map[string]func(frame) bool{
	"end": isEnd, "error": isError, "trace": isTrace,
	"prompt": func(f frame) bool { return f.Content.InputType != "" },
	"auth":   func(f frame) bool { return f.Type == typeAuthResponse },
}

func (p *player) read(t *testing.T, c *client, until string) string {
	t.Helper()
	fits := untils[until]
	if fits == nil {
		t.Fatalf("read until %q?", until)
	}
	var out strings.Builder
	var last frame
	var text string
	flush := func() {
		if text != "" {
			b, one := json.AppendString(nil, text), json.AppendString(nil, *last.Content.Text)
			out.WriteString(strings.Replace(last.raw, `"text":`+string(one), `"text":`+string(b), 1) + "\n")
			text = ""
		}
	}
	for _, f := range c.until(fits) {
		if f.Type == typeResponse && f.Status == "in_progress" {
			if text != "" && f.Parent != last.Parent {
				flush()
			}
			text += *f.Content.Text
			last = f
			continue
		}
		flush()
		out.WriteString(f.raw + "\n")
	}
	flush()
	return out.String()
}

func (p *player) log(t *testing.T, id chat.SessionID) string {
	t.Helper()
	facts, _, err := p.w.Sessions.Read(t.Context(), chat.Trusted, id, chat.Range{})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range facts {
		e, err := f.Event()
		if err != nil {
			t.Fatal(err)
		}
		by := string(e.Actor.Kind)
		if e.Via != "" {
			by += " via " + e.Via
		}
		fmt.Fprintf(&out, "%d %s (%s) %s\n", e.Seq, e.Type, by, e.Payload)
	}
	return out.String()
}

// joined are the pieces of a stream.
var joined = regexp.MustCompile(`(?m)^data: (\{"value":|.*"delta":).*$`)

func (p *player) request(t *testing.T, method, path, rest string) string {
	t.Helper()
	headers, body := transcript.Request(rest)
	code, got, h := p.w.Call(method, path, body, headers...)
	if strings.HasPrefix(h.Get("Content-Type"), "text/event-stream") {
		text, lines := streamText(t, got), []string{}
		for line := range strings.Lines(got) {
			if line = strings.TrimSpace(line); line == "" || joined.MatchString(line) && !strings.Contains(line, `"finish_reason":"stop"`) {
				continue
			}
			lines = append(lines, line)
		}
		got = fmt.Sprintf("text: %q\n%s", text, strings.Join(lines, "\n"))
	}
	out := fmt.Sprint(code) + "\n"
	for _, name := range []string{"Content-Type", "Conversation-Id", "Observability-Trace-Id"} {
		if v := h.Get(name); v != "" {
			out += name + ": " + v + "\n"
		}
	}
	return strings.TrimSpace(out+"\n"+got) + "\n"
}
