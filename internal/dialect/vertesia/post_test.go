package vertesia

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// A posted question is a prompt, with its choices or for the approval of a tool, and
// its answer is a message.
func TestPostedQuestions(t *testing.T) {
	w := newServer(t, setup{})
	var run struct{ ID string }
	w.ok("POST", "/api/v1/agents/record", `{"interaction":"mine"}`, &run)
	post := func(details string) {
		w.ok("POST", "/api/v1/agents/"+run.ID+"/updates", `{"type":9,"message":"Which?","details":`+details+`}`, nil)
	}
	prompt := func(id string) *chat.Prompt {
		t.Helper()
		p := w.state(run.ID).Prompt(id)
		if p == nil {
			t.Fatalf("no question %s is open", id)
		}
		return p
	}
	s := w.stream(run.ID, "")

	post(`{"request_id":"many","ux":{"multiSelect":true,"variant":"warning","options":[{"id":"a","label":"A","description":"the first"},{"id":"b","label":"B"}]}}`)
	if in := prompt("many").Input; in == nil || in.InputType != chat.InputCheckbox || len(in.Options) != 2 || in.Options[0].Description != "the first" {
		t.Errorf("%+v", in)
	}
	if m := s.until(is(RequestInput)); !strings.Contains(string(m.D), `"variant":"warning"`) {
		t.Errorf("readers here get %s", m.D)
	}
	w.signal(run.ID, "UserInput", `{"message":"a, b","metadata":{"request_input_response":{"request_id":"many"}}}`)
	if m := s.until(is(Question)); m.M != "a, b" || !strings.Contains(string(m.D), `"request_id":"many"`) {
		t.Errorf("%+v", m)
	}

	// By its request id, and by the id of the call.
	for name, reply := range map[string]string{
		`"request_id":"r1",`: `{"tool_approval_response":{"decision":"allow_once","approval_key":"k1"}}`,
		``:                   `{"tool_approval_response":{"decision":"deny","approval_key":"k1"}}`,
	} {
		id := "k1"
		if name != "" {
			id = "r1"
		}
		post(`{` + name + `"tool_approval":{"approval_key":"k1","tool_name":"deploy","target":"prod","action_summary":"deploy to prod"},"ux":{"options":[{"id":"allow_once","label":"Yes"},{"id":"deny","label":"No"}]}}`)
		a := prompt(id).Approval
		if a == nil || len(a.Calls) != 1 || a.Calls[0].Tool != "deploy" || string(a.Calls[0].Params) != `{"action_summary":"deploy to prod","target":"prod"}` || a.Text != "Which?" {
			t.Errorf("%+v", a)
		}
		w.signal(run.ID, "UserInput", `{"message":"it is decided","metadata":`+reply+`}`)
		if m := s.until(is(Question)); !strings.Contains(string(m.D), `"tool_approval_response"`) || !strings.Contains(string(m.D), `"request_id":"`+id+`"`) {
			t.Errorf("%s: %s", m.M, m.D)
		}
	}
}

// A stop is acknowledged by one message.
func TestStopIsAcknowledgedByOneMessage(t *testing.T) {
	w := newServer(t, setup{})
	id := w.start("/sleep 600", true)
	s := w.stream(id, "")
	s.until(is(Question))
	w.signal(id, "Stop", `{"client_message_id":"stop-1","message":"enough"}`)
	m := s.until(is(Idle))
	for _, want := range []string{`"ack":"stop-1"`, `"status_reason":"user_stopped"`} {
		if !strings.Contains(string(m.D), want) {
			t.Errorf("no %s in %s", want, m.D)
		}
	}
	// A stop is acknowledged when nothing runs, too.
	w.signal(id, "Stop", `{"client_message_id":"stop-2"}`)
	if m := s.until(is(Idle)); !strings.Contains(string(m.D), `"ack":"stop-2"`) {
		t.Errorf("%s", m.D)
	}
	w.signal(id, "UserInput", `{"message":"hi"}`)
	s.until(is(Idle))
	if n := len(texts(s.seen, Idle)); n != 3 {
		t.Errorf("it is idle %d times:\n%s", n, s.raw.String())
	}
}

// The agent may have completed its answer when the stop arrives.
func TestStopOfATurnThatCompletesIsAcknowledged(t *testing.T) {
	for _, outcome := range []chat.Outcome{chat.Done, chat.Failed, chat.Interrupted} {
		t.Run(string(outcome), func(t *testing.T) {
			release, refs := make(chan struct{}), make(chan chat.TurnRef, 1)
			w := newServer(t, setup{agents: map[string]agent.Agent{"busy": agent.Func(func(_ context.Context, turn *agent.Turn) error {
				refs <- chat.TurnRef{Session: turn.Session, Turn: turn.ID, Attempt: 1}
				<-release
				return nil
			})}, change: func(o *Options) { o.Agents = func(string) []string { return []string{"busy"} } }})
			defer close(release)
			var r struct{ ID string }
			w.ok("POST", "/api/v1/agents", `{"interaction":"busy","data":{"task":"hello"},"interactive":true}`, &r)
			s := w.stream(r.ID, "")
			ref := <-refs
			var signalled sync.WaitGroup
			defer signalled.Wait()
			signalled.Go(func() { w.signal(r.ID, "Stop", `{"client_message_id":"stop-1"}`) })
			w.Until(ref.Session, chat.TurnStopRequested{}.Type(), 1)
			if err := w.Owner.EndTurn(t.Context(), ref, outcome, ""); err != nil {
				t.Fatal(err)
			}
			m := s.until(is(Idle))
			for _, want := range []string{`"ack":"stop-1"`, `"status_reason":"user_stopped"`} {
				if !strings.Contains(string(m.D), want) {
					t.Errorf("no %s in %s", want, m.D)
				}
			}
		})
	}
}

// stopping is a session whose turn is being stopped.
type stopping struct {
	sessions
	first    string // the acknowledgement of the first stop
	appended []chat.Draft
}

func (s *stopping) StopAs(_ context.Context, _ chat.Caller, _ chat.SessionID, _, _, ack string) (chat.StopResult, error) {
	return chat.StopResult{Stopped: true, TurnID: "t-1", Acks: ack == s.first}, nil
}

func (s *stopping) Watch(context.Context, chat.Caller, chat.SessionID, core.Start, core.Encoding) iter.Seq2[core.Batch, error] {
	return func(func(core.Batch, error) bool) {}
}

func (s *stopping) Append(_ context.Context, _ chat.Caller, _ chat.SessionID, drafts []chat.Draft) ([]chat.Event, error) {
	s.appended = append(s.appended, drafts...)
	return nil, nil
}

// Two stops of one turn are both acknowledged, the first by the end of the turn.
func TestEveryStopIsAcknowledged(t *testing.T) {
	for ack, want := range map[string]int{"mine": 0, "another": 1, "": 0} {
		s := &stopping{first: "mine"}
		d := New(Options{Sessions: s})
		if _, err := d.stop(t.Context(), chat.Trusted, run{}, userInput{ClientID: ack}); err != nil || len(s.appended) != want {
			t.Errorf("%q is acknowledged by %d more messages (%v), want %d", ack, len(s.appended), err, want)
		}
	}
}

// Two nodes of a cluster have a dialect each, and no lock in common.
func TestNodesChangeOneRun(t *testing.T) {
	w := newServer(t, setup{})
	id := chat.SessionID(w.start("hello", true))
	w.rests(string(id))
	sess := run{Session: chat.Session{ID: id}}
	const each = 20
	var wg sync.WaitGroup
	for n, d := range []*Dialect{w.dialect, New(w.dialect.opt)} {
		wg.Go(func() {
			for i := range each {
				payload := fmt.Sprintf(`{"id":"f-%d-%d","artifact_path":"files/a"}`, n, i)
				if _, err := d.changeAttachments(t.Context(), chat.Trusted, sess, "FileUploaded", json.RawMessage(payload)); err != nil {
					t.Error(err)
				}
				if err := d.postChunk(t.Context(), chat.Trusted, id, compactMessage{M: "x"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	files, err := w.dialect.attachmentsOf(t.Context(), chat.Trusted, id)
	if err != nil || len(files.Files) != 2*each {
		t.Errorf("%d files (%v), want %d", len(files.Files), err, 2*each)
	}
	block, err := w.dialect.openBlock(t.Context(), chat.Trusted, id, "chunks")
	if err != nil || block == nil || block.Text != strings.Repeat("x", 2*each) {
		t.Errorf("the chunks are %+v (%v)", block, err)
	}
}

// A message can be posted in each of its forms.
func TestPostedForms(t *testing.T) {
	w := newServer(t, setup{})
	var run struct{ ID string }
	w.ok("POST", "/api/v1/agents/record", `{"interaction":"mine"}`, &run)
	for _, body := range []string{
		`{"t":1,"m":"hm"}`, `{"type":1,"message":"hm"}`, `{"type":"thought","message":"hm"}`, `{"t":"thought","m":"hm"}`,
		`"{\"t\":1,\"m\":\"hm\"}"`, ` "{\"type\":\"thought\",\"message\":\"hm\"}"`,
	} {
		before := len(w.updates(run.ID, ""))
		w.ok("POST", "/api/v1/agents/"+run.ID+"/updates", body, nil)
		after := w.updates(run.ID, "")
		if len(after) != before+1 || after[before].T != Thought || after[before].M != "hm" {
			t.Errorf("%s comes back as %+v", body, after[before:])
		}
	}
	for _, body := range []string{`"hm"`, `"\"{}\""`, `[]`, `5`, `{"t":15}`, `{`} {
		if code, got, _ := w.Call("POST", "/api/v1/agents/"+run.ID+"/updates", body); code != 400 {
			t.Errorf("%s: %d %s", body, code, got)
		}
	}
}

// An approval is answered by the id of a choice, by its label, or by a text.
func TestDecisions(t *testing.T) {
	t.Parallel()
	for choice, want := range map[string]chat.Decision{
		"allow_once": {Approve: true}, "Allow once": {Approve: true}, " yes ": {Approve: true},
		"allow_for_run": {Approve: true, Remember: "session"}, "Allow for this run": {Approve: true, Remember: "session"},
		"deny": {}, "Deny": {}, "not on a Friday": {Reason: "not on a Friday"},
	} {
		if got := decisionOf("", choice, choice); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v", choice, got)
		}
	}
}
