package native

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/tools/txtar"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/servertest"
	"github.com/parley-hq/parley/internal/transcript"
)

// TestTranscripts plays the conversations in testdata against a whole server.
// Each file is a list of requests and responses. A request begins with a method
// and a path, or with one of
//
//	STREAM path N          reads N frames of an event stream
//	SOCKET path            speaks WebSocket: "> frame" sends, "< N" reads N frames and shows them in a settled order
//	WAIT session type N    until the session has N events of the type
//
// then headers (As: names the user; alice when absent, no token for a dash), an
// empty line and the body.
func TestTranscripts(t *testing.T) {
	// In a cluster a receipt names the nodes that have removed the session.
	nodes := []byte(`,"nodes":["other","owner"]`)
	inCluster := func(b []byte) []byte { return bytes.ReplaceAll(b, nodes, nil) }
	transcript.Play(t, "response", inCluster, func(t *testing.T, _ string, c *servertest.Cluster) transcript.Player {
		w := newTestServerIn(t, c, func(o *Options) { o.MaxBody, o.MaxArtifact = 64<<10, 1<<10 })
		return func(f txtar.File) string { return settle(w.play(string(f.Data))) }
	})
}

var unsettled = []struct {
	re *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`s-[0-9A-HJKMNP-TV-Z]{26}`), "s-NEW"},
	// The number of previews of a text depends on timing, and previews take
	// positions.
	{regexp.MustCompile(`10:00:00\.\d{6}Z`), "10:00:00.MICROSZ"},
	{regexp.MustCompile(`"prev":"[0-9a-f]{32}"`), `"prev":"HASH"`},
}

// settle replaces what differs from run to run.
func settle(s string) string {
	for _, u := range unsettled {
		s = u.re.ReplaceAllString(s, u.by)
	}
	return s
}

// shownHeaders has the headers that belong to the API.
var shownHeaders = []string{
	"Content-Type", "Content-Encoding", "Content-Disposition", "Content-Security-Policy", "Content-Range", "Etag", "Allow",
	"Location", "Retry-After", "Www-Authenticate", "Connection",
}

var names = regexp.MustCompile(`"request_id":"(p-[0-9A-Z]{26})"|"turn_id":"(t-[0-9A-Z]{26})"`)

// learn stores the last prompt and turn of an answer; requests use them as $prompt and
// $turn, and the last turn of a worker as $main.
func (w *testServer) learn(text string) {
	for _, m := range names.FindAllStringSubmatch(text, -1) {
		if m[1] != "" {
			w.prompt = m[1]
		} else {
			w.turn = m[2]
			if strings.HasPrefix(text, `{"op":"turn"`) {
				w.main = m[2]
			}
		}
	}
}

func (w *testServer) fill(text string) string {
	return strings.NewReplacer("$prompt", w.prompt, "$turn", w.turn, "$main", w.main).Replace(text)
}

// play sends one request of a transcript and returns the answer.
func (w *testServer) play(text string) string {
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	words := strings.Fields(lines[0])
	header, as := http.Header{}, "alice"
	var script []string
	for _, l := range lines[1:] {
		if strings.HasPrefix(l, ">") || strings.HasPrefix(l, "<") {
			script = append(script, l)
			continue
		}
		k, v, _ := strings.Cut(l, ": ")
		if k == "As" {
			as = strings.TrimPrefix(v, "-")
			continue
		}
		header.Add(k, v)
	}
	switch words[0] {
	case "WAIT":
		n, _ := strconv.Atoi(words[3])
		w.Until(chat.SessionID(words[1]), words[2], n)
		return ""
	case "STREAM":
		n, _ := strconv.Atoi(words[2])
		return w.playStream(as, words[1], header, n)
	case "SOCKET":
		return w.playSocket(as, words[1], script)
	}
	return w.playRequest(as, words[0], words[1], header, body)
}

func (w *testServer) playRequest(as, method, path string, header http.Header, body string) string {
	var reader io.Reader
	if body != "" {
		body = strings.TrimSuffix(body, "\n")
		if n, ok := strings.CutPrefix(body, "LONG "); ok { // a text of so many letters
			count, _ := strconv.Atoi(n)
			body = strings.Repeat("x", count)
		}
		reader = strings.NewReader(w.fill(body))
	}
	r := w.request(as, method, w.fill(path), reader)
	for k, v := range header {
		r.Header[k] = v
	}
	res, err := w.HTTP.Client().Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	return w.render(res, -1)
}

func (w *testServer) render(res *http.Response, frames int) string {
	var b strings.Builder
	fmt.Fprintln(&b, res.StatusCode)
	for _, k := range shownHeaders {
		for _, v := range res.Header[k] {
			fmt.Fprintf(&b, "%s: %s\n", k, v)
		}
	}
	b.WriteString("\n")
	if frames >= 0 {
		r := bufio.NewReader(res.Body)
		for frames > 0 {
			line, err := r.ReadString('\n')
			if err != nil {
				w.t.Fatalf("the stream ended: %v\n%s", err, b.String())
			}
			if b.WriteString(line); line == "\n" {
				frames--
			}
		}
		return b.String()
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	text := compactBody(body)
	w.learn(text)
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		text = strings.ReplaceAll(text, `,{"session_id"`, ",\n{\"session_id\"") // for reading
	}
	return strings.TrimRight(b.String()+text, "\n") + "\n"
}

func (w *testServer) playStream(as, path string, header http.Header, frames int) string {
	r := w.request(as, "GET", path, nil)
	for k, v := range header {
		r.Header[k] = v
	}
	r.Header.Set("Accept-Encoding", "identity")
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	res, err := w.HTTP.Client().Do(r.WithContext(ctx))
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	return w.render(res, frames)
}

// dial opens a WebSocket with the token of a user.
func (w *testServer) dial(as, path string) *websocket.Conn {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	header := http.Header{}
	if as != "" {
		header.Set("Authorization", "Bearer "+servertest.TokenOf(as))
	}
	conn, _, err := websocket.Dial(ctx, w.HTTP.URL+path, &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		w.t.Fatal(err)
	}
	conn.SetReadLimit(64 << 20)
	return conn
}

func (w *testServer) playSocket(as, path string, script []string) string {
	conn := w.dial(as, path)
	defer conn.CloseNow()
	var b strings.Builder
	for _, line := range script {
		if frame, ok := strings.CutPrefix(line, "> "); ok {
			if err := conn.Write(w.t.Context(), websocket.MessageText, []byte(w.fill(frame))); err != nil {
				w.t.Fatal(err)
			}
			fmt.Fprintln(&b, line)
			continue
		}
		n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
		var frames []string
		for range n {
			frame := w.readFrame(conn)
			w.learn(frame)
			frames = append(frames, "< "+frame)
		}
		// Answers and watched frames have no common order.
		slices.Sort(frames)
		fmt.Fprintln(&b, strings.Join(frames, "\n"))
	}
	return b.String()
}

// readFrame reads one frame.
func (w *testServer) readFrame(conn *websocket.Conn) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	_, msg, err := conn.Read(ctx)
	if err != nil {
		w.t.Fatalf("no frame: %v", err)
	}
	return string(msg)
}
