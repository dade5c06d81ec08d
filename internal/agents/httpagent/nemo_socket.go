package httpagent

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// reattachWait is how long the server has to send the prompt of a waiting run
// again, after a crash or a lost connection.
const reattachWait = 3 * time.Second

// nemoSocketTurn is a turn over the WebSocket.
type nemoSocketTurn struct {
	a        *Agent
	r        *round
	conn     *nemoConn
	steps    *nemoSteps
	id       string // of the user's message
	reported error  // the error that the workflow reported

	// The last answer, until a frame arrives: the connection may have lost it.
	unconfirmed map[string]any
	promptText  string // of the prompt that it answers
}

func nemoSocket(ctx context.Context, a *Agent, r *round) error {
	n := &nemoSocketTurn{a: a, r: r, steps: &nemoSteps{out: r.out}, id: string(r.turn.Ref().Turn)}
	defer n.disconnect()
	err := n.run(ctx)
	if err != nil && ctx.Err() == nil {
		return errors.Join(err, n.steps.close(ctx, true))
	}
	return err
}

func (n *nemoSocketTurn) disconnect() {
	if n.conn != nil {
		n.conn.close()
		n.conn = nil
	}
}

func (n *nemoSocketTurn) run(ctx context.Context) error {
	if prompt := lastOpenPrompt(n.r.turn); n.r.turn.Resumed() && prompt != nil {
		done, err := n.reattach(ctx, prompt)
		if done || err != nil {
			return err
		}
		if err := n.a.mayRepeat(n.r.usedTool); err != nil {
			return err
		}
		n.r.out = newOutput(n.r.turn, n.r.n)
		n.steps = &nemoSteps{out: n.r.out}
	}
	all, err := n.a.history(ctx, n.r.turn)
	if err != nil {
		return err
	}
	if n.conn, err = n.a.dial(ctx, threadID(n.r.turn), false); err != nil {
		return err
	}
	if err := n.conn.send(n.userMessage(ctx, all)); err != nil {
		return n.a.broken(err)
	}
	return n.readFrames(ctx)
}

// reattach continues a run that has waited for an answer since before a crash;
// done is false when the server has no such run.
func (n *nemoSocketTurn) reattach(ctx context.Context, prompt *chat.Event) (done bool, err error) {
	q := prompt.Body.(chat.AgentInputRequest)
	f, err := n.findRun(ctx, q.Text)
	if f == nil || err != nil {
		return false, err
	}
	if err := n.r.out.diverge(ctx); err != nil {
		return false, err
	}
	body, err := n.r.turn.Answer(ctx, q.RequestID)
	answer, _ := body.(chat.UserInputResponse)
	if err := n.sendAnswer(ctx, f, answer, err); err != nil {
		return false, err
	}
	return true, n.readFrames(ctx)
}

// findRun connects to the run that waits with a prompt and returns the prompt's
// frame; nil when there is no such run.
func (n *nemoSocketTurn) findRun(ctx context.Context, text string) (*nemoFrame, error) {
	n.disconnect()
	var err error
	if n.conn, err = n.a.dial(ctx, threadID(n.r.turn), true); err != nil {
		return nil, err
	}
	for until := time.Now().Add(reattachWait); ; {
		f, err := n.conn.next(ctx, time.Until(until))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			n.disconnect()
			return nil, nil
		}
		var p nemoPrompt
		if f.Type == "system_interaction_message" && json.Unmarshal(f.Content, &p) == nil && p.Text == text {
			return &f, nil
		}
	}
}

// userMessage is the message that starts a run.
func (n *nemoSocketTurn) userMessage(ctx context.Context, all []message) map[string]any {
	messages := n.a.chatMessages(ctx, n.r.turn, all)
	for _, m := range messages {
		if text, ok := m["content"].(string); ok {
			m["content"] = []map[string]any{{"type": "text", "text": text}}
		}
	}
	out := map[string]any{"schema_type": "chat_stream"}
	maps.Copy(out, n.a.opt.Extra)
	maps.Copy(out, map[string]any{
		"type": "user_message", "id": n.id, "conversation_id": threadID(n.r.turn),
		"content": map[string]any{"messages": messages}, "timestamp": timestamp(),
	})
	return out
}

// readFrames reads the answer to its end.
func (n *nemoSocketTurn) readFrames(ctx context.Context) error {
	until := time.Now().Add(n.a.opt.Limit)
	for first := true; ; first = false {
		timeout := n.a.opt.Idle
		if first {
			timeout = n.a.opt.Wait
		}
		if time.Now().After(until) {
			return n.a.connectionError(errLimit, nil)
		}
		f, err := n.conn.next(ctx, min(timeout, time.Until(until)))
		if errors.Is(err, errIdle) && ctx.Err() == nil && time.Now().Before(until) && n.conn.ping(ctx) {
			continue // a tool may run for a long time without a frame
		}
		if err != nil && n.unconfirmed != nil && n.conn.lost() {
			answer := n.unconfirmed
			n.unconfirmed = nil
			if err := n.resendAnswer(ctx, answer); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		n.unconfirmed = nil
		if f.Conversation != nil && *f.Conversation != "" && *f.Conversation != threadID(n.r.turn) {
			continue
		}
		began := time.Now()
		done, err := n.handleFrame(ctx, &f)
		if f.Type == "system_interaction_message" {
			until = until.Add(time.Since(began)) // the time that people take does not count
		}
		if done || err != nil {
			return err
		}
	}
}

// handleFrame handles one frame; done means that the answer is complete.
func (n *nemoSocketTurn) handleFrame(ctx context.Context, f *nemoFrame) (done bool, err error) {
	if f.Type != "system_intermediate_message" && f.ParentID != "" && f.ParentID != n.id && f.ParentID != "default" && f.ParentID != "default_id" {
		return false, nil // of an earlier run
	}
	switch f.Type {
	case "system_response_message":
		return n.handleResponse(ctx, f)
	case "system_intermediate_message":
		var st nemoStep
		if err := json.Unmarshal(f.Content, &st); err != nil {
			return false, n.a.unreadable("a step of another form", err)
		}
		st.ID = f.ID
		return false, n.steps.handle(ctx, st)
	case "system_interaction_message", "system_human_interaction":
		return false, n.handlePrompt(ctx, f)
	case "error_message":
		n.reported = n.a.reported(errorField(f.Content))
		if n.r.out.stored {
			return false, nil // a frame with the status complete follows
		}
		return false, n.reported
	case "observability_trace_message":
		return false, n.r.storeTrace(ctx, f.Content)
	}
	return false, nil
}

func (n *nemoSocketTurn) handleResponse(ctx context.Context, f *nemoFrame) (done bool, err error) {
	var c struct {
		Text   *string `json:"text"`
		Output *string `json:"output"`
	}
	_ = json.Unmarshal(f.Content, &c) // content of another form has no text
	text := cmp.Or(c.Text, c.Output)
	completed := f.Status == "complete" || f.Status == "completed" // such a frame ends the run; its text is ignored
	switch {
	case text != nil && !completed:
		return false, n.r.out.text(ctx, *text)
	case !completed && f.Status != "failed":
		return false, nil
	case n.reported != nil:
		return false, n.reported
	}
	return true, n.steps.close(ctx, false)
}

// handlePrompt opens a prompt of the workflow and sends the answer.
func (n *nemoSocketTurn) handlePrompt(ctx context.Context, f *nemoFrame) error {
	var p nemoPrompt
	if err := json.Unmarshal(f.Content, &p); err != nil {
		return n.a.unreadable("a question of another form", err)
	}
	q := p.request()
	switch q.InputType {
	case chat.InputNotification:
		_, err := n.r.out.store(ctx, q)
		return err
	case chat.InputOAuth:
		return n.r.storeConsent(ctx, q.URL)
	}
	answer, err := n.r.out.ask(ctx, q)
	return n.sendAnswer(ctx, f, answer, err)
}

// sendAnswer sends the answer to the prompt in f. If the connection was lost
// meanwhile, it looks for the run on a new one.
func (n *nemoSocketTurn) sendAnswer(ctx context.Context, f *nemoFrame, answer chat.UserInputResponse, err error) error {
	if errors.Is(err, agent.ErrExpired) || errors.Is(err, agent.ErrWithdrawn) {
		return nil // the workflow has its own timeout
	}
	if err != nil {
		return err
	}
	out := map[string]any{
		"type": "user_interaction_message", "id": n.id + "-answer", "conversation_id": threadID(n.r.turn), "thread_id": "default", "parent_id": f.ParentID,
		"content": map[string]any{"messages": []any{map[string]any{
			"role": "user", "content": []any{map[string]any{"type": "text", "text": answerText(answer)}},
		}}}, "timestamp": timestamp(),
	}
	var p nemoPrompt
	_ = json.Unmarshal(f.Content, &p) // the caller has read it
	n.promptText = p.Text
	if !n.conn.lost() && n.conn.send(out) == nil {
		n.unconfirmed = out
		return nil
	}
	return n.resendAnswer(ctx, out)
}

// resendAnswer sends an answer on a new connection if the run still waits for it.
func (n *nemoSocketTurn) resendAnswer(ctx context.Context, answer map[string]any) error {
	f, err := n.findRun(ctx, n.promptText)
	if err != nil {
		return err
	}
	if f == nil {
		return n.a.broken(nil)
	}
	if err := n.conn.send(answer); err != nil {
		return n.a.broken(err)
	}
	return nil
}

func timestamp() string { return time.Now().UTC().Format(time.RFC3339Nano) }
