package model_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agentpool"
	"github.com/parley-hq/parley/internal/agents/model"
	"github.com/parley-hq/parley/internal/agents/tool"
	"github.com/parley-hq/parley/internal/hub"
	"github.com/parley-hq/parley/internal/journal/journaltest"
	"github.com/parley-hq/parley/internal/modeltest"
	"github.com/parley-hq/parley/internal/session"
)

var ann = chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "ann"}, Scopes: []chat.Scope{chat.ScopeUser}}

// testTimeout only ends a test that hangs.
const testTimeout = time.Minute

// testServer is a server without its edges, with a scripted model.
type testServer struct {
	t     *testing.T
	disk  vfs.FS
	model *modeltest.Server
	url   string
	opt   model.Options

	*session.Sessions
	agent *model.Agent
	stop  func()

	journal *journaltest.Journal

	mu     sync.Mutex
	events []chat.Event
	moved  chan struct{}
}

func newServer(t *testing.T, opt model.Options, script modeltest.Script) *testServer {
	w := &testServer{t: t, disk: vfs.NewMem(), model: &modeltest.Server{Script: script}, moved: make(chan struct{}), opt: opt}
	server := httptest.NewServer(w.model)
	t.Cleanup(server.Close)
	w.url = server.URL
	if w.opt.Endpoint == "" {
		w.opt.Endpoint = server.URL + "/v1/"
	}
	if w.opt.Model == "" {
		w.opt.Model = "scripted"
	}
	if w.opt.Backoff == 0 {
		w.opt.Backoff = time.Millisecond
	}
	w.start(0)
	t.Cleanup(func() { w.stop() })
	return w
}

// start starts a process that is killed after a number of writes; 0 means never.
func (w *testServer) start(writes int64) {
	w.t.Helper()
	a := model.New(w.opt)
	j := journaltest.Open(w.t, w.disk, writes)
	w.journal = j
	h := hub.New(w.journal, hub.Options{})
	for id, blocks := range w.journal.OpenBlocks() {
		h.Restore(id, blocks)
	}
	registry := agentpool.NewRegistry(agentpool.NewPool(agentpool.PoolOptions{}))
	registry.Add(agent.Info{Name: "helper", Kind: "model"}, a)
	runner := agentpool.NewRunner(registry, agentpool.Options{Grace: time.Millisecond})
	w.Sessions = session.New(w.journal, h, session.Options{DefaultAgent: "helper", Observers: []session.Observer{{Erased: runner.Erased, Committed: func(evs []chat.Event) {
		runner.Committed(evs)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, evs...)
		close(w.moved)
		w.moved = make(chan struct{})
	}}}})
	runner.Attach(w.Sessions)
	ctx, end := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	sessions := w.Sessions
	wg.Go(func() { _ = runner.Run(ctx) })
	wg.Go(func() { _ = sessions.Run(ctx) })
	w.agent = a
	var once sync.Once
	w.stop = func() {
		once.Do(func() {
			end()
			wg.Wait()
			a.Close()
			h.Close(nil)
			if err := j.Close(); err != nil {
				w.t.Error(err)
			}
		})
	}
}

func (w *testServer) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	w.t.Cleanup(cancel)
	return ctx
}

// say says something in a session, which is made the first time.
func (w *testServer) say(id chat.SessionID, text string) {
	w.t.Helper()
	if _, err := w.Get(w.ctx(), ann, id); err != nil {
		if _, _, err := w.Create(w.ctx(), ann, chat.NewSession{ID: id}); err != nil {
			w.t.Fatal(err)
		}
	}
	if _, err := w.Append(w.ctx(), ann, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: text})}); err != nil {
		w.t.Fatal(err)
	}
}

// log is the whole log of a session.
func (w *testServer) log(id chat.SessionID) []chat.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []chat.Event
	for _, e := range w.events {
		if e.Session == id {
			out = append(out, e)
		}
	}
	return out
}

// until waits for an event of a session.
func (w *testServer) until(id chat.SessionID, what string, ok func(e chat.Event) bool) chat.Event {
	w.t.Helper()
	deadline := time.After(testTimeout)
	for {
		w.mu.Lock()
		moved := w.moved
		w.mu.Unlock()
		for _, e := range w.log(id) {
			if ok(e) {
				return e
			}
		}
		select {
		case <-moved:
		case <-deadline:
			w.t.Fatalf("no %s in\n%s", what, w.text(id))
		}
	}
}

// ended waits for the end of the n-th turn.
func (w *testServer) ended(id chat.SessionID, n int) chat.TurnCompleted {
	w.t.Helper()
	e := w.until(id, fmt.Sprintf("end of turn %d", n), func(e chat.Event) bool {
		count := 0
		for _, o := range w.log(id) {
			if _, ok := o.Body.(chat.TurnCompleted); ok && o.Seq <= e.Seq {
				count++
			}
		}
		_, ok := e.Body.(chat.TurnCompleted)
		return ok && count == n
	})
	return e.Body.(chat.TurnCompleted)
}

// text is the log, one line per event that an agent or a person made.
func (w *testServer) text(id chat.SessionID) string {
	var out strings.Builder
	for _, e := range w.log(id) {
		switch b := e.Body.(type) {
		case chat.AgentText:
			fmt.Fprintf(&out, "text %q%s%s\n", b.Text, flag(b.Final, " final"), flag(b.Partial, " partial"))
		case chat.AgentThinking:
			fmt.Fprintf(&out, "thinking %q%s\n", b.Text, flag(b.Partial, " partial"))
		case chat.AgentToolCall:
			fmt.Fprintf(&out, "call %s %s\n", b.Tool, b.Params)
		case chat.AgentToolResult:
			fmt.Fprintf(&out, "result %s %s\n", b.Tool, b.Result)
		case chat.AgentToolError:
			fmt.Fprintf(&out, "error %s %s: %s\n", b.Tool, b.Code, b.Error)
		case chat.AgentError:
			fmt.Fprintf(&out, "fault %s: %s\n", b.Code, b.Message)
		case chat.AgentUsage:
			fmt.Fprintf(&out, "usage %s %d/%d\n", b.Model, b.InputTokens, b.OutputTokens)
		case chat.TurnCompleted:
			fmt.Fprintf(&out, "turn %s%s\n", b.Outcome, flag(b.Error != "", ": "+b.Error))
		case chat.UserMessage:
			fmt.Fprintf(&out, "user %q\n", b.Text)
		default:
			fmt.Fprintf(&out, "%s\n", e.Type)
		}
	}
	return out.String()
}

func flag(yes bool, s string) string {
	if yes {
		return s
	}
	return ""
}

// has checks that lines stand in the log in this order.
func (w *testServer) has(id chat.SessionID, lines ...string) {
	w.t.Helper()
	text := w.text(id)
	rest := text
	for _, l := range lines {
		i := strings.Index(rest, l)
		if i < 0 {
			w.t.Fatalf("no %q in its place in\n%s", l, text)
		}
		rest = rest[i+len(l):]
	}
}

// counter is a tool that counts its runs.
type counter struct {
	mu   sync.Mutex
	runs map[string]int
}

func (c *counter) tool(name string, repeatable bool) tool.Tool {
	return tool.Tool{Name: name, Description: "Counts.", Repeatable: repeatable, Parameters: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`),
		Run: func(_ context.Context, call tool.Call) (json.RawMessage, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.runs == nil {
				c.runs = map[string]int{}
			}
			c.runs[name+string(call.Params)]++
			return json.RawMessage(`{"ok":true}`), nil
		}}
}
