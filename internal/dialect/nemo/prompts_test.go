package nemo

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

func TestPromptSurvivesRestart(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("?conversation_id=c1")
	c.say("c1", "m1", "/ask radio")
	c.prompt()
	w = w.restart()
	back := w.dial("?conversation_id=c1")
	p := back.prompt()
	if p.Parent != "m1" {
		t.Errorf("parent of %s", p.raw)
	}
	back.answer("c1", "a1", p.Parent, "sms")
	if got := textOf(back.readTurn()); got != "You answered: sms" {
		t.Errorf("got %q", got)
	}
}

func TestPromptIsSentAgainWithRemainingTime(t *testing.T) {
	t.Parallel()
	var shift atomic.Int64
	begun := time.Now()
	w := newServer(t, setup{now: func() time.Time { return begun.Add(time.Duration(shift.Load())) }})
	c := w.dial("?conversation_id=c1")
	c.say("c1", "m1", "/ask text timeout=100")
	p := c.prompt()
	if p.Content.Timeout == nil || *p.Content.Timeout != 100 {
		t.Fatalf("first: %s", p.raw)
	}
	c.drop()
	shift.Store(int64(30 * time.Second))
	again := w.dial("?conversation_id=c1").prompt()
	if again.Content.Timeout == nil || *again.Content.Timeout != 70 {
		t.Errorf("again: %s", again.raw)
	}
	if again.ID == p.ID {
		t.Error("the frame that shows the prompt again has the same id; the UI would not start its countdown anew")
	}
}

// A prompt that is raised after a reconnect can be answered.
func TestPromptAfterReconnect(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newServer(t, setup{agents: map[string]agent.Agent{"demo": answerFunc(func(ctx context.Context, turn *agent.Turn) error {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
		a, err := turn.Ask(ctx, chat.AgentInputRequest{InputType: chat.InputText, Text: "Name?"})
		if err != nil {
			return err
		}
		return turn.Say(ctx, "Hello "+a.Text)
	})}})
	c := w.dial("?conversation_id=c1")
	c.say("c1", "m1", "go")
	w.running("c1")
	c.drop()
	back := w.dial("?conversation_id=c1")
	close(gate)
	p := back.prompt()
	back.answer("c1", "a1", p.Parent, "Ada")
	if got := textOf(back.readTurn()); got != "Hello Ada" {
		t.Errorf("got %q", got)
	}
}

func TestPromptsAreSentOneAfterTheOther(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{agents: map[string]agent.Agent{"demo": answerFunc(func(ctx context.Context, turn *agent.Turn) error {
		return turn.Say(ctx, "done")
	})}})
	ctx, me := t.Context(), chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "local"}, Scopes: []chat.Scope{chat.ScopeAdmin}}
	if _, _, err := w.Sessions.Create(ctx, me, chat.NewSession{ID: "c1", Agent: chat.NoAgent}); err != nil {
		t.Fatal(err)
	}
	var drafts []chat.Draft
	for _, q := range []string{"first", "second"} {
		drafts = append(drafts, chat.NewDraft(chat.AgentInputRequest{RequestID: q, InputType: chat.InputText, Text: q}))
	}
	drafts = append(drafts, chat.NewDraft(chat.AgentInputRequest{InputType: chat.InputNotification, Text: "by the way"}))
	if _, err := w.Sessions.Append(ctx, me, "c1", drafts[:1]); err != nil {
		t.Fatal(err)
	}
	c := w.dial("?conversation_id=c1")
	read := func() string {
		p := c.next()
		if p.Type != typePrompt || p.Content.Text == nil {
			t.Fatalf("no prompt: %s", p.raw)
		}
		return *p.Content.Text
	}
	if got := read(); got != "first" {
		t.Errorf("first window: %s", got)
	}
	if _, err := w.Sessions.Append(ctx, me, "c1", drafts[1:]); err != nil {
		t.Fatal(err)
	}
	c.answer("c1", "a1", "x", "1")
	if got := read(); got != "second" {
		t.Errorf("second window: %s", got)
	}
	c.answer("c1", "a2", "x", "2")
	if got := read(); got != "by the way" {
		t.Errorf("the notification came as %s", got)
	}
	var answers []string
	facts, _, err := w.Sessions.Read(ctx, me, "c1", chat.Range{Types: []string{"user.input_response"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range facts {
		e, _ := f.Event()
		b := e.Body.(chat.UserInputResponse)
		answers = append(answers, b.RequestID+"="+b.Text)
	}
	if strings.Join(answers, " ") != "first=1 second=2" {
		t.Errorf("answers %v", answers)
	}
}

// Answers that do not fit are refused with the reason, and the prompt is sent again; late and unexpected ones get an
// error.
func TestAnswers(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("")
	c.say("c1", "m1", "/ask radio")
	p := c.prompt()
	c.answer("c1", "a1", p.Parent, "pigeon")
	if f := c.next(); f.Content.Code != codeData || !strings.Contains(f.Content.Details, "email") {
		t.Errorf("refusal: %s", f.raw)
	}
	again := c.next()
	if !isPrompt(again) {
		t.Errorf("the prompt is not shown again: %s", again.raw)
	}
	c.answer("c1", "a2", again.ID, "push")
	if got := textOf(c.readTurn()); got != "You answered: push" {
		t.Errorf("got %q", got)
	}
	c.answer("c1", "a3", again.ID, "sms")
	if f := c.next(); f.Content.Code != codeMessage || !strings.Contains(f.Content.Details, "answered") {
		t.Errorf("late answer: %s", f.raw)
	}
	for _, tc := range []struct{ say, answer, want string }{
		{"/ask binary_choice", "continue", "You answered: continue"},
		{"/ask dropdown", "email", "You answered: email"},
		{"/ask checkbox", `["email","push"]`, "You answered: email, push"},
		{"/ask checkbox", "sms, push", "You answered: sms, push"},
		{"/ask text", " Ada ", "You answered:  Ada "},
		{"/ask oauth_consent", "", "You answered: "},
		{`/approve deploy {"env":"prod"}`, "continue", `deploy gave {"env":"prod"}`},
		{`/approve deploy {}`, "cancel", "Denied: no reason given"},
		{"/permission files.read net", "continue", "Granted: files.read, net"},
		{"/permission net", "cancel", "Denied: net"},
	} {
		c.say("c1", "m-"+tc.say+tc.answer, tc.say)
		p := c.prompt()
		c.answer("c1", "a-"+tc.say+tc.answer, p.Parent, tc.answer)
		if got := textOf(c.readTurn()); got != tc.want {
			t.Errorf("%s, %s: %q", tc.say, tc.answer, got)
		}
	}
	c.say("c1", "m-n", "/ask notification")
	frames := c.readTurn()
	if frames[0].Content.InputType != "notification" || textOf(frames) != "Notified." {
		t.Errorf("notification: %s", frames[0].raw)
	}
}

// The server decides when a prompt expires; a later answer gets an error.
func TestPromptExpires(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("")
	c.say("c1", "m1", "/ask text timeout=0.2")
	p := c.prompt()
	if p.Content.Timeout == nil || *p.Content.Timeout != 1 {
		t.Errorf("timeout of %s", p.raw)
	}
	if got := textOf(c.readTurn()); got != "No answer in time." {
		t.Errorf("got %q", got)
	}
	c.answer("c1", "a1", p.Parent, "Ada")
	if f := c.next(); !isError(f) || !strings.Contains(f.Content.Details, "expired") {
		t.Errorf("late answer: %s", f.raw)
	}
}

// Two tabs answer the same prompt: the second one gets an error that names the first.
func TestFirstAnswerCounts(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	one := w.dial("")
	one.say("c1", "m1", "/ask text")
	p := one.prompt()
	two := w.dial("?session=other&conversation_id=c1")
	two.prompt()
	one.answer("c1", "a1", p.Parent, "Ada")
	if got := textOf(one.readTurn()); got != "You answered: Ada" {
		t.Errorf("got %q", got)
	}
	two.readTurn()
	two.answer("c1", "a2", p.Parent, "Bob")
	if f := two.next(); !isError(f) || !strings.Contains(f.Content.Details, "answered already by local") {
		t.Errorf("the second: %s", f.raw)
	}
}

// A client whose connection broke sends its answer again on a new one, when the prompt has ended: it gets no error.
// An answer that came late does.
func TestTheSameAnswerAgainIsAccepted(t *testing.T) {
	t.Parallel()
	for _, ask := range []string{"/ask text", "/approve deploy {}"} {
		w := newServer(t, setup{})
		c := w.dial("")
		c.say("c1", "m1", ask)
		p := c.prompt()
		c.answer("c1", "a1", p.Parent, "continue")
		c.readTurn()
		c.drop()
		back := w.dial("")
		back.answer("c1", "a1", p.Parent, "continue")
		back.answer("c1", "a2", p.Parent, "continue")
		frames := back.until(isError) // the end of the turn may come again
		if f := frames[len(frames)-1]; f.Parent != "a2" {
			t.Errorf("%s: %s", ask, f.raw)
		}
	}
}

// An answer that is sent again does not answer the next prompt, which its sender has not seen.
func TestTheSameAnswerAgainIsNotForTheNextPrompt(t *testing.T) {
	t.Parallel()
	const id = "0c7e2c4e-6f43-4b57-9a5b-2f1a6b1c9d10"
	w := newServer(t, setup{})
	c := w.dial("")
	c.say("c1", "m1", "/ask text")
	first := c.prompt()
	c.answer("c1", id, first.Parent, "continue")
	c.readTurn()
	c.say("c1", "m2", "/approve deploy {}")
	c.prompt()
	c.drop()
	back := w.dial("")
	back.answer("c1", id, first.Parent, "continue")
	back.answer("c1", "1c7e2c4e-6f43-4b57-9a5b-2f1a6b1c9d11", "", "cancel")
	for _, text := range back.readTurn() {
		if strings.Contains(text.raw, "deploy gave") {
			t.Errorf("the old answer has approved the call: %s", text.raw)
		}
	}
}

type answerFunc func(ctx context.Context, t *agent.Turn) error

func (f answerFunc) Answer(ctx context.Context, t *agent.Turn) error { return f(ctx, t) }

// running waits until a turn of the session runs.
func (w *testServer) running(id chat.SessionID) {
	w.t.Helper()
	w.happened(id, "turn.started")
}

// happened waits for the first event of a type.
func (w *testServer) happened(id chat.SessionID, typ string) {
	w.t.Helper()
	w.Until(id, typ, 1)
}
