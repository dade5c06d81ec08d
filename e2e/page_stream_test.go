// Test support: pages of the AI SDK and of AG-UI for the cross-dialect tests.

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-hq/parley/internal/dialecttest"
	"github.com/parley-hq/parley/internal/sleep"
)

var lastID atomic.Int64

// newID returns an id that no other request of the tests has.
func newID(prefix string) string { return fmt.Sprint("page-", prefix, "-", lastID.Add(1)) }

// aguiRun is the body of an AG-UI run.
func aguiRun(thread, messages, resume string) string {
	return dialecttest.AGUIRun(thread, newID("r"), messages, resume)
}

// aguiSend is the body of an AG-UI run that sends a message.
func aguiSend(thread, text string) string {
	return dialecttest.AGUIMessage(thread, newID("m"), text)
}

// aguiAnswer is the body of an AG-UI run that answers a prompt of the shared session.
func aguiAnswer(q question, payload string) string {
	id := q.request
	if q.kind == "approve" {
		id += "/" + q.call
	}
	return dialecttest.AGUIAnswer("shared", newID("r"), id, payload)
}

// aguiList returns AG-UI's list of messages.
func (s *sharedSession) aguiList() (list []string) {
	s.t.Helper()
	var all struct {
		Messages []struct{ Role, Content string }
	}
	if err := json.Unmarshal([]byte(s.get("/api/copilotkit/threads/"+s.id+"/messages")), &all); err != nil {
		s.t.Fatal(err)
	}
	for _, m := range all.Messages {
		switch m.Role {
		case "user":
			list = append(list, line("user", m.Content))
		case "assistant":
			list = append(list, line("agent", m.Content))
		}
	}
	return list
}

// aisdkSend is the body of a request of the AI SDK that sends a message.
func aisdkSend(chatID, text string) string {
	return dialecttest.AISDKMessage(chatID, newID("m"), text)
}

// aisdkAnswer is the body of a request of the AI SDK that answers a prompt of the shared session.
func aisdkAnswer(q question, yes bool) string {
	part := ""
	switch q.kind {
	case "radio":
		value := "sms"
		if !yes {
			value = "push"
		}
		part = fmt.Sprintf(`{"type":"tool-ask_person","toolCallId":%q,"state":"output-available","input":{},"output":%q}`, q.request, value)
	case "approve":
		part = fmt.Sprintf(`{"type":"dynamic-tool","toolName":"deploy","toolCallId":%q,"state":"approval-responded","input":{},"approval":{"id":%q,"approved":%t}}`,
			q.call, q.request+"/"+q.call, yes)
	case "permission":
		part = fmt.Sprintf(`{"type":"dynamic-tool","toolName":"permission","toolCallId":%q,"state":"approval-responded","input":{},"approval":{"id":%q,"approved":%t}}`,
			q.request, q.request+"/"+q.request, yes)
	}
	return dialecttest.AISDKPart("shared", q.turn, part)
}

// aisdkList returns the list of messages of the AI SDK.
func (s *sharedSession) aisdkList() (list []string) {
	s.t.Helper()
	var all []struct {
		Role  string
		Parts []struct{ Type, Text string }
	}
	if err := json.Unmarshal([]byte(s.get("/api/chat/"+s.id+"/messages")), &all); err != nil {
		s.t.Fatal(err)
	}
	for _, m := range all {
		who := map[string]string{"user": "user", "assistant": "agent"}[m.Role]
		for _, p := range m.Parts {
			if p.Type == "text" {
				list = append(list, line(who, p.Text))
			}
		}
	}
	return list
}

// pageFrame is a chunk of the AI SDK or an event of AG-UI.
type pageFrame = dialecttest.PageFrame

// pageStream is the response to a request of a page, which is read in the background.
type pageStream struct {
	name   string
	status int
	header http.Header

	mu      sync.Mutex
	frames  []pageFrame
	done    bool   // the client was told that the response is complete: [DONE] of the AI SDK
	failure error  // of reading the body, nil for a proper end
	body    string // of a refusal
	ended   bool
	changed chan struct{} // closed and replaced at every change
}

// openPage sends a request and reads the response until it ends, or the test does.
func (p *process) openPage(t testing.TB, c call) *pageStream {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	res := p.send(ctx, c)
	s := &pageStream{name: c.method + " " + c.path, status: res.StatusCode, header: res.Header, changed: make(chan struct{})}
	read := make(chan struct{})
	go func() {
		defer close(read)
		s.read(res)
	}()
	t.Cleanup(func() { stop(); <-read })
	return s
}

func (s *pageStream) read(res *http.Response) {
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	id := ""
	for {
		text, err := lines.ReadString('\n')
		data, ok := strings.CutPrefix(strings.TrimSuffix(text, "\n"), "data: ")
		s.mu.Lock()
		switch {
		case res.StatusCode != http.StatusOK:
			s.body += text
		case ok && data == "[DONE]":
			s.done = true
		case ok && err == nil:
			f := pageFrame{ID: id, Raw: data}
			if bad := json.Unmarshal([]byte(data), &f); bad != nil {
				f.Type, f.Error = "unreadable", bad.Error()
			}
			s.frames, id = append(s.frames, f), ""
		case strings.HasPrefix(text, "id: "):
			id = strings.TrimSpace(text[4:])
		}
		if err != nil {
			if s.ended = true; !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				s.failure = err
			}
		}
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// wait waits until ok is true, or the response has ended. It reports whether ok is true.
func (s *pageStream) wait(t testing.TB, ok func() bool) bool {
	t.Helper()
	late := time.After(60 * time.Second)
	for {
		s.mu.Lock()
		found, ended, changed := ok(), s.ended, s.changed
		s.mu.Unlock()
		if found || ended {
			return found
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%s: nothing happens after %s", s.name, s.types())
		}
	}
}

// pieces waits until n pieces of text were shown.
func (s *pageStream) pieces(t testing.TB, n int) {
	t.Helper()
	if !s.wait(t, func() bool { _, shown := s.words(); return shown >= n }) {
		t.Fatalf("%s: it ended before %d pieces: %d %s %s", s.name, n, s.status, s.body, s.types())
	}
}

// end waits for the end of the response and returns its last frame and, when the response was broken off, the error.
func (s *pageStream) end(t testing.TB) (last pageFrame, err error) {
	t.Helper()
	s.wait(t, func() bool { return s.ended })
	if n := len(s.frames); n > 0 {
		last = s.frames[n-1]
	}
	return last, s.failure
}

// words returns the text and the number of its pieces. The caller holds mu, or the response has ended.
func (s *pageStream) words() (text string, pieces int) {
	for _, f := range s.frames {
		if f.Type == "text-delta" || f.Type == "TEXT_MESSAGE_CONTENT" {
			text += f.Delta
			pieces++
		}
	}
	return text, pieces
}

// find returns the first frame that matches. The response has ended.
func (s *pageStream) find(match func(pageFrame) bool) *pageFrame {
	for i := range s.frames {
		if match(s.frames[i]) {
			return &s.frames[i]
		}
	}
	return nil
}

// types lists the frames without repetitions, for messages of tests.
func (s *pageStream) types() string {
	var all []string
	for _, f := range s.frames {
		if n := len(all); n == 0 || all[n-1] != f.Type {
			all = append(all, f.Type)
		}
	}
	return strings.Join(all, " ")
}

// resumePage follows a run and resumes it after each break until its last frame has come: by counting in the AI SDK, after the
// last id in AG-UI.
func (s *sharedSession) resumePage(t *testing.T, dialect, run string) *pageStream {
	t.Helper()
	all := &pageStream{name: dialect, status: http.StatusOK, changed: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	read := make(chan struct{})
	base := "http://" + s.addr
	go func() {
		defer close(read)
		for ; ctx.Err() == nil && !all.ended; sleep.For(ctx, 20*time.Millisecond) {
			all.resume(ctx, base, run)
		}
	}()
	t.Cleanup(func() { stop(); <-read })
	return all
}

// resume reads one response and adds its frames.
func (s *pageStream) resume(ctx context.Context, base, run string) {
	n, last := len(s.frames), ""
	path := fmt.Sprintf("/api/chat/%s/stream?startIndex=%d", run, n)
	if s.name == "agui" {
		path = "/ag-ui/default?offset=-1&runId=" + run
		if n > 0 {
			last = s.frames[n-1].ID
		}
	}
	r, err := http.NewRequestWithContext(ctx, "GET", base+path, nil)
	if err != nil {
		return
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(r)
	if err != nil {
		return // the server is down
	}
	one := &pageStream{changed: make(chan struct{})}
	one.read(res)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frames = append(s.frames, one.frames...)
	if one.failure == nil || res.StatusCode != http.StatusOK {
		s.ended, s.status, s.body = true, res.StatusCode, one.body
	}
	close(s.changed)
	s.changed = make(chan struct{})
}
