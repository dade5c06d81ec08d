package agentpool_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/dialect/native"
	"github.com/parley-hq/parley/internal/servertest"
)

// The tests of this file run the same agents in the process of the server and as workers.

// fixture is a server with one agent.
type fixture struct {
	t       *testing.T
	dir     string
	worker  bool
	agent   agent.Agent
	srv     *servertest.Server
	client  *client.Client
	session chat.SessionID

	mu    sync.Mutex
	conns []context.CancelFunc // of worker connections
	stop  func()               // ends the worker
}

// onBoth runs a test with an agent in the process and with the same agent as a worker.
func onBoth(t *testing.T, a agent.Func, test func(f *fixture)) {
	for _, worker := range []bool{false, true} {
		name := "in the process"
		if worker {
			name = "as a worker"
		}
		t.Run(name, func(t *testing.T) {
			f := &fixture{t: t, dir: t.TempDir(), worker: worker, agent: a}
			t.Cleanup(func() { f.close() })
			f.start()
			s, err := f.client.Create(t.Context(), client.NewSession{Agent: "subject", Policy: chat.Steer})
			if err != nil {
				t.Fatal(err)
			}
			f.session = s.ID
			test(f)
		})
	}
}

// start starts the server and the agent.
func (f *fixture) start() {
	f.t.Helper()
	opt := servertest.Options{Dir: f.dir}
	if !f.worker {
		opt.Agents = map[string]agent.Agent{"subject": f.agent}
	}
	s := servertest.Open(f.t, opt)
	d := native.New(native.Options{
		Sessions: s.Sessions, Files: s.Files, Workers: s.Pool, Caller: s.Auth.Caller, Conns: s.Conns,
		Agents: func(ws string) any { return s.Registry.List(ws, s.Runner.Running()) }, Builtin: s.Registry.Builtin, Version: "test",
	})
	routes := d.Routes()
	for i, r := range routes {
		if strings.HasSuffix(r.Pattern, "/work") {
			routes[i].Handler = f.cuttable(r.Handler)
		}
	}
	s.Serve(routes)
	f.srv = s
	c, err := client.New(client.Options{URL: s.HTTP.URL, Backoff: client.Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.client = c
	if !f.worker {
		f.stop = func() {}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Work(ctx, "subject", client.WorkOptions{}, f.agent) }()
	f.stop = func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			f.t.Errorf("Work returned %v", err)
		}
	}
}

// cuttable lets cut end the connections of workers.
func (f *fixture) cuttable(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		f.mu.Lock()
		f.conns = append(f.conns, cancel)
		f.mu.Unlock()
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// interrupt ends what runs the agent: the process of the server, or the worker's connection.
func (f *fixture) interrupt() {
	f.t.Helper()
	if f.worker {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, cut := range f.conns {
			cut()
		}
		f.conns = nil
		return
	}
	f.close()
	f.start()
}

func (f *fixture) close() {
	f.stop()
	f.client.Close()
	f.srv.Close()
}

func (f *fixture) say(text string) {
	f.t.Helper()
	if _, err := f.client.Say(f.t.Context(), f.session, text); err != nil {
		f.t.Fatal(err)
	}
}

// await returns the first event of a type.
func (f *fixture) await(typ string) chat.Event {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 60*time.Second)
	defer cancel()
	for frame, err := range f.client.Watch(ctx, f.session, client.WatchOptions{After: "0"}) {
		if err != nil {
			f.t.Fatalf("waiting for %s: %v; the log has\n%s", typ, err, f.log())
		}
		if frame.Event != nil && frame.Event.Type == typ && frame.Event.Workstream == "" {
			return *frame.Event
		}
	}
	f.t.Fatalf("the stream ended before %s", typ)
	return chat.Event{}
}

// end waits for the end of the turn and compares the log of the main line with what is expected.
func (f *fixture) end(outcome chat.Outcome, want ...string) {
	f.t.Helper()
	e := f.await("turn.completed")
	if b := e.Body.(chat.TurnCompleted); b.Outcome != outcome {
		f.t.Errorf("the turn ended as %s (%s), want %s", b.Outcome, b.Error, outcome)
	}
	if got := f.log(); got != strings.Join(want, "\n") {
		f.t.Errorf("the log has\n%s\n\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// log is the main line without what belongs to the server.
func (f *fixture) log() string {
	var out []string
	for e, err := range f.client.Events(f.t.Context(), f.session, client.EventQuery{Workstream: "main"}) {
		if err != nil {
			return err.Error()
		}
		switch e.Type {
		case "session.started", "turn.started", "turn.resumed", "turn.completed", "turn.input":
		case "file.uploaded": // the file of a worker
		default:
			status, _ := e.Body.(chat.AgentStatus) // "waiting": the worker connected after the message
			if !strings.HasPrefix(e.Type, "workstream.") && status.Phase != "waiting" {
				out = append(out, line(e))
			}
		}
	}
	return strings.Join(out, "\n")
}

func (f *fixture) answer(request string, a chat.Answer) {
	f.t.Helper()
	if _, err := f.client.Answer(f.t.Context(), f.session, request, a); err != nil {
		f.t.Fatal(err)
	}
}

func TestTextAndTools(t *testing.T) {
	onBoth(t, func(ctx context.Context, turn *agent.Turn) error {
		think := turn.Think()
		if err := errors.Join(think.Write(ctx, "Add "), think.Write(ctx, "them."), think.Close(ctx)); err != nil {
			return err
		}
		sum, err := turn.Call(ctx, "add", json.RawMessage(`{"a":1}`), agent.CallOptions{}, func(ctx context.Context) (json.RawMessage, error) {
			return json.RawMessage("2"), turn.Status(ctx, "adding", "")
		})
		if err != nil {
			return err
		}
		if _, err := turn.Call(ctx, "break", nil, agent.CallOptions{}, func(context.Context) (json.RawMessage, error) {
			return nil, errors.New("broken")
		}); err == nil || err.Error() != "broken" {
			return err
		}
		w := turn.Stream(true)
		return errors.Join(w.Write(ctx, "It is "+string(sum)), w.Write(ctx, "."), w.Close(ctx))
	}, func(f *fixture) {
		f.say("1+1?")
		f.end(chat.Done, "user 1+1?", "thinks Add them.", "calls add", "status adding", "got 2", "calls break", "tool error broken ", "says It is 2.")
	})
}

func TestQuestionsAndApprovals(t *testing.T) {
	onBoth(t, func(ctx context.Context, turn *agent.Turn) error {
		name, err := turn.Ask(ctx, chat.AgentInputRequest{RequestID: "name", InputType: chat.InputText, Text: "Name?"})
		if err != nil {
			return err
		}
		decisions, err := turn.Approve(ctx, chat.AgentApprovalRequest{RequestID: "pay", Calls: []chat.ApprovalCall{{CallID: "c1", Tool: "pay"}}})
		if err != nil {
			return err
		}
		_, err = turn.Ask(ctx, chat.AgentInputRequest{RequestID: "late", InputType: chat.InputText, Text: "Still there?", Timeout: 1})
		if !errors.Is(err, agent.ErrExpired) {
			return errors.Join(errors.New("the question did not expire"), err)
		}
		if decisions[0].Approve {
			return turn.Say(ctx, name.Text+" pays.")
		}
		return turn.Say(ctx, name.Text+" does not pay: "+decisions[0].Reason)
	}, func(f *fixture) {
		f.say("pay")
		f.await("agent.input_request")
		f.answer("name", chat.Answer{Text: "Ada"})
		f.await("agent.approval_request")
		f.answer("pay", chat.Answer{Decisions: []chat.Decision{{CallID: "c1", Reason: "no money"}}})
		f.end(chat.Done, "user pay", "agent.input_request", "answer Ada", "agent.approval_request", "user.approval_response", "agent.input_request", "closed expired", "says Ada does not pay: no money")
	})
}

func TestStopKeepsWhatWasShown(t *testing.T) {
	shown := make(chan struct{}, 1)
	onBoth(t, func(ctx context.Context, turn *agent.Turn) error {
		w := turn.Stream(true)
		if err := w.Write(ctx, "as far as "); err != nil {
			return err
		}
		shown <- struct{}{}
		<-ctx.Done()
		if !agent.Stopped(ctx) {
			return context.Cause(ctx)
		}
		return turn.Status(context.WithoutCancel(ctx), "cleaned up", "")
	}, func(f *fixture) {
		f.say("go")
		<-shown
		if _, err := f.client.Stop(f.t.Context(), f.session, client.StopOptions{}); err != nil {
			f.t.Fatal(err)
		}
		f.end(chat.Stopped, "user go", "turn.stop_requested", "status cleaned up", "said in part as far as ")
	})
}

func TestFailures(t *testing.T) {
	onBoth(t, func(ctx context.Context, turn *agent.Turn) error {
		w := turn.Stream(true)
		if err := w.Write(ctx, "Let me "); err != nil {
			return err
		}
		return agent.Failf(agent.CodeDown, chat.Unavailable, "the endpoint is down")
	}, func(f *fixture) {
		f.say("go")
		f.end(chat.Failed, "user go", "said in part Let me ", "error "+agent.CodeDown)
		if b := f.await("turn.completed").Body.(chat.TurnCompleted); b.Error != "the endpoint is down" {
			f.t.Error(b.Error)
		}
	})
	onBoth(t, func(context.Context, *agent.Turn) error { panic("ouch") }, func(f *fixture) {
		f.say("go")
		f.end(chat.Failed, "user go")
		if b := f.await("turn.completed").Body.(chat.TurnCompleted); b.Error != "the agent panicked: ouch" {
			f.t.Error(b.Error)
		}
	})
}

func TestWorkstreamsAndFiles(t *testing.T) {
	onBoth(t, func(ctx context.Context, turn *agent.Turn) error {
		if launch, ok := turn.Assignment(); ok {
			if err := turn.Progress(ctx, chat.WorkstreamProgress{Phase: chat.PhaseSynthesizing, Message: "Soon."}); err != nil {
				return err
			}
			if err := turn.File(ctx, chat.AgentArtifact{ArtifactID: launch.ID, ArtifactType: "file", Path: "out.txt", MediaType: "text/plain"}, strings.NewReader(launch.Task)); err != nil {
				return err
			}
			return turn.Say(ctx, "Did "+launch.Task)
		}
		for _, name := range []string{"one", "two"} {
			if _, err := turn.Launch(ctx, chat.Launch{ID: name, Instruction: name}); err != nil {
				return err
			}
		}
		all, err := turn.Await(ctx, "one", "two")
		if err != nil {
			return err
		}
		if news, err := turn.NewEvents(ctx); err != nil || len(news) > 0 {
			return errors.Join(err, errors.New("Await left news"))
		}
		started, err := turn.Started(ctx)
		if err != nil || started.Turn != turn.ID {
			return errors.Join(err, errors.New("Started returned another event"))
		}
		st, err := turn.State(ctx)
		if err != nil {
			return err
		}
		if len(st.Workstreams) != 2 {
			return errors.New("the state lacks workstreams")
		}
		return turn.Say(ctx, all[0].Summary+", "+all[1].Summary)
	}, func(f *fixture) {
		f.say("go")
		f.end(chat.Done, "user go", "says Did one, Did two")
		files, err := f.client.Artifacts(f.t.Context(), f.session)
		if err != nil || len(files) != 2 {
			f.t.Errorf("the session has the files %v, %v", files, err)
		}
	})
}

func TestMessagesDuringATurn(t *testing.T) {
	onBoth(t, func(ctx context.Context, turn *agent.Turn) error {
		if err := turn.Status(ctx, "listening", ""); err != nil {
			return err
		}
		var received []string
		for len(received) < 2 {
			messages, err := turn.NewMessages(ctx)
			if err != nil {
				return err
			}
			for _, m := range messages {
				received = append(received, m.Text)
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Millisecond):
			}
		}
		return turn.Say(ctx, strings.Join(received, " "))
	}, func(f *fixture) {
		f.say("go")
		f.await("agent.status")
		f.say("left")
		f.await("turn.input")
		f.interrupt() // what was received is received once
		f.say("right")
		f.await("turn.completed")
		if log := f.log(); !strings.HasSuffix(log, "says left right") {
			f.t.Error(log)
		}
	})
}

func TestInterruptedTurnContinues(t *testing.T) {
	var mu sync.Mutex
	var runs []string
	shown := make(chan struct{}, 1)
	onBoth(t, func(ctx context.Context, turn *agent.Turn) error {
		if _, err := turn.Call(ctx, "count", nil, agent.CallOptions{}, func(context.Context) (json.RawMessage, error) {
			mu.Lock()
			defer mu.Unlock()
			runs = append(runs, "count")
			return json.RawMessage("1"), nil
		}); err != nil {
			return err
		}
		w := turn.Stream(false)
		if err := w.Write(ctx, "Let me ask"); err != nil {
			return err
		}
		select {
		case shown <- struct{}{}:
		default:
		}
		if err := errors.Join(w.Write(ctx, "."), w.Close(ctx)); err != nil {
			return err
		}
		color, err := turn.Ask(ctx, chat.AgentInputRequest{RequestID: "color", InputType: chat.InputText, Text: "Color?"})
		if err != nil {
			return err
		}
		return turn.Say(ctx, color.Text)
	}, func(f *fixture) {
		mu.Lock()
		runs = nil
		mu.Unlock()
		select {
		case <-shown:
		default:
		}
		f.say("go")
		<-shown
		f.interrupt()
		f.await("agent.input_request")
		f.interrupt()
		f.answer("color", chat.Answer{Text: "blue"})
		f.end(chat.Done, "user go", "calls count", "got 1", "says Let me ask.", "agent.input_request", "answer blue", "says blue")
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(runs, []string{"count"}) {
			f.t.Errorf("the tool ran %d times", len(runs))
		}
	})
}
