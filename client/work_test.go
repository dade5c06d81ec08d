package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

// workServer is the server of a worker: it gives one turn and stores the drafts.
// Each connection ends after the next number of frames in cuts; when cuts is used
// up, it stays.
type workServer struct {
	t    *testing.T
	turn chat.Assignment
	cuts []int
	// asked is called when a prompt was stored; the event it returns is sent.
	asked func(e chat.Event) *chat.Event
	// received is called for every frame; what it returns is sent.
	received func(f workFrame) *workFrame
	// refuses is how often each append and each end is refused for the moment.
	refuses int
	refused int

	box  inbox
	mu   sync.Mutex
	text map[chat.BlockID]string
	news []chat.Event // sent again on every connection, as a server does
	end  chan workFrame
}

func newWorkServer(t *testing.T, text string) *workServer {
	return &workServer{
		t: t, text: map[chat.BlockID]string{}, end: make(chan workFrame, 8),
		turn: chat.Assignment{
			TurnRef: chat.TurnRef{Session: "s-1", Turn: "t-1", Attempt: 1}, Agent: "a",
			Trigger: chat.Event{Session: "s-1", Seq: 1, At: 1e15, Type: "user.message", Payload: json.RawMessage(`{"text":"` + text + `"}`)},
		},
	}
}

func (o *workServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		o.t.Error(err)
		return
	}
	defer conn.CloseNow()
	conn.SetReadLimit(1 << 24)
	o.mu.Lock()
	left := -1
	if len(o.cuts) > 0 {
		left, o.cuts = o.cuts[0], o.cuts[1:]
	}
	o.mu.Unlock()
	ctx := r.Context()
	for ; left != 0; left-- {
		_, b, err := conn.Read(ctx)
		if err != nil {
			return
		}
		var f workFrame
		if err := json.Unmarshal(b, &f); err != nil {
			o.t.Error(err)
			return
		}
		for _, reply := range o.take(f, left == 1) {
			if write(ctx, conn, reply) != nil {
				return
			}
		}
	}
}

// take handles a frame. If last is true, the connection ends without a reply.
func (o *workServer) take(f workFrame, last bool) (replies []workFrame) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.received != nil {
		if r := o.received(f); r != nil {
			replies = append(replies, *r)
		}
	}
	if f.Op == "append" || f.Op == "done" {
		if o.refused++; o.refused <= o.refuses {
			return append(replies, workFrame{Op: "error", ID: f.ID, Error: json.RawMessage(`{"code":"unavailable","message":"no node can write"}`)})
		}
		o.refused = 0
	}
	switch f.Op {
	case "ready":
		turn := o.turn
		if len(f.Turns) > 0 {
			o.turn.Attempt++
			turn = o.turn
		}
		replies = append(replies, workFrame{Op: "turn", Turn: &turn})
		for _, e := range o.news {
			replies = append(replies, workFrame{Op: "event", TurnID: "t-1", Event: &e})
		}
	case "append":
		if list, err := chat.ParseDrafts(f.Events); err != nil || list[0].Turn != "t-1" {
			o.t.Errorf("the worker sent %+v, %v", list, err)
		}
		events, err := o.box.append(f.Events)
		if err != nil {
			o.t.Error(err)
			return nil
		}
		raw, _ := json.Marshal(events)
		replies = append(replies, workFrame{Op: "ok", ID: f.ID, Events: raw})
		if o.asked != nil {
			if news := o.asked(events[0]); news != nil {
				o.news = append(o.news, *news)
				replies = append(replies, workFrame{Op: "event", TurnID: "t-1", Event: news})
			}
		}
	case "preview":
		for _, p := range f.Previews {
			have := o.text[p.Block]
			if p.Offset > len(have) || !strings.HasPrefix(p.Text, have[p.Offset:]) {
				o.t.Errorf("a piece at %d does not fit %q", p.Offset, have)
				continue
			}
			o.text[p.Block] = have[:p.Offset] + p.Text
		}
	case "done", "fail":
		replies = append(replies, workFrame{Op: "ok", ID: f.ID})
		o.end <- f
	}
	if last {
		return nil
	}
	return replies
}

func (o *workServer) shown(b chat.BlockID) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text[b]
}

func (o *workServer) types() string {
	var all []string
	for _, e := range o.box.all() {
		all = append(all, e.Type)
	}
	return strings.Join(all, " ")
}

// work runs a worker until its turn has ended, and returns how.
func work(t *testing.T, o *workServer, answer agent.Func) workFrame {
	t.Helper()
	c := serve(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	left := make(chan error, 1)
	go func() { left <- c.Work(ctx, "a", WorkOptions{Slots: 2}, answer) }()
	end := <-o.end
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatalf("Work returned %v", err)
	}
	return end
}

// answerWithEveryCall makes most calls of a turn.
func answerWithEveryCall(ctx context.Context, turn *agent.Turn) error {
	if err := turn.Status(ctx, "thinking", "planning"); err != nil {
		return err
	}
	if _, err := turn.Call(ctx, "add", json.RawMessage(`{"a":1}`), agent.CallOptions{Repeatable: true}, func(context.Context) (json.RawMessage, error) {
		return json.RawMessage("2"), nil
	}); err != nil {
		return err
	}
	name, err := turn.Ask(ctx, chat.AgentInputRequest{RequestID: "p-1", InputType: chat.InputText, Text: "Name?"})
	if err != nil {
		return err
	}
	w := turn.Stream(true)
	for _, word := range []string{"Hello ", name.Text, ", \xe6\x97", "\xa5 you said ", turn.Text()} {
		if err := w.Write(ctx, word); err != nil {
			return err
		}
	}
	return w.Close(ctx)
}

func nameIt(e chat.Event) *chat.Event {
	if e.Type != "agent.input_request" {
		return nil
	}
	body := chat.UserInputResponse{RequestID: "p-1", Text: "Ada"}
	return &chat.Event{Session: "s-1", Seq: 90, At: 1e15, Type: body.Type(), Payload: json.RawMessage(`{"request_id":"p-1","text":"Ada"}`), Body: body}
}

// A disconnect at any frame gives the same log as no disconnect.
func TestWorkSurvivesDisconnects(t *testing.T) {
	const want = "agent.status agent.tool_call agent.tool_result agent.input_request agent.text"
	for at := 1; at <= 11; at++ {
		o := newWorkServer(t, "hi")
		o.cuts = []int{at, at + 1, 2}
		o.asked = nameIt
		end := work(t, o, answerWithEveryCall)
		if end.Op != "done" || o.types() != want {
			t.Fatalf("cut after %d frames: %s with %s", at, end.Op, o.types())
		}
		last := o.box.all()[4].Body.(chat.AgentText)
		if last.Text != "Hello Ada, 日 you said hi" || !last.Final {
			t.Fatalf("cut after %d frames: said %q", at, last.Text)
		}
		if shown := o.shown(last.Block); !strings.HasPrefix(last.Text, shown) {
			t.Fatalf("cut after %d frames: showed %q", at, shown)
		}
	}
}

// A turn does not fail because the server could not store something for a moment.
func TestWorkRepeatsWhatIsRefusedForTheMoment(t *testing.T) {
	o := newWorkServer(t, "hi")
	o.refuses, o.asked = 3, nameIt
	end := work(t, o, answerWithEveryCall)
	if end.Op != "done" || o.types() != "agent.status agent.tool_call agent.tool_result agent.input_request agent.text" {
		t.Fatalf("%s with %s", end.Op, o.types())
	}
}

// The end of a turn is reported until the server has it: it keeps the turn for the worker.
func TestWorkReportsAnEndUntilItIsStored(t *testing.T) {
	o := newWorkServer(t, "hi")
	o.refuses = 150 // more often than a call is repeated
	if end := work(t, o, func(context.Context, *agent.Turn) error { return nil }); end.Op != "done" {
		t.Fatalf("ended with %s", end.Op)
	}
}

func TestWorkEndsAStoppedTurn(t *testing.T) {
	o := newWorkServer(t, "hi")
	o.received = func(f workFrame) *workFrame {
		if f.Op == "append" {
			return &workFrame{Op: "stop", TurnID: "t-1"}
		}
		return nil
	}
	var cause error
	end := work(t, o, agent.Func(func(ctx context.Context, turn *agent.Turn) error {
		turn.Status(ctx, "begun", "")
		<-ctx.Done()
		cause = context.Cause(ctx)
		return cause
	}))
	if end.Op != "done" || !errors.Is(cause, agent.ErrStopped) {
		t.Fatalf("ended with %s because of %v", end.Op, cause)
	}
}

func TestWorkReportsFailure(t *testing.T) {
	for text, answer := range map[string]agent.Func{
		`"no fuel"`:                   func(context.Context, *agent.Turn) error { return errors.New("no fuel") },
		`"the agent panicked: oh no"`: func(context.Context, *agent.Turn) error { panic("oh no") },
	} {
		if end := work(t, newWorkServer(t, "hi"), answer); end.Op != "fail" || string(end.Error) != text {
			t.Errorf("ended with %s %s, want %s", end.Op, end.Error, text)
		}
	}
}

// A worker that continues the turn of another worker does not repeat stored events.
func TestWorkContinuesTheTurnOfAnotherWorker(t *testing.T) {
	for name, test := range map[string]struct {
		shown string // of the last block
		types string
	}{
		"with the same text":  {"Hello Ada, ", "agent.text"},
		"with the whole text": {"Hello Ada, 日 you said hi", "agent.text"},
		"with different text": {"Good morning", "agent.text agent.text"},
	} {
		t.Run(name, func(t *testing.T) {
			first := newWorkServer(t, "hi")
			first.asked = nameIt
			work(t, first, answerWithEveryCall)
			all := first.box.all()
			block := all[4].Body.(chat.AgentText).Block

			o := newWorkServer(t, "hi")
			o.turn.Attempt = 2
			o.turn.Events = append(append([]chat.Event{}, all[:4]...), *nameIt(all[3]))
			o.turn.Open = []chat.Block{{ID: block, Kind: chat.TextBlock, Text: test.shown, Turn: "t-1"}}
			o.text[block] = test.shown
			if end := work(t, o, answerWithEveryCall); end.Op != "done" || o.types() != test.types {
				t.Fatalf("ended with %s: %s", end.Op, o.types())
			}
			events := o.box.all()
			last := events[len(events)-1].Body.(chat.AgentText)
			if last.Text != "Hello Ada, 日 you said hi" {
				t.Fatalf("said %q", last.Text)
			}
			if len(events) == 2 {
				left := events[0].Body.(chat.AgentText)
				if left.Text != test.shown || !left.Partial || left.Block != block || last.Block == block {
					t.Fatalf("left %+v and said %+v", left, last)
				}
			}
		})
	}
}

// A tool that is not repeatable is not run again after a disconnect.
func TestWorkDoesNotRepeatUnrepeatableTools(t *testing.T) {
	o := newWorkServer(t, "pay")
	o.turn.Attempt = 2
	o.turn.Events = []chat.Event{{
		Session: "s-1", Seq: 3, At: 1e15, Type: "agent.tool_call", ClientID: "t-1/1", Actor: chat.Actor{Kind: chat.Agent, ID: "a"},
		Payload: json.RawMessage(`{"call_id":"c1","tool":"pay"}`),
	}}
	ran := false
	var got error
	work(t, o, agent.Func(func(ctx context.Context, turn *agent.Turn) error {
		_, got = turn.Call(ctx, "pay", nil, agent.CallOptions{}, func(context.Context) (json.RawMessage, error) { ran = true; return nil, nil })
		return nil
	}))
	b, _ := o.box.all()[0].Body.(chat.AgentToolError)
	if ran || !errors.Is(got, agent.ErrUnknownOutcome) || b.Code != chat.UnknownOutcome || b.CallID != "c1" {
		t.Fatalf("ran %v, error %v, log %+v", ran, got, b)
	}
}

func TestWorkEndsWhenRefused(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, 403, chat.Errorf(chat.Denied, "needs the scope agent"))
	}))
	err := c.Work(t.Context(), "a", WorkOptions{}, agent.Func(answerWithEveryCall))
	if chat.CodeOf(err) != chat.Denied {
		t.Fatalf("got %v", err)
	}
}
