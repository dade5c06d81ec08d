package agentpool_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agentpool"
	"github.com/parley-hq/parley/internal/hub"
	"github.com/parley-hq/parley/internal/journal/journaltest"
	"github.com/parley-hq/parley/internal/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	ctx = context.Background()
	ann = chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "ann"}, Scopes: []chat.Scope{chat.ScopeUser}}
)

// testServer is a server without its edges, which can be killed and started again.
type testServer struct {
	t      testing.TB
	disk   vfs.FS
	opt    agentpool.Options
	lease  time.Duration
	grace  time.Duration // 0 means the lease
	agents map[string]agent.Agent

	journal *journaltest.Journal
	hub     *hub.Hub
	*session.Sessions
	runner *agentpool.Runner
	pool   *agentpool.Pool
	names  *agentpool.Registry
	end    context.CancelFunc
	ended  chan error

	mu     sync.Mutex
	events []chat.Event // all that was committed, over all processes
	moved  chan struct{}
}

func newServer(t testing.TB, a agent.Agent) *testServer {
	p := &testServer{t: t, disk: vfs.NewMem(), agents: map[string]agent.Agent{"test": a}, moved: make(chan struct{}), lease: time.Minute}
	p.opt = agentpool.Options{Grace: time.Millisecond} // an agent that is still reading must not be left behind when the journal closes
	t.Cleanup(func() { p.kill() })
	return p
}

// start starts a process that is killed after a number of writes; 0 means never.
func (p *testServer) start(writes int64) {
	p.t.Helper()
	p.journal = journaltest.Open(p.t, p.disk, writes)
	p.hub = hub.New(p.journal, hub.Options{})
	for id, blocks := range p.journal.OpenBlocks() {
		p.hub.Restore(id, blocks)
	}
	p.pool = agentpool.NewPool(agentpool.PoolOptions{Lease: p.lease, Grace: cmp.Or(p.grace, p.lease)})
	agents := agentpool.NewRegistry(p.pool)
	for name, a := range p.agents {
		agents.Add(agent.Info{Name: name, Kind: "builtin"}, a)
	}
	p.names = agents
	p.runner = agentpool.NewRunner(agents, p.opt)
	p.Sessions = session.New(p.journal, p.hub, session.Options{DefaultAgent: "test", Observers: []session.Observer{{Erased: p.runner.Erased, Committed: p.committed}}})
	p.runner.Attach(p.Sessions)
}

func (p *testServer) committed(evs []chat.Event) {
	p.runner.Committed(evs)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, evs...)
	close(p.moved)
	p.moved = make(chan struct{})
}

// run lets the process answer turns and close prompts.
func (p *testServer) run() {
	run, end := context.WithCancel(ctx)
	p.end, p.ended = end, make(chan error, 2)
	runner, sessions, ended := p.runner, p.Sessions, p.ended
	go func() { ended <- runner.Run(run) }()
	go func() { ended <- sessions.Run(run) }()
}

// startTurn starts a process that answers the first message of a new session.
func (p *testServer) startTurn() {
	p.t.Helper()
	p.start(0)
	p.run()
	p.begin(chat.NewSession{})
	p.say("hi")
}

// shutdown shuts the process down.
func (p *testServer) shutdown() {
	p.t.Helper()
	if p.end != nil {
		p.end()
		for range 2 {
			if err := <-p.ended; err != nil {
				p.t.Fatal(err)
			}
		}
		p.end = nil
	}
	if p.journal != nil {
		p.hub.Close(nil)
		if err := p.journal.Close(); err != nil {
			p.t.Fatal(err)
		}
		p.journal = nil
	}
}

// kill ends the process without writing anything more.
func (p *testServer) kill() {
	if p.journal != nil {
		p.journal.KillAfter(0)
	}
	p.shutdown()
}

func (p *testServer) restart(writes int64) {
	p.kill()
	p.start(writes)
	p.run()
}

// await waits until something is true of the log.
func (p *testServer) await(what string, ok func(evs []chat.Event) bool) {
	p.t.Helper()
	if !p.awaitOrDeath(what, ok) {
		p.t.Fatalf("the process died before %s", what)
	}
}

// awaitOrDeath also returns, with false, when the process was killed.
func (p *testServer) awaitOrDeath(what string, ok func(evs []chat.Event) bool) (alive bool) {
	p.t.Helper()
	timeout := time.NewTimer(60 * time.Second)
	defer timeout.Stop()
	for {
		p.mu.Lock()
		done, moved := ok(p.events), p.moved
		p.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-moved:
		case <-p.journal.Killed:
			return false
		case <-timeout.C:
			p.t.Fatalf("waited in vain for %s; the log says\n%s", what, p.logText("s"))
		}
	}
}

func (p *testServer) awaitEnd(outcome chat.Outcome) chat.TurnCompleted {
	p.t.Helper()
	var end chat.TurnCompleted
	p.await("the end of the turn", func(evs []chat.Event) bool {
		for _, e := range evs {
			if b, ok := e.Body.(chat.TurnCompleted); ok {
				end = b
				return true
			}
		}
		return false
	})
	if end.Outcome != outcome {
		p.t.Fatalf("the turn ended as %s (%s), not %s; the log says\n%s", end.Outcome, end.Error, outcome, p.logText("s"))
	}
	return end
}

func (p *testServer) awaitType(typ string) chat.Event {
	p.t.Helper()
	var found chat.Event
	p.await(typ, func(evs []chat.Event) bool {
		for _, e := range evs {
			if e.Type == typ {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

func (p *testServer) begin(n chat.NewSession) {
	p.t.Helper()
	n.ID = "s"
	if _, _, err := p.Create(ctx, ann, n); err != nil {
		p.t.Fatal(err)
	}
}

func (p *testServer) say(text string) {
	p.t.Helper()
	if _, err := p.Append(ctx, ann, "s", []chat.Draft{chat.NewDraft(chat.UserMessage{Text: text})}); err != nil {
		p.t.Fatal(err)
	}
}

// story is the log, one line per event, without what differs between attempts.
func (p *testServer) logText(id chat.SessionID) string {
	facts, _, err := p.journal.Read(ctx, id, chat.Range{})
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, f := range facts {
		e, err := f.Event()
		if err != nil {
			p.t.Fatal(err)
		}
		if e.Type == "turn.resumed" || e.Type == "session.started" {
			continue
		}
		out = append(out, line(e))
	}
	return strings.Join(out, "\n")
}

func line(e chat.Event) string {
	switch b := e.Body.(type) {
	case chat.UserMessage:
		return "user " + b.Text
	case chat.AgentText:
		s := "says "
		if b.Partial {
			s = "said in part "
		}
		return s + b.Text
	case chat.AgentThinking:
		return "thinks " + b.Text
	case chat.AgentToolCall:
		return "calls " + b.Tool
	case chat.AgentToolResult:
		return "got " + string(b.Result)
	case chat.AgentToolError:
		return "tool error " + b.Error + " " + b.Code
	case chat.TurnCompleted:
		return strings.TrimSpace("ended " + string(b.Outcome) + " " + b.Error)
	case chat.PromptClosed:
		return "closed " + string(b.Reason)
	case chat.TurnInput:
		return fmt.Sprint("took ", len(b.Sequences))
	case chat.AgentStatus:
		return "status " + b.Message
	case chat.UserInputResponse:
		return "answer " + b.Text
	case chat.AgentError:
		return "error " + b.Code
	}
	return e.Type
}

func (p *testServer) wantLog(lines ...string) {
	p.t.Helper()
	if got, want := p.logText("s"), strings.Join(lines, "\n"); got != want {
		p.t.Fatalf("the log says\n%s\n\nand not\n%s", got, want)
	}
}
