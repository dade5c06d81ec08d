package nemo

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

// Each workstream is a step with its progress, warnings and result below it.
func TestWorkstreamSteps(t *testing.T) {
	f := newFold("c", chat.Cursor{})
	var shown []string
	ids := map[string]string{}
	for i, body := range []chat.Body{
		chat.UserMessage{Text: "work"},
		chat.TurnStarted{TurnID: "t-1", Trigger: 1},
		chat.WorkstreamLaunched{ID: "w1", Name: "Part 1", Task: "Do part 1."},
		chat.WorkstreamProgress{ID: "w1", Phase: chat.PhasePlanning, Iteration: 1, Message: "Planning."},
		chat.WorkstreamProgress{ID: "w1", Phase: chat.PhaseTool, Tool: "look_up", Iteration: 2, Share: 0.5},
		chat.WorkstreamWarning{ID: "w1", Share: 0.75, Message: "It has 18s left."},
		chat.WorkstreamWarning{ID: "w1", Share: 0.9},
		chat.WorkstreamCompleted{ID: "w1", Summary: "Part 1 is done."},
	} {
		draft := chat.NewDraft(body)
		if err := draft.Normalize(); err != nil {
			t.Fatal(err)
		}
		e := chat.Event{Session: "c", Seq: chat.Seq(i + 1), ID: chat.EventID(chat.MakeID(1, chat.Seq(i+1)).Text(chat.EventPrefix)), Type: draft.Type, Payload: draft.Payload, Body: body}
		if _, ok := body.(chat.WorkstreamLaunched); ok {
			e.Turn = "t-1"
		}
		f.event(&e)
	}
	work := ""
	for _, it := range f.out {
		shown = append(shown, it.name+" | "+it.text)
		if it.root != 1 {
			t.Errorf("%s belongs to the message %d, want 1", it.name, it.root)
		}
		switch {
		case strings.HasPrefix(it.name, "Function Start"):
			work = it.id
		case strings.HasPrefix(it.name, "Function Complete"):
			if it.id != work {
				t.Error("the end has a step of its own")
			}
		case it.parent != work:
			t.Errorf("%s is not below its workstream", it.name)
		case strings.HasPrefix(it.name, "Progress") && ids["progress"] != "" && ids["progress"] != it.id:
			t.Error("progress does not take the place of what was there")
		case strings.HasPrefix(it.name, "Warning") && ids["warning"] == it.id:
			t.Error("one warning takes the place of the other")
		}
		ids[strings.ToLower(strings.SplitN(it.name, ":", 2)[0])] = it.id
	}
	want := []string{
		"Function Start: Part 1 | ", "Progress: Part 1 | planning, step 1\n\nPlanning.", "Progress: Part 1 | executing tool look_up, step 2, 50 % of its time",
		"Warning: Part 1 | 75 % of its time has passed. It has 18s left.", "Warning: Part 1 | 90 % of its time has passed.", "Function Complete: Part 1 | ",
	}
	if len(shown) != len(want) {
		t.Fatalf("shown are\n%s", strings.Join(shown, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(shown[i], want[i]) {
			t.Errorf("shown is %q, want %q", shown[i], want[i])
		}
	}
}

// HTTP has the same steps as the socket, below their workstream.
func TestWorkstreamStepsOverHTTP(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	for path, in := range map[string]string{
		"/chat/stream": chatBody("/work 2 0"), "/v1/chat/stream": chatBody("/work 2 0"), "/generate/stream": inputBody("/work 2 0"),
		"/v1/workflow/stream": inputBody("/work 2 0"), "/generate/full": inputBody("/work 2 0"), "/v1/workflow/full": inputBody("/work 2 0"),
	} {
		conversation := strings.ReplaceAll(path, "/", "-")
		_, body, _ := w.Call("POST", path, in, "Conversation-Id", conversation)
		seen := map[string]bool{}
		start := map[string]string{} // the step of each part
		for line := range strings.Lines(body) {
			raw, ok := strings.CutPrefix(line, "intermediate_data: ")
			if !ok {
				continue
			}
			var step stepLine
			if err := json.Unmarshal([]byte(raw), &step); err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			seen[step.Name] = true
			kind, part, _ := strings.Cut(step.Name, ": ")
			switch kind {
			case "Function Start":
				start[part] = step.ID
			case "Function Complete":
				if step.ID != start[part] {
					t.Errorf("%s: the end of %s is a step of its own", path, part)
				}
			case "Progress":
				if step.Parent != start[part] {
					t.Errorf("%s: %s is not below its workstream: %s", path, step.Name, raw)
				}
			case "Tool":
				if step.Parent != start["Part 1"] && step.Parent != start["Part 2"] {
					t.Errorf("%s: %s is not below its workstream: %s", path, step.Name, raw)
				}
			}
		}
		for _, want := range []string{"Plan", "Tool: look_up", "Function Start: Part 1", "Progress: Part 1", "Function Complete: Part 1", "Function Start: Part 2", "Progress: Part 2", "Function Complete: Part 2"} {
			if !seen[want] {
				t.Errorf("%s has no step %q:\n%s", path, want, body)
			}
		}
		if got := streamText(t, body); !strings.HasPrefix(got, "All 2 workstreams have ended.") {
			t.Errorf("%s: the answer is %q", path, got)
		}
		// The whole answer carries one id, that of its own turn.
		id := `data: {"id":"` + w.firstTurn(chat.SessionID(conversation))
		if chunks := strings.Count(body, "\ndata: {\"id\":"); chunks != strings.Count(body, "\n"+id) {
			t.Errorf("%s: chunks of another answer than %s:\n%s", path, id, body)
		}
	}
}

// A prompt of a workstream is part of the answer that launched it.
func TestWorkstreamPromptOverHTTP(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{agents: map[string]agent.Agent{"demo": answerFunc(func(ctx context.Context, turn *agent.Turn) error {
		if turn.Workstream != "" {
			a, err := turn.Ask(ctx, chat.AgentInputRequest{InputType: chat.InputText, Text: "Name?"})
			if err != nil {
				return err
			}
			return turn.Say(ctx, "Hello "+a.Text)
		}
		one, err := turn.Launch(ctx, chat.Launch{ID: "w1", Name: "greet", Agent: turn.Agent, Instruction: "Greet."})
		if err != nil {
			return err
		}
		if _, err := turn.AwaitSome(ctx, 1, one.ID); err != nil {
			return err
		}
		return turn.Say(ctx, "done")
	})}})
	code, body, _ := w.Call("POST", "/v1/chat", chatBody("go"), "Conversation-Id", "c1")
	var e execution
	if err := json.Unmarshal([]byte(body), &e); err != nil || code != 202 || e.Status != "interaction_required" {
		t.Fatalf("%d %s", code, body)
	}
	if _, body, _ = w.Call("GET", e.StatusURL, ""); !strings.Contains(body, "interaction_required") || !strings.Contains(body, e.ResponseURL) {
		t.Errorf("the execution asks: %s", body)
	}
	if code, body, _ = w.Call("POST", e.ResponseURL, `{"response":{"type":"text","text":"Ada"}}`); code != 204 {
		t.Fatalf("%d %s", code, body)
	}
	w.waitTurns("c1", 2)
	if _, body, _ = w.Call("GET", e.StatusURL, ""); !strings.Contains(body, "completed") || !strings.Contains(body, "done") {
		t.Errorf("the execution is over: %s", body)
	}
	// A stream's question is part of the same answer.
	_, body, _ = w.Call("POST", "/chat/stream", chatBody("go"), "Conversation-Id", "c3")
	if got := streamText(t, body); got != "Name?" || !strings.Contains(body, `data: {"id":"`+w.firstTurn("c3")+`"`) {
		t.Errorf("the stream is %s", body)
	}
	// Where prompts have no words of their own, the next message is the answer.
	if _, body, _ = w.Call("POST", "/generate", inputBody("go"), "Conversation-Id", "c2"); body != `{"value":"Name?"}` {
		t.Errorf("asked is %s", body)
	}
	if _, body, _ = w.Call("POST", "/generate", inputBody("Ada"), "Conversation-Id", "c2"); body != `{"value":"done"}` {
		t.Errorf("the answer is %s", body)
	}
}

// firstTurn names the first turn of a session as answers do.
func (w *testServer) firstTurn(id chat.SessionID) string {
	w.t.Helper()
	facts, _, err := w.Sessions.Read(w.t.Context(), chat.Trusted, id, chat.Range{Types: []string{"turn.started"}, Limit: 1})
	if err != nil || len(facts) != 1 {
		w.t.Fatalf("%d turns (%v)", len(facts), err)
	}
	e, err := facts[0].Event()
	if err != nil {
		w.t.Fatal(err)
	}
	return turnUUID(e.Body.(chat.TurnStarted).TurnID)
}
