package httpagent

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// nemoStream is a turn over the HTTP stream.
type nemoStream struct {
	a     *Agent
	r     *round
	s     *stream
	steps *nemoSteps
}

// nemoHTTP calls /chat/stream, or /v1/chat/stream for workflows with prompts.
func nemoHTTP(ctx context.Context, a *Agent, r *round) error {
	body, err := a.nemoBody(ctx, r)
	if err != nil {
		return err
	}
	header := http.Header{}
	header.Set("Conversation-Id", threadID(r.turn))
	header.Set("User-Message-Id", string(r.turn.Ref().Turn))
	address := a.nemoURL("/chat/stream")
	s, err := a.post(ctx, address, body, "text/event-stream", header)
	if err != nil {
		return err
	}
	defer s.close()
	n := &nemoStream{a: a, r: r, s: s, steps: &nemoSteps{out: r.out}}
	c := &completion{
		a: a, out: r.out, calls: map[int]*pendingCall{},
		// Only /chat/stream marks the end of its stream.
		ended: !strings.HasSuffix(strings.TrimRight(address, "/"), "/chat/stream") || strings.Contains(a.url.Path, "/v1/chat/stream"),
		field: func(name, value string) (bool, error) { return n.handleField(ctx, name, value) },
		event: func(name, data string) (bool, error) { return n.handleEvent(ctx, name, data) },
		// The model reports the calls that it wants, the steps those that ran.
		ignoreCalls: func() bool { return n.steps.hasCalls },
	}
	if err := c.read(ctx, s); err != nil {
		return errors.Join(err, n.steps.close(context.WithoutCancel(ctx), true))
	}
	if err := n.steps.close(ctx, false); err != nil {
		return err
	}
	if !r.out.stored {
		return a.emptyAnswer()
	}
	return nil
}

// nemoBody is the request: a chat completion, or a message for the generate and
// workflow addresses.
func (a *Agent) nemoBody(ctx context.Context, r *round) (map[string]any, error) {
	if strings.Contains(a.url.Path, "generate") || strings.Contains(a.url.Path, "workflow") {
		body := map[string]any{"input_message": r.turn.Text()}
		maps.Copy(body, a.opt.Extra)
		delete(body, "model")
		delete(body, "stream")
		return body, nil
	}
	all, err := a.history(ctx, r.turn)
	if err != nil {
		return nil, err
	}
	body := map[string]any{"stream": true, "model": "workflow"}
	if a.opt.Model != "" {
		body["model"] = a.opt.Model
	}
	maps.Copy(body, a.opt.Extra)
	body["messages"] = a.chatMessages(ctx, r.turn, all)
	return body, nil
}

// handleField handles the fields of the stream that only NeMo has.
func (n *nemoStream) handleField(ctx context.Context, name, value string) (known bool, err error) {
	switch name {
	case "intermediate_data":
		var step nemoStep
		if err := json.Unmarshal([]byte(value), &step); err != nil {
			return true, n.a.unreadable("a step that is no JSON", err)
		}
		return true, n.steps.handle(ctx, step)
	case "observability_trace":
		return true, n.r.storeTrace(ctx, []byte(value))
	}
	return false, nil
}

// handleEvent handles the events of the stream that only NeMo has.
func (n *nemoStream) handleEvent(ctx context.Context, name, data string) (known bool, err error) {
	switch name {
	case "interaction_required":
		return true, n.handlePrompt(ctx, data)
	case "oauth_required":
		var in struct {
			URL string `json:"auth_url"`
		}
		if json.Unmarshal([]byte(data), &in) != nil || in.URL == "" {
			return true, nil
		}
		return true, n.r.storeConsent(ctx, in.URL)
	}
	return false, nil
}

// handlePrompt opens a prompt while the stream waits, and posts the answer.
func (n *nemoStream) handlePrompt(ctx context.Context, data string) error {
	var in struct {
		Prompt      nemoPrompt `json:"prompt"`
		ResponseURL string     `json:"response_url"`
	}
	if err := json.Unmarshal([]byte(data), &in); err != nil {
		return n.a.unreadable("a question that is no JSON", err)
	}
	q := in.Prompt.request()
	resume := n.s.pauseTimers()
	answer, err := n.r.out.ask(ctx, q)
	resume()
	if errors.Is(err, agent.ErrExpired) {
		return nil // the workflow has its own timeout
	}
	if err != nil || q.InputType == chat.InputNotification {
		return err
	}
	address, err := n.a.responseURL(in.ResponseURL)
	if err != nil {
		return err
	}
	s, err := n.a.post(ctx, address, map[string]any{"response": in.Prompt.response(answer)}, "application/json", nil)
	if err != nil {
		return err
	}
	s.close()
	return nil
}

// responseURL resolves the address for an answer. It must be on the endpoint's
// server, because the request carries the key.
func (a *Agent) responseURL(ref string) (string, error) {
	u, err := a.url.Parse(ref)
	if err != nil || u.Host != a.url.Host {
		return "", a.unreadable("it wants the answer at another server", err)
	}
	u.Scheme = httpScheme(u.Scheme)
	return u.String(), nil
}

// response is the body of an answer.
func (p *nemoPrompt) response(b chat.UserInputResponse) map[string]any {
	text := answerText(b)
	if len(p.Options) == 0 {
		return map[string]any{"type": "text", "text": text}
	}
	chosen := map[string]any{"id": "default", "label": "default", "value": text}
	for _, o := range p.Options {
		if json.Text(o.Value) == text {
			chosen = map[string]any{"id": o.ID, "label": o.Label, "value": o.Value}
			if p.InputType != string(chat.InputBinary) {
				chosen["description"] = o.Description
			}
		}
	}
	return map[string]any{"type": p.InputType, "selected_option": chosen}
}
