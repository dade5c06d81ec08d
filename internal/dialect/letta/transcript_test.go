package letta

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/dialect/letta/stream"
	"github.com/parley-hq/parley/internal/servertest"
	"github.com/parley-hq/parley/internal/transcript"
)

// TestTranscripts plays the conversations in testdata against a server.
// The parts of a file are steps:
//
//	METHOD PATH      a request; the body of the part is its body. {NAME} in path and
//	                 body is replaced by the value that was kept under that name
//	keep NAME PATH   keeps a value of the last answer, such as messages.0.run_id
//	wait SESSION N TYPE   waits until the log has N events of the type
//	restart          the server ends and starts again
//	log SESSION      shows the types of all events
//
// The answer to each step is the part named "server" after it, which -update rewrites. Ids are numbered in order of
// appearance, times and positions are left out. Frames of a stream are shown one per line, pieces of one text as one.
func TestTranscripts(t *testing.T) {
	transcript.Play(t, "server", nil, func(t *testing.T, about string, c *servertest.Cluster) transcript.Player {
		t.Parallel()
		p := &player{t: t, w: newTestServer(t, setup{secured: strings.Contains(about, "secured"), cluster: c}), kept: map[string]string{}, ids: map[string]string{}}
		if strings.Contains(about, "secured") {
			p.w.user = "alice"
		}
		return p.play
	})
}

// player plays one transcript.
type player struct {
	t    *testing.T
	w    *testServer
	kept map[string]string
	ids  map[string]string // as they are shown
	last any               // answer
}

func (p *player) play(f txtar.File) string {
	p.t.Helper()
	verb, rest, _ := strings.Cut(f.Name, " ")
	switch verb {
	case "restart":
		p.w = p.w.restart()
		return ""
	case "keep":
		name, path, _ := strings.Cut(rest, " ")
		p.kept[name] = p.value(path)
		return ""
	case "wait":
		p.wait(strings.Fields(p.fill(rest)))
		return ""
	case "log":
		return p.log(p.fill(rest))
	}
	res := p.w.call(verb, p.fill(rest), p.fill(strings.TrimSpace(string(f.Data))))
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	head := fmt.Sprint(res.StatusCode)
	if v := res.Header.Get("X-Should-Retry"); v != "" {
		head += " x-should-retry: " + v
	}
	if res.Header.Get("Content-Type") == "text/event-stream" {
		return p.settle(head + "\n" + p.frames(string(b)))
	}
	p.last = nil
	if err := json.Unmarshal(b, &p.last); err != nil {
		p.t.Fatalf("%s: %v: %s", f.Name, err, b)
	}
	return p.settle(head + "\n" + pretty(p.last))
}

// pretty formats JSON with one message per line and without null values.
func pretty(v any) string {
	switch v := v.(type) {
	case []any:
		var b strings.Builder
		for _, e := range v {
			b.WriteString(pretty(e))
		}
		if len(v) == 0 {
			return "[]\n"
		}
		return b.String()
	case map[string]any:
		if list, ok := v["messages"].([]any); ok && v["usage"] != nil {
			return pretty(list) + pretty(v["stop_reason"]) + pretty(v["usage"])
		}
		for k, e := range v {
			if e == nil {
				delete(v, k)
			}
		}
	}
	b, _ := json.Marshal(v)
	return string(b) + "\n"
}

// frames formats a stream, with the pieces of a text as one.
func (p *player) frames(s string) string {
	var out []string
	var open map[string]any
	flush := func() {
		if open != nil {
			out = append(out, strings.TrimSuffix(pretty(open), "\n"))
			open = nil
		}
	}
	event := ""
	var list []any
	for _, line := range strings.Split(s, "\n") {
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			event = name + " "
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var m map[string]any
		if json.Unmarshal([]byte(data), &m) != nil {
			flush()
			out = append(out, data)
			continue
		}
		list = append(list, m)
		key := "content"
		if m["message_type"] == stream.KindReasoning {
			key = "reasoning"
		}
		if text, ok := m[key].(string); ok && event == "" {
			if open != nil && open["otid"] == m["otid"] && open["message_type"] == m["message_type"] {
				open[key] = open[key].(string) + text
				continue
			}
			flush()
			open = m
			continue
		}
		flush()
		out = append(out, event+strings.TrimSuffix(pretty(m), "\n"))
		event = ""
	}
	flush()
	p.last = list
	return strings.Join(out, "\n") + "\n"
}

var settled = []struct {
	re *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+Z|\+00:00)`), `TIME`},
	{regexp.MustCompile(`"(seq_id|total_duration_ns)":\d+`), `"$1":0`},
}

// random are the ids that are not made from an event.
var random = regexp.MustCompile(`(agent|conv|identity|group|block|ping)-[0-9a-f]{8}-[0-9a-f-]{27}`)

var uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)

// settle replaces values that differ between runs of the test. Ids that differ only in their low bits belong to one event;
// the bits are shown.
func (p *player) settle(s string) string {
	for _, one := range settled {
		s = one.re.ReplaceAllString(s, one.by)
	}
	s = regexp.MustCompile(`"agent [0-9a-f]{8}"`).ReplaceAllString(s, `"agent NAME"`)
	s = random.ReplaceAllStringFunc(s, func(id string) string {
		kind, _, _ := strings.Cut(id, "-")
		if p.ids[id] == "" {
			p.ids[id] = fmt.Sprint("ID", len(p.ids)+1)
		}
		return kind + "-" + p.ids[id]
	})
	return uuid.ReplaceAllStringFunc(s, func(id string) string {
		var low int
		fmt.Sscanf(id[34:], "%x", &low)
		key := id[:34] + fmt.Sprint(low>>7)
		if p.ids[key] == "" {
			p.ids[key] = fmt.Sprint("ID", len(p.ids)+1)
		}
		if low &= 0x7f; low > 0 {
			return fmt.Sprint(p.ids[key], ".", low)
		}
		return p.ids[key]
	})
}

func (p *player) fill(s string) string {
	for name, v := range p.kept {
		s = strings.ReplaceAll(s, "{"+name+"}", v)
	}
	return s
}

func (p *player) value(path string) string {
	v := p.last
	for _, key := range strings.Split(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[key]
		case []any:
			var i int
			fmt.Sscan(key, &i)
			if i < 0 {
				i += len(at)
			}
			if i >= len(at) {
				p.t.Fatalf("there is no %s in %v", path, p.last)
			}
			v = at[i]
		}
	}
	s, ok := v.(string)
	if !ok {
		b, _ := json.Marshal(v)
		s = string(b)
	}
	return s
}

func (p *player) wait(args []string) {
	p.t.Helper()
	n := 0
	fmt.Sscan(args[1], &n)
	for batch, err := range p.w.Sessions.Watch(p.t.Context(), owner, chat.SessionID(args[0]), core.Start{Cursor: &chat.Cursor{}}, nil) {
		if err != nil {
			p.t.Fatal(err)
		}
		for i := range batch.Entries {
			if e := &batch.Entries[i]; e.Piece == nil && e.Label.Type == args[2] {
				n--
			}
		}
		if n <= 0 {
			return
		}
	}
}

func (p *player) log(session string) string {
	facts, err := readAll(p.w, session)
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.Join(facts, "\n") + "\n"
}
