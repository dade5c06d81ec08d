package httpagent_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agentpool"
	"github.com/parley-hq/parley/internal/agents/httpagent"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/hub"
	"github.com/parley-hq/parley/internal/journal/journaltest"
	"github.com/parley-hq/parley/internal/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	ctx = context.Background()
	ann = chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "ann"}, Scopes: []chat.Scope{chat.ScopeUser}}
)

// testServer is a server without its edges, whose agent is called over HTTP. It can
// be killed and started again.
type testServer struct {
	t    *testing.T
	disk vfs.FS
	opt  httpagent.Options

	journal *journaltest.Journal
	hub     *hub.Hub
	agent   *httpagent.Agent
	*session.Sessions
	runner *agentpool.Runner
	end    context.CancelFunc
	ended  chan error

	mu      sync.Mutex
	events  []chat.Event // all that was committed, over all processes
	shown   map[chat.BlockID]string
	changed chan struct{}
}

// newServer starts a testServer whose agent speaks a protocol with a handler.
func newServer(t *testing.T, opt httpagent.Options, endpoint http.HandlerFunc) *testServer {
	t.Helper()
	srv := httptest.NewServer(endpoint)
	t.Cleanup(srv.Close)
	opt.URL = srv.URL + opt.URL
	h := &testServer{t: t, disk: vfs.NewMem(), opt: opt, changed: make(chan struct{}), shown: map[chat.BlockID]string{}}
	t.Cleanup(h.kill)
	h.start()
	if _, _, err := h.Create(ctx, ann, chat.NewSession{ID: "s"}); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *testServer) start() {
	h.t.Helper()
	h.journal = journaltest.Open(h.t, h.disk, 0)
	h.hub = hub.New(h.journal, hub.Options{})
	for id, blocks := range h.journal.OpenBlocks() {
		h.hub.Restore(id, blocks)
	}
	var err error
	if h.agent, err = httpagent.New(h.opt); err != nil {
		h.t.Fatal(err)
	}
	agents := agentpool.NewRegistry(agentpool.NewPool(agentpool.PoolOptions{}))
	agents.Add(agent.Info{Name: "test", Kind: h.opt.Protocol}, h.agent)
	h.runner = agentpool.NewRunner(agents, agentpool.Options{Grace: time.Millisecond, StopGrace: 5 * time.Second})
	h.Sessions = session.New(h.journal, h.hub, session.Options{DefaultAgent: "test", Observers: []session.Observer{{Erased: h.runner.Erased, Committed: h.committed}}})
	h.runner.Attach(h.Sessions)
	run, end := context.WithCancel(ctx)
	h.end, h.ended = end, make(chan error, 3)
	runner, sessions, hub, ended := h.runner, h.Sessions, h.hub, h.ended
	go func() { ended <- runner.Run(run) }()
	go func() { ended <- sessions.Run(run) }()
	go func() { h.watch(run, hub); ended <- nil }()
}

// watch reads as a client does, and checks that previews never change shown text.
func (h *testServer) watch(ctx context.Context, hub *hub.Hub) {
	from := chat.Cursor{}
	for ctx.Err() == nil {
		for batch, err := range hub.Watch(ctx, "s", core.Start{Cursor: &from}, nil) {
			if err != nil {
				break
			}
			h.mu.Lock()
			for i := range batch.Entries {
				if p := batch.Entries[i].Piece; p != nil {
					have := h.shown[p.Block]
					if p.Offset > len(have) || !strings.HasPrefix(have[p.Offset:]+p.Text, p.Text) && !strings.HasPrefix(p.Text, have[p.Offset:]) {
						h.t.Errorf("a piece of block %s at %d does not fit %q: %q", p.Block, p.Offset, have, p.Text)
						continue
					}
					if end := p.Offset + len(p.Text); end > len(have) {
						h.shown[p.Block] = have[:p.Offset] + p.Text
					}
				}
			}
			h.notify()
			h.mu.Unlock()
			from = batch.Cursor
		}
		select { // the session is not there yet
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (h *testServer) committed(evs []chat.Event) {
	h.runner.Committed(evs)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, evs...)
	h.notify()
}

// notify wakes await. The caller holds mu.
func (h *testServer) notify() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// kill ends the process without writing anything more.
func (h *testServer) kill() {
	if h.end == nil {
		return
	}
	h.journal.KillAfter(0)
	h.end()
	for range 3 {
		if err := <-h.ended; err != nil {
			h.t.Error(err)
		}
	}
	h.end = nil
	h.agent.Close()
	h.hub.Close(nil)
	if err := h.journal.Close(); err != nil {
		h.t.Error(err)
	}
}

func (h *testServer) send(text string) {
	h.t.Helper()
	if _, err := h.Append(ctx, ann, "s", []chat.Draft{chat.NewDraft(chat.UserMessage{Text: text})}); err != nil {
		h.t.Fatal(err)
	}
}

// await waits until something is true of what was stored and shown.
func (h *testServer) await(what string, ok func() bool) {
	h.t.Helper()
	timeout := time.NewTimer(60 * time.Second)
	defer timeout.Stop()
	for {
		h.mu.Lock()
		done, changed := ok(), h.changed
		h.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			h.t.Fatalf("no %s; the log has\n%s", what, h.summary())
		}
	}
}

// awaitEnd waits for the end of the nth turn.
func (h *testServer) awaitEnd(n int) chat.TurnCompleted {
	h.t.Helper()
	var end chat.TurnCompleted
	h.await("the end of the turn", func() bool {
		seen := 0
		for _, e := range h.events {
			if b, ok := e.Body.(chat.TurnCompleted); ok {
				if seen++; seen == n {
					end = b
					return true
				}
			}
		}
		return false
	})
	return end
}

// awaitKill reports whether the process was killed before the first turn ended. It
// answers prompts with yes.
func (h *testServer) awaitKill() bool {
	h.t.Helper()
	for {
		h.mu.Lock()
		changed, ended := h.changed, false
		var open string
		for i := range h.events {
			if p, ok := chat.AsPrompt(&h.events[i]); ok {
				open = p.RequestID
			}
			switch h.events[i].Body.(type) {
			case chat.TurnCompleted:
				ended = true
			case chat.UserInputResponse:
				open = ""
			}
		}
		h.mu.Unlock()
		if ended {
			return false
		}
		if open != "" {
			if _, err := h.Answer(ctx, ann, "s", open, chat.Answer{Text: "yes", ClientID: "c-yes"}); err == nil {
				continue
			}
		}
		select {
		case <-changed:
		case <-h.journal.Killed:
			return true
		}
	}
}

// awaitPreview waits until a client has a text of an open block.
func (h *testServer) awaitPreview(text string) {
	h.t.Helper()
	h.await("the text "+text, func() bool {
		for _, s := range h.shown {
			if strings.Contains(s, text) {
				return true
			}
		}
		return false
	})
}

// awaitPrompt waits for the nth prompt.
func (h *testServer) awaitPrompt(n int) chat.Prompt {
	h.t.Helper()
	var found chat.Prompt
	h.await("a prompt", func() bool {
		seen := 0
		for i := range h.events {
			if p, ok := chat.AsPrompt(&h.events[i]); ok {
				if seen++; seen == n {
					found = p
					return true
				}
			}
		}
		return false
	})
	return found
}

func (h *testServer) answer(p chat.Prompt, a chat.Answer) {
	h.t.Helper()
	if _, err := h.Answer(ctx, ann, "s", p.RequestID, a); err != nil {
		h.t.Fatal(err)
	}
}

// summary is the log, one line per event.
func (h *testServer) summary() string {
	facts, _, err := h.journal.Read(ctx, "s", chat.Range{})
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, f := range facts {
		e, err := f.Event()
		if err != nil {
			h.t.Fatal(err)
		}
		switch b := e.Body.(type) {
		case chat.SessionStarted, chat.TurnStarted, chat.TurnResumed, chat.SessionUpdated:
		case chat.UserMessage:
			out = append(out, "user "+b.Text)
		case chat.AgentText:
			s := "text "
			if b.Partial {
				s = "partial "
			} else if b.Final {
				s = "answers "
			}
			out = append(out, s+b.Text)
		case chat.AgentThinking:
			out = append(out, "thinking "+b.Text)
		case chat.AgentToolCall:
			out = append(out, "calls "+b.Tool+" "+string(b.Params))
		case chat.AgentToolResult:
			out = append(out, "got "+string(b.Result))
		case chat.AgentToolError:
			out = append(out, "tool error "+b.Error)
		case chat.AgentStatus:
			out = append(out, "status "+b.Message)
		case chat.AgentUsage:
			out = append(out, fmt.Sprintf("used %d %d", b.InputTokens, b.OutputTokens))
		case chat.AgentInputRequest:
			out = append(out, "asks "+string(b.InputType)+" "+b.Text)
		case chat.UserInputResponse:
			out = append(out, "answer "+b.Text+strings.Join(b.Values, ","))
		case chat.AgentError:
			out = append(out, "error "+b.Code)
		case chat.PromptClosed:
			out = append(out, "closed "+string(b.Reason))
		case chat.TurnCompleted:
			out = append(out, strings.TrimSpace("ended "+string(b.Outcome)+" "+b.Error))
		default:
			out = append(out, e.Type)
		}
	}
	return strings.Join(out, "\n")
}

func (h *testServer) wantLog(lines ...string) {
	h.t.Helper()
	if got, want := h.summary(), strings.Join(lines, "\n"); got != want {
		h.t.Fatalf("the log has\n%s\n\nwant\n%s", got, want)
	}
}

// flush writes and sends a piece of a stream.
func flush(w http.ResponseWriter, pieces ...string) {
	for _, p := range pieces {
		fmt.Fprint(w, p)
	}
	w.(http.Flusher).Flush()
}
