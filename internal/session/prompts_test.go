package session

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// promptKinds has for each kind of prompt its request, invalid answers and a valid one.
var promptKinds = map[string]struct {
	ask  chat.Body
	bad  []chat.Answer
	good chat.Answer
}{
	"text": {chat.AgentInputRequest{InputType: chat.InputText, Text: "?"}, []chat.Answer{{Text: " "}, {}}, chat.Answer{Text: "x"}},
	"radio": {chat.AgentInputRequest{InputType: chat.InputRadio, Options: []chat.Option{{ID: "a"}, {ID: "b"}}},
		[]chat.Answer{{Values: []string{"c"}}, {Values: []string{"a", "b"}}, {}}, chat.Answer{Values: []string{"a"}}},
	"checkbox": {chat.AgentInputRequest{InputType: chat.InputCheckbox, Options: []chat.Option{{ID: "a"}, {ID: "b"}}, Max: 1},
		[]chat.Answer{{Values: []string{"a", "b"}}, {}}, chat.Answer{Values: []string{"b"}}},
	"dropdown": {chat.AgentInputRequest{InputType: chat.InputDropdown, Options: []chat.Option{{ID: "a"}}}, []chat.Answer{{Text: "z"}}, chat.Answer{Text: "a"}},
	"binary": {chat.AgentInputRequest{InputType: chat.InputBinary, Options: []chat.Option{{ID: "continue"}, {ID: "cancel"}}},
		[]chat.Answer{{Text: "maybe"}}, chat.Answer{Text: "cancel"}},
	"oauth": {chat.AgentInputRequest{InputType: chat.InputOAuth, Text: "https://example.com"}, nil, chat.Answer{}},
	"approval": {chat.AgentApprovalRequest{Calls: []chat.ApprovalCall{{CallID: "c", Tool: "t", Params: json.RawMessage(`{"a":1}`)}}},
		[]chat.Answer{{Text: "yes"}, {Decisions: []chat.Decision{}}, {Decisions: []chat.Decision{{CallID: "d", Approve: true}}}},
		chat.Answer{Decisions: []chat.Decision{{CallID: "c", Approve: true, Remember: "session"}}}},
	"permission": {chat.AgentPermissionRequest{Scopes: []string{"a", "b"}},
		[]chat.Answer{{Text: "yes"}, {Granted: &[]string{"c"}}}, chat.Answer{Granted: &[]string{"b"}, Duration: "always"}},
}

// startPrompt starts a session in which bob may answer too, and asks a prompt in it.
func (w *testStore) startPrompt(ask chat.Body) (id chat.SessionID, request string) {
	w.t.Helper()
	id = w.begin("s", chat.NewSession{Members: []chat.Member{{Actor: bob.Actor, Role: chat.Answerer}}})
	request = w.ask(id, ask)
	if s := w.state(id).Session; s.Status != chat.Waiting || s.OpenPrompts != 1 {
		w.t.Fatal(s)
	}
	return id, request
}

// Invalid answers are refused, and the prompt stays open for a valid one.
func TestInvalidAnswerIsRefused(t *testing.T) {
	for name, k := range promptKinds {
		t.Run(name, func(t *testing.T) {
			w := newTestStore(t, Options{})
			id, p := w.startPrompt(k.ask)
			for _, bad := range k.bad {
				_, err := w.Answer(ctx, ann, id, p, bad)
				w.wantCode(err, chat.Invalid)
			}
			_, err := w.Answer(ctx, ann, id, "other", chat.Answer{Text: "x"})
			w.wantCode(err, chat.NotFound)
			if s := w.state(id).Session; s.OpenPrompts != 1 {
				t.Fatal(s)
			}
			if _, err := w.Answer(ctx, ann, id, p, k.good); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Of several answers at the same time one is stored, also after a restart. The refusal of the others names the first
// answerer, and a repetition of the stored answer returns its event.
func TestPromptIsAnsweredOnce(t *testing.T) {
	for name, k := range promptKinds {
		t.Run(name, func(t *testing.T) {
			w := newTestStore(t, Options{})
			id, p := w.startPrompt(k.ask)
			w.restart()
			k.good.ClientID = "mine"
			var wg sync.WaitGroup
			won, lost := make(chan chat.Event, 2), make(chan error, 2)
			for _, c := range []chat.Caller{ann, bob} {
				wg.Go(func() {
					if e, err := w.Answer(ctx, c, id, p, k.good); err == nil {
						won <- e
					} else {
						lost <- err
					}
				})
			}
			wg.Wait()
			e, err := <-won, <-lost
			d := chat.Public(err).Details
			if chat.CodeOf(err) != chat.Conflict || d["answered_by"] != e.Actor || d["answered_at"] != e.At || d["sequence"] != e.Seq || d["request_id"] != p {
				t.Fatalf("the refusal of the second answer is %v %v", err, d)
			}
			winner := ann
			if e.Actor.Same(bob.Actor) {
				winner = bob
			}
			again, err := w.Answer(ctx, winner, id, p, k.good)
			if err != nil || again.Seq != e.Seq {
				t.Fatalf("the repetition of the first answer returns %v %v", again, err)
			}
			other := chat.Answer{Text: "something else", ClientID: "mine"}
			_, err = w.Answer(ctx, winner, id, p, other)
			w.wantCode(err, chat.Conflict) // the client_id belongs to the stored answer
			_, err = w.Answer(ctx, winner, id, "other", k.good)
			w.wantCode(err, chat.Conflict) // the client_id belongs to the answer of another prompt
			loser := bob
			if winner.Actor.Same(bob.Actor) {
				loser = ann
			}
			_, err = w.Answer(ctx, loser, id, p, k.good)
			w.wantCode(err, chat.Conflict) // also when it is sent again
			if asked, err := w.Prompt(ctx, bob, id, p); err != nil || asked == nil || asked.RequestID != p {
				t.Fatalf("the ended prompt is %v %v", asked, err)
			}
			if asked, err := w.Prompt(ctx, bob, id, "other"); err != nil || asked != nil {
				t.Fatalf("a prompt that is not there is %v %v", asked, err)
			}
			if s := w.state(id).Session; s.OpenPrompts != 0 {
				t.Fatal(s)
			}
			w.events(id)
		})
	}
}

// TestAnswerRetriedInTheSameCommitReturnsTheFirstEvent: a retry that arrives before the first answer is stored gets
// the event of the first answer.
func TestAnswerRetriedInTheSameCommitReturnsTheFirstEvent(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	p := w.ask(id, chat.AgentInputRequest{InputType: chat.InputText, Text: "?"})
	r := w.acquire(id)
	defer r.release()
	d := &decision{session: "s", state: w.state(id), now: w.Sessions.now()}
	var got [2]chat.Event
	for i := range got {
		a := &answering{caller: ann, request: p, answer: chat.Answer{Text: "x", ClientID: "k"}}
		if err := a.decide(d); err != nil {
			t.Fatal(err)
		}
		got[i] = a.event
	}
	if got[0].Seq == 0 || got[0].Seq != got[1].Seq {
		t.Fatalf("answers %d and %d", got[0].Seq, got[1].Seq)
	}
}

func TestPromptIDsAreUsedOnce(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	ask := func(request string) chat.Body {
		return chat.AgentInputRequest{RequestID: request, InputType: chat.InputText, Text: "?"}
	}
	w.append(bot, id, ask("r"))
	refused := func(bodies ...chat.Body) {
		t.Helper()
		var drafts []chat.Draft
		for _, b := range bodies {
			drafts = append(drafts, chat.NewDraft(b))
		}
		_, err := w.Append(ctx, user("ann", chat.ScopeAgent), id, drafts)
		w.wantCode(err, chat.Conflict)
	}
	refused(ask("r"))
	if _, err := w.Answer(ctx, ann, id, "r", chat.Answer{Text: "x"}); err != nil {
		t.Fatal(err)
	}
	refused(ask("r"))
	w.restart()
	refused(ask("r"))
	refused(ask("q"), chat.UserInputResponse{RequestID: "q", Text: "x"}, ask("q"))
	// An agent cannot use an id that the server issues to another prompt.
	st := w.state(id)
	refused(ask(chat.MakeID(st.Number, st.Last+5).Text(chat.PromptPrefix)))
	// A notification is not an open prompt.
	e := w.append(bot, id, chat.AgentInputRequest{InputType: chat.InputNotification, Text: "!", Timeout: 1})[0]
	if s := w.state(id).Session; s.OpenPrompts != 0 {
		t.Fatal("a notification opened a prompt")
	}
	_, err := w.Answer(ctx, ann, id, e.Body.(chat.AgentInputRequest).RequestID, chat.Answer{Text: "x"})
	w.wantCode(err, chat.NotFound)
}

func TestPromptExpiresAtItsDeadline(t *testing.T) {
	w := newTestStore(t, Options{})
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w.now.Store(start.UnixMicro())
	id := w.begin("s")
	ask := func(seconds float64) string {
		return w.ask(id, chat.AgentInputRequest{InputType: chat.InputText, Text: "?", Timeout: seconds})
	}
	soon, late, never := ask(10), ask(20), ask(0)
	if dl := w.state(id).Prompt(soon).Deadline; dl != chat.AtOf(start.Add(10*time.Second)) {
		t.Fatal(dl)
	}
	w.restart()
	w.now.Store(start.Add(10 * time.Second).UnixMicro())
	// A late answer closes the prompt before the timer of Run does.
	_, err := w.Answer(ctx, ann, id, soon, chat.Answer{Text: "x"})
	w.wantCode(err, chat.Conflict)
	if chat.Public(err).Details["reason"] != chat.Expired {
		t.Fatal(err)
	}
	if w.state(id).Prompt(soon) != nil {
		t.Fatal("the prompt is still open")
	}
	_, err = w.Answer(ctx, ann, id, soon, chat.Answer{Text: "x"})
	if d := chat.Public(err).Details; chat.CodeOf(err) != chat.Conflict || d["reason"] != chat.Expired || d["sequence"] == nil {
		t.Fatal(err, d)
	}
	next, err := w.expire(ctx)
	if err != nil || next != chat.AtOf(start.Add(20*time.Second)) {
		t.Fatal(next, err)
	}
	w.now.Store(start.Add(time.Hour).UnixMicro())
	for range 2 {
		if next, err = w.expire(ctx); err != nil || next != 0 {
			t.Fatal(next, err)
		}
	}
	closed := 0
	for _, e := range w.events(id) {
		if b, ok := e.Body.(chat.PromptClosed); ok {
			closed++
			if b.Reason != chat.Expired || b.RequestID != soon && b.RequestID != late {
				t.Fatal(b)
			}
		}
	}
	if closed != 2 || w.state(id).Prompt(never) == nil {
		t.Fatalf("%d prompts expired", closed)
	}
}

// TestRunClosesPromptsAtTheirDeadline: Run closes a prompt that is asked while Run sleeps, although
// another session with a due prompt cannot be written.
func TestRunClosesPromptsAtTheirDeadline(t *testing.T) {
	w := newTestStore(t, Options{})
	bad, id := w.begin("bad"), w.begin("s")
	w.log.before = func(c *core.Commit) error {
		if _, closing := c.Events[0].Body.(chat.PromptClosed); closing && c.Session == bad {
			return chat.Errorf(chat.Internal, "damaged")
		}
		return nil
	}
	w.ask(bad, chat.AgentInputRequest{InputType: chat.InputText, Text: "?", Timeout: 0.001})
	run, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(run) }()
	r := newReader(chat.Cursor{})
	go func() { _ = r.run(t.Context(), w.Sessions, ann, id) }()
	w.ask(id, chat.AgentInputRequest{InputType: chat.InputText, Text: "?", Timeout: 0.02})
	r.until(func() bool { return len(r.log) == 3 })
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	w.wantStory(id, "session.started", "agent.input_request", "prompt.closed expired")
}

func TestAnswersInArraysAreIdempotent(t *testing.T) {
	w := newTestStore(t, Options{})
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w.now.Store(start.UnixMicro())
	id := w.begin("s")
	p := w.ask(id, chat.AgentInputRequest{InputType: chat.InputRadio, Options: []chat.Option{{ID: "a", Value: "A"}}, Timeout: 5})
	d := chat.NewDraft(chat.UserInputResponse{RequestID: p, Text: "a"}).As("k")
	first, err := w.Append(ctx, ann, id, []chat.Draft{d})
	if err != nil || first[0].Body.(chat.UserInputResponse).Values[0] != "A" {
		t.Fatal(first, err)
	}
	// The key has the digest of the sent draft, not of the stored event.
	again, err := w.Append(ctx, ann, id, []chat.Draft{chat.NewDraft(chat.UserInputResponse{RequestID: p, Text: "a"}).As("k")})
	if err != nil || again[0].Seq != first[0].Seq {
		t.Fatal(again, err)
	}
	p = w.ask(id, chat.AgentInputRequest{InputType: chat.InputText, Text: "?", Timeout: 5})
	w.now.Store(start.Add(time.Minute).UnixMicro())
	_, err = w.Append(ctx, ann, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "x"}), chat.NewDraft(chat.UserInputResponse{RequestID: p, Text: "x"})})
	w.wantCode(err, chat.Conflict)
	if last := w.state(id).Last; last != 4 {
		t.Fatalf("a late answer in an array left %d events", last)
	}
}
