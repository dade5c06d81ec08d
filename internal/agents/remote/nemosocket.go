package remote

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// reattachWait is how long a server has to show the question that a workflow
// waits with, after a crash of ours.
const reattachWait = 3 * time.Second

// nemoTalk is a turn by WebSocket.
type nemoTalk struct {
	a     *Agent
	r     *round
	s     *socket
	steps *steps
	id    string // of our message
	fault error  // what the workflow reported

	answer map[string]any // the last one that was sent; nil when something was heard since
	asked  string         // what it answers
}

// nemoSocket speaks by the WebSocket.
func nemoSocket(ctx context.Context, a *Agent, r *round) error {
	k := &nemoTalk{a: a, r: r, steps: &steps{s: r.s}, id: string(r.turn.Ref().Turn)}
	defer func() {
		if k.s != nil {
			k.s.close()
		}
	}()
	err := k.run(ctx)
	if err != nil && ctx.Err() == nil {
		return errors.Join(err, k.steps.settle(ctx, true))
	}
	return err
}

func (k *nemoTalk) run(ctx context.Context) error {
	asked := waiting(k.r.turn)
	if k.r.turn.Resumed() && asked != nil {
		done, err := k.reattach(ctx, asked)
		if done || err != nil {
			return err
		}
		if err := k.a.mayRepeat(usedTools(k.r.turn)); err != nil {
			return err
		}
		k.r.s = newOutput(k.r.turn, k.r.n)
		k.steps = &steps{s: k.r.s}
	}
	all, err := k.a.history(ctx, k.r.turn)
	if err != nil {
		return err
	}
	if k.s, err = k.a.dial(ctx, conversation(k.r.turn), false); err != nil {
		return err
	}
	if err := k.s.send(k.message(ctx, all)); err != nil {
		return k.a.broken(err)
	}
	return k.listen(ctx)
}

func usedTools(turn *agent.Turn) bool {
	for _, e := range turn.Past() {
		if _, ok := e.Body.(chat.AgentToolCall); ok {
			return true
		}
	}
	return false
}

// reattach goes on with a run that waits for an answer since before a crash;
// done is false when the server has none.
func (k *nemoTalk) reattach(ctx context.Context, asked *chat.Event) (done bool, err error) {
	q := asked.Body.(chat.AgentInputRequest)
	prompt, err := k.found(ctx, q.Text)
	if prompt == nil || err != nil {
		return false, err
	}
	if err := k.r.s.diverge(ctx); err != nil {
		return false, err
	}
	body, err := k.r.turn.Answer(ctx, q.RequestID)
	answer, _ := body.(chat.UserInputResponse)
	if err := k.tell(ctx, prompt, answer, err); err != nil {
		return false, err
	}
	return true, k.listen(ctx)
}

// found connects to the run that waits with a question; nil when there is none.
func (k *nemoTalk) found(ctx context.Context, text string) (*nemoFrame, error) {
	if k.s != nil {
		k.s.close()
	}
	var err error
	if k.s, err = k.a.dial(ctx, conversation(k.r.turn), true); err != nil {
		return nil, err
	}
	for until := time.Now().Add(reattachWait); ; {
		f, err := k.s.next(ctx, time.Until(until))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			k.s.close()
			k.s = nil
			return nil, nil
		}
		var p nemoPrompt
		if f.Type == "system_interaction_message" && json.Unmarshal(f.Content, &p) == nil && p.Text == text {
			return &f, nil
		}
	}
}

// message is our word to the workflow.
func (k *nemoTalk) message(ctx context.Context, all []message) map[string]any {
	messages := k.a.chatMessages(ctx, k.r.turn, all)
	for _, m := range messages {
		if text, ok := m["content"].(string); ok {
			m["content"] = []map[string]any{{"type": "text", "text": text}}
		}
	}
	out := maps.Clone(k.a.opt.Extra)
	if out == nil {
		out = map[string]any{}
	}
	if _, given := out["schema_type"]; !given {
		out["schema_type"] = "chat_stream"
	}
	maps.Copy(out, map[string]any{
		"type": "user_message", "id": k.id, "conversation_id": conversation(k.r.turn),
		"content": map[string]any{"messages": messages}, "timestamp": now(),
	})
	return out
}

// listen hears the answer to its end.
func (k *nemoTalk) listen(ctx context.Context) error {
	until := time.Now().Add(k.a.opt.Limit)
	for first := true; ; first = false {
		patience := k.a.opt.Silence
		if first {
			patience = k.a.opt.Wait
		}
		if time.Now().After(until) {
			return k.a.problem(errLimit, nil)
		}
		f, err := k.s.next(ctx, min(patience, time.Until(until)))
		if errors.Is(err, errSilence) && ctx.Err() == nil && time.Now().Before(until) && k.s.alive(ctx) {
			continue // a tool may take its time
		}
		if err != nil && k.answer != nil && k.s.lost() {
			// The answer may have gone into a broken connection.
			out := k.answer
			k.answer = nil
			if err := k.repeat(ctx, out); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		k.answer = nil
		if f.Conversation != nil && *f.Conversation != "" && *f.Conversation != conversation(k.r.turn) {
			continue
		}
		began := time.Now()
		done, err := k.take(ctx, &f)
		if f.Type == "system_interaction_message" {
			until = until.Add(time.Since(began)) // people take their time
		}
		if done || err != nil {
			return err
		}
	}
}

// take hears one frame; done means that the answer is complete.
func (k *nemoTalk) take(ctx context.Context, f *nemoFrame) (done bool, err error) {
	if f.Type != "system_intermediate_message" && f.ParentID != "" && f.ParentID != k.id && f.ParentID != "default" && f.ParentID != "default_id" {
		return false, nil // of an earlier run
	}
	switch f.Type {
	case "system_response_message":
		var c struct {
			Text   *string `json:"text"`
			Output *string `json:"output"`
		}
		_ = json.Unmarshal(f.Content, &c) // of another form: it has no text
		if text := c.Text; text != nil || c.Output != nil {
			if text == nil {
				text = c.Output
			}
			if f.Status != "complete" && f.Status != "completed" {
				return false, k.r.s.text(ctx, *text)
			}
		}
		if f.Status != "complete" && f.Status != "completed" && f.Status != "failed" {
			return false, nil
		}
		if k.fault != nil {
			return false, k.fault
		}
		return true, k.steps.settle(ctx, false)
	case "system_intermediate_message":
		var st nemoStep
		if err := json.Unmarshal(f.Content, &st); err != nil {
			return false, k.a.unreadable("a step of another form", err)
		}
		st.ID = f.ID
		return false, k.steps.take(ctx, st)
	case "system_interaction_message", "system_human_interaction":
		return false, k.prompt(ctx, f)
	case "error_message":
		k.fault = k.a.reported(errorField(f.Content))
		if k.r.s.stored {
			return false, nil // complete follows
		}
		return false, k.fault
	case "observability_trace_message":
		return false, k.a.nemoTrace(ctx, k.r, f.Content)
	}
	return false, nil
}

// prompt asks what the workflow asks.
func (k *nemoTalk) prompt(ctx context.Context, f *nemoFrame) error {
	var p nemoPrompt
	if err := json.Unmarshal(f.Content, &p); err != nil {
		return k.a.unreadable("a question of another form", err)
	}
	q := p.request()
	switch q.InputType {
	case chat.InputNotification:
		_, err := k.r.s.store(ctx, q)
		return err
	case chat.InputOAuth:
		_, err := k.r.s.step(ctx, consentNote(q.URL))
		return err
	}
	answer, err := k.r.s.ask(ctx, q)
	return k.tell(ctx, f, answer, err)
}

// tell hands an answer to the workflow. When the connection broke while a person
// thought, the run is looked for on a new one.
func (k *nemoTalk) tell(ctx context.Context, f *nemoFrame, answer chat.UserInputResponse, err error) error {
	if errors.Is(err, agent.ErrExpired) || errors.Is(err, agent.ErrWithdrawn) {
		return nil // the workflow knows its own time
	}
	if err != nil {
		return err
	}
	out := map[string]any{
		"type": "user_interaction_message", "id": k.id + "-answer", "conversation_id": conversation(k.r.turn), "thread_id": "default", "parent_id": f.ParentID,
		"content": map[string]any{"messages": []any{map[string]any{
			"role": "user", "content": []any{map[string]any{"type": "text", "text": reply(answer)}},
		}}}, "timestamp": now(),
	}
	var p nemoPrompt
	_ = json.Unmarshal(f.Content, &p) // it was read before
	k.asked = p.Text
	if !k.s.lost() && k.s.send(out) == nil {
		k.answer = out
		return nil
	}
	return k.repeat(ctx, out)
}

// repeat hands an answer to the run on a new connection, if it still waits there.
func (k *nemoTalk) repeat(ctx context.Context, out map[string]any) error {
	fresh, err := k.found(ctx, k.asked)
	if err != nil {
		return err
	}
	if fresh == nil {
		return k.a.broken(nil)
	}
	if err := k.s.send(out); err != nil {
		return k.a.broken(err)
	}
	return nil
}
