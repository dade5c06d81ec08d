package httpagent

import (
	"cmp"
	"context"
	"io"
	"maps"
	"mime"
	"slices"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm/openai"
	"github.com/parley-hq/parley/internal/sse"
)

// chunk is a piece of a chat completion, or a whole one.
type chunk struct {
	openai.Chunk
	Value json.RawMessage `json:"value"` // of NeMo's generate streams
}

// completion reads a chat completion.
type completion struct {
	a            *Agent
	out          *output
	ended        bool // a finish_reason or [DONE] arrived
	calls        map[int]*pendingCall
	finishReason string
	hasText      bool

	// The hooks of NeMo, for what chat completions do not have; nil for others.
	field       func(name, value string) (known bool, err error)
	event       func(name, data string) (known bool, err error)
	ignoreCalls func() bool // the calls are stored in another way
}

// pendingCall is a call whose parameters arrive in pieces.
type pendingCall struct{ id, name, args string }

// maxCalls bounds the pending calls.
const maxCalls = 1000

// openAI calls a chat completions endpoint.
func openAI(ctx context.Context, a *Agent, r *round) ([]promptRequest, error) {
	all, err := a.history(ctx, r.turn)
	if err != nil {
		return nil, err
	}
	body := map[string]any{"stream": true, "stream_options": map[string]any{"include_usage": true}}
	if a.opt.Model != "" {
		body["model"] = a.opt.Model
	}
	maps.Copy(body, a.opt.Extra)
	body["messages"] = a.chatMessages(ctx, r.turn, all)
	s, err := a.post(ctx, a.chatURL(), body, "text/event-stream, application/json", nil)
	if err != nil {
		return nil, err
	}
	defer s.close()
	c := &completion{a: a, out: r.out, calls: map[int]*pendingCall{}}
	if err := c.read(ctx, s); err != nil {
		return nil, err
	}
	if err := c.closeCalls(ctx); err != nil {
		return nil, err
	}
	if !r.out.stored {
		return nil, a.emptyAnswer()
	}
	return nil, nil
}

// chatURL is the configured address, or the one of chat completions below it when
// it is the base address of an API.
func (a *Agent) chatURL() string {
	if path := strings.TrimRight(a.url.Path, "/"); path == "" || strings.HasSuffix(path, "/v1") {
		u := *a.url
		u.Path = cmp.Or(path, "/v1") + "/chat/completions"
		return u.String()
	}
	return a.opt.URL
}

// chatMessages is a conversation in the form of chat completions.
func (a *Agent) chatMessages(ctx context.Context, turn *agent.Turn, all []message) []map[string]any {
	var out []map[string]any
	if a.opt.Instructions != "" {
		out = append(out, map[string]any{"role": "system", "content": a.opt.Instructions})
	}
	if m, ok := turn.Trigger.Body.(chat.UserMessage); ok && m.System() != "" {
		out = append(out, map[string]any{"role": "system", "content": m.System()})
	}
	// Workflows of a toolkit take the last message as their input.
	for _, m := range mergeByRole(all, a.opt.Protocol == NeMo) {
		var content any = m.text
		if len(m.parts) > 0 {
			content = a.contentParts(ctx, turn, &m, func(url string) map[string]any {
				return map[string]any{"type": "image_url", "image_url": map[string]any{"url": url}}
			})
		}
		out = append(out, map[string]any{"role": m.role, "content": content})
	}
	return out
}

// read reads a response: a stream, or a whole completion.
func (c *completion) read(ctx context.Context, s *stream) error {
	if mediaType, _, _ := mime.ParseMediaType(s.res.Header.Get("Content-Type")); mediaType == "application/json" {
		b, err := io.ReadAll(s)
		if err != nil {
			return err
		}
		c.ended = true
		return c.handleChunk(ctx, b, false)
	}
	other := func(name, value []byte) error {
		if c.field != nil {
			if known, err := c.field(string(name), string(value)); known || err != nil {
				return err
			}
		}
		bare := bareJSON(name, value)
		if bare == nil {
			return nil
		}
		if reason := bareError(bare); reason != "" {
			return c.a.reported(reason)
		}
		return c.handleChunk(ctx, bare, false)
	}
	err := s.events(other, func(e sse.Frame, truncated bool) (bool, error) {
		if c.event != nil {
			if known, err := c.event(e.Event, string(e.Data)); known || err != nil {
				return false, err
			}
		}
		switch {
		case strings.TrimSpace(string(e.Data)) == "[DONE]":
			c.ended = true
			return true, nil
		case e.Event == "error":
			return false, c.a.reported(errorText(e.Data))
		}
		return false, c.handleChunk(ctx, e.Data, truncated)
	})
	if err == nil && !c.ended {
		return c.a.broken(nil)
	}
	return err
}

// bareError is the reason in an error object that some servers send without a
// field name: {"code", "message", "details"}. It is "" for a chunk.
func bareError(line []byte) string {
	var o struct {
		Choices json.RawMessage `json:"choices"`
	}
	if json.Unmarshal(line, &o) != nil || o.Choices != nil {
		return ""
	}
	return errorText(line)
}

func (c *completion) handleChunk(ctx context.Context, b []byte, truncated bool) error {
	var k chunk
	if err := json.Unmarshal(b, &k); err != nil {
		if truncated {
			return c.a.broken(err)
		}
		return c.a.unreadable("a chunk that is no JSON", err)
	}
	if reason := errorField(k.Error); reason != "" {
		return c.a.reported(reason)
	}
	if u := k.Tokens(); u.InputTokens > 0 || u.OutputTokens > 0 {
		// Every chunk counts the whole answer, so the last one replaces the others.
		c.out.usage = []chat.AgentUsage{{Model: cmp.Or(k.Model, c.a.opt.Model), Usage: u}}
	}
	if len(k.Value) > 0 && string(k.Value) != "null" {
		c.hasText = true
		return c.out.text(ctx, json.Text(k.Value))
	}
	if len(k.Choices) == 0 {
		return nil
	}
	choice := &k.Choices[0]
	for _, d := range []*openai.Delta{&choice.Delta, &choice.Message} {
		if err := c.handleDelta(ctx, d); err != nil {
			return err
		}
	}
	if reason := string(choice.FinishReason); reason != "" {
		c.ended, c.finishReason = true, reason
		return c.storeCalls(ctx)
	}
	return nil
}

func (c *completion) handleDelta(ctx context.Context, d *openai.Delta) error {
	if err := c.out.think(ctx, string(d.ReasoningContent+d.Reasoning)); err != nil {
		return err
	}
	if text := string(d.Content + d.Refusal); text != "" {
		if err := c.storeRunCalls(ctx); err != nil {
			return err
		}
		c.hasText = true
		if err := c.out.text(ctx, text); err != nil {
			return err
		}
	}
	for i := range d.ToolCalls {
		k := &d.ToolCalls[i]
		index := int(k.Index)
		t := c.calls[index]
		if t != nil && k.ID != "" && t.id != "" && k.ID != t.id { // the agent's next step reuses the index
			if err := c.storeRunCalls(ctx); err != nil {
				return err
			}
			t = nil
		}
		if t == nil {
			if len(c.calls) >= maxCalls {
				return c.a.unreadable("too many tool calls", nil)
			}
			t = &pendingCall{}
			c.calls[index] = t
		}
		t.id = cmp.Or(k.ID, t.id)
		t.name += k.Function.Name
		t.args += string(k.Function.Arguments)
	}
	return nil
}

// storeRunCalls stores the pending calls when the endpoint continues its answer
// after them: it has run the tools itself and does not send their results.
func (c *completion) storeRunCalls(ctx context.Context) error {
	for _, t := range c.calls {
		if t.args != "" && !json.Valid([]byte(t.args)) {
			return nil // more parameters follow
		}
	}
	before := len(c.out.openCalls)
	if err := c.storeCalls(ctx); err != nil {
		return err
	}
	return c.out.closeCalls(ctx, before, "")
}

// storeCalls stores the pending calls, in their order.
func (c *completion) storeCalls(ctx context.Context) error {
	if c.ignoreCalls != nil && c.ignoreCalls() {
		clear(c.calls)
	}
	for _, i := range slices.Sorted(maps.Keys(c.calls)) {
		t := c.calls[i]
		if err := c.out.call(ctx, cmp.Or(t.id, t.name), t.name, json.RawMessage(t.args)); err != nil {
			return err
		}
	}
	clear(c.calls)
	return nil
}

// closeCalls ends the open calls. An endpoint that wants its caller to run a tool
// fails the turn, because this agent runs none.
func (c *completion) closeCalls(ctx context.Context) error {
	if err := c.storeCalls(ctx); err != nil {
		return err
	}
	var names []string
	for _, id := range c.out.openCalls {
		names = append(names, c.out.calls[id].Tool)
	}
	problem := "agents of this kind run no tools for the endpoint"
	if c.finishReason != "tool_calls" && c.hasText {
		problem = "" // the endpoint continued, so it has run the tool itself
	}
	if err := c.out.closeCalls(ctx, 0, problem); err != nil {
		return err
	}
	if c.finishReason == "tool_calls" && len(names) > 0 {
		return agent.Failf(agent.CodeRefused, chat.Unavailable, "the agent wants the tool %s to be run, which an agent of kind %s has to do itself; an agent of kind model runs tools", strings.Join(names, ", "), c.a.opt.Protocol)
	}
	return nil
}
