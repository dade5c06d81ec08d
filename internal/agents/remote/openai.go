package remote

import (
	"context"
	"maps"
	"mime"
	"net/http"
	"slices"
	"sort"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/sse"
)

// chunk is a piece of a chat completion, or a whole one.
type chunk struct {
	Model   string `json:"model"`
	Choices []struct {
		Delta   delta   `json:"delta"`
		Message delta   `json:"message"` // of a whole one
		Finish  *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Input   int64 `json:"prompt_tokens"`
		Output  int64 `json:"completion_tokens"`
		Details struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		OutputDetails struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
	Value json.RawMessage `json:"value"` // NeMo's generate streams
}

type delta struct {
	Content   json.RawMessage `json:"content"` // a text, or parts
	Reasoning string          `json:"reasoning"`
	Thinking  string          `json:"reasoning_content"`
	Refusal   string          `json:"refusal"`
	Calls     []struct {
		Index    int    `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// completion hears a chat completion.
type completion struct {
	a     *Agent
	s     *output
	ended bool // a finish_reason or [DONE] was there
	calls map[int]*toolDraft
	last  string      // the finish_reason
	text  bool        // there was some
	told  func() bool // the calls are told of in another way; nil means that they are not
}

// toolDraft is a call whose parameters come in pieces.
type toolDraft struct{ id, name, args string }

// openAI calls a chat endpoint.
func openAI(ctx context.Context, a *Agent, r *round) ([]question, error) {
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
	c := &completion{a: a, s: r.s, calls: map[int]*toolDraft{}}
	if !streams(s.res) {
		err = c.whole(ctx, s)
	} else {
		err = c.read(ctx, s, nil, nil)
	}
	if err != nil {
		return nil, err
	}
	if err := c.closeCalls(ctx); err != nil {
		return nil, err
	}
	if !r.s.stored {
		return nil, a.emptyAnswer()
	}
	return nil, nil
}

// chatURL is the address of chat completions: the configured one, or the one
// below it when that is an API's base.
func (a *Agent) chatURL() string {
	if path := strings.TrimRight(a.url.Path, "/"); path == "" || strings.HasSuffix(path, "/v1") {
		u := *a.url
		if path == "" {
			path = "/v1"
		}
		u.Path = path + "/chat/completions"
		return u.String()
	}
	return a.opt.URL
}

func streams(res *http.Response) bool {
	typ, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return typ != "application/json"
}

// chatMessages is a conversation in the words of chat completions.
func (a *Agent) chatMessages(ctx context.Context, turn *agent.Turn, all []message) []map[string]any {
	var out []map[string]any
	if a.opt.Instructions != "" {
		out = append(out, map[string]any{"role": "system", "content": a.opt.Instructions})
	}
	if said, ok := turn.Trigger.Body.(chat.UserMessage); ok && said.System() != "" {
		out = append(out, map[string]any{"role": "system", "content": said.System()})
	}
	for _, m := range spoken(all) {
		if len(m.parts) == 0 {
			out = append(out, map[string]any{"role": m.role, "content": m.text})
			continue
		}
		var parts []map[string]any
		if m.text != "" {
			parts = append(parts, map[string]any{"type": "text", "text": m.text})
		}
		for i := range m.parts {
			p := &m.parts[i]
			if at := a.image(ctx, turn, p); at != "" {
				parts = append(parts, map[string]any{"type": "image_url", "image_url": map[string]any{"url": at}})
			} else if p.Type != "text" {
				parts = append(parts, map[string]any{"type": "text", "text": "[attached: " + nameOf(p) + "]"})
			}
		}
		out = append(out, map[string]any{"role": m.role, "content": parts})
	}
	return out
}

// whole hears an answer that comes at once.
func (c *completion) whole(ctx context.Context, s *stream) error {
	b, err := s.all()
	if err != nil {
		return err
	}
	c.ended = true
	return c.take(ctx, b, false)
}

// read reads a stream. field and event handle what chat completions do not have and report whether they did; they may be
// nil.
func (c *completion) read(ctx context.Context, s *stream, field func(name, value string) (bool, error), event func(name, data string) (bool, error)) error {
	other := func(name, value []byte) error {
		if field != nil {
			if known, err := field(string(name), string(value)); known || err != nil {
				return err
			}
		}
		bare := bareJSON(name, value)
		if bare == nil {
			return nil
		}
		if why := bareError(bare); why != "" {
			return c.a.reported(why)
		}
		return c.take(ctx, bare, false)
	}
	err := s.events(other, func(e sse.Frame, truncated bool) (bool, error) {
		if event != nil {
			if known, err := event(e.Event, string(e.Data)); known || err != nil {
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
		return false, c.take(ctx, e.Data, truncated)
	})
	if err == nil && !c.ended {
		return c.a.broken(nil)
	}
	return err
}

// bareError is the reason in an error that some servers send without a field
// name: {"code", "message", "details"}. It is "" for anything else.
func bareError(line []byte) string {
	var o struct {
		Choices json.RawMessage `json:"choices"`
	}
	if json.Unmarshal(line, &o) != nil || o.Choices != nil {
		return ""
	}
	return errorText(line)
}

// take hears one chunk.
func (c *completion) take(ctx context.Context, b []byte, cut bool) error {
	var k chunk
	if err := json.Unmarshal(b, &k); err != nil {
		if cut {
			return c.a.broken(err)
		}
		return c.a.unreadable("a chunk that is no JSON", err)
	}
	if why := errorField(k.Error); why != "" {
		return c.a.reported(why)
	}
	if k.Usage != nil && (k.Usage.Input > 0 || k.Usage.Output > 0) {
		model := k.Model
		if model == "" {
			model = c.a.opt.Model
		}
		// Counts are of the whole answer: the last word counts.
		c.s.usage = []chat.AgentUsage{{Model: model, Usage: chat.Usage{
			InputTokens: k.Usage.Input, OutputTokens: k.Usage.Output,
			CacheReadTokens: k.Usage.Details.Cached, ReasoningTokens: k.Usage.OutputDetails.Reasoning,
		}}}
	}
	if len(k.Value) > 0 && string(k.Value) != "null" {
		c.text = true
		return c.s.text(ctx, plain(k.Value))
	}
	if len(k.Choices) == 0 {
		return nil
	}
	choice := &k.Choices[0]
	for _, d := range []*delta{&choice.Delta, &choice.Message} {
		if err := c.delta(ctx, d); err != nil {
			return err
		}
	}
	if choice.Finish != nil && *choice.Finish != "" {
		c.ended, c.last = true, *choice.Finish
		return c.finished(ctx)
	}
	return nil
}

func (c *completion) delta(ctx context.Context, d *delta) error {
	if err := c.s.think(ctx, d.Thinking+d.Reasoning); err != nil {
		return err
	}
	if text := contentText(d.Content) + d.Refusal; text != "" {
		if err := c.storeRunCalls(ctx); err != nil {
			return err
		}
		c.text = true
		if err := c.s.text(ctx, text); err != nil {
			return err
		}
	}
	for i := range d.Calls {
		k := &d.Calls[i]
		t := c.calls[k.Index]
		if t == nil {
			if len(c.calls) >= 1000 {
				return c.a.unreadable("too many tool calls", nil)
			}
			t = &toolDraft{}
			c.calls[k.Index] = t
		}
		if k.ID != "" && t.id != "" && k.ID != t.id { // of the next step of an agent that streams several
			if err := c.storeRunCalls(ctx); err != nil {
				return err
			}
			t = &toolDraft{}
			c.calls[k.Index] = t
		}
		if k.ID != "" {
			t.id = k.ID
		}
		t.name += k.Function.Name
		t.args += k.Function.Arguments
	}
	return nil
}

// contentText is the text of a content that is a text or a list of parts.
func contentText(v json.RawMessage) string {
	if len(v) == 0 || v[0] == 'n' {
		return ""
	}
	var text string
	if json.Unmarshal(v, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(v, &parts) // of another form: it has no text
	for _, p := range parts {
		text += p.Text
	}
	return text
}

// plain is a JSON value as text.
func plain(v json.RawMessage) string {
	var text string
	if json.Unmarshal(v, &text) == nil {
		return text
	}
	return string(v)
}

// passed tells of calls behind which the endpoint goes on in the same answer: it
// has run the tools itself, and keeps what they gave.
func (c *completion) storeRunCalls(ctx context.Context) error {
	for _, t := range c.calls {
		if t.args != "" && !json.Valid([]byte(t.args)) {
			return nil // they are not whole yet
		}
	}
	before := len(c.s.open)
	if err := c.finished(ctx); err != nil {
		return err
	}
	for _, id := range slices.Clone(c.s.open[before:]) {
		if err := c.s.result(ctx, id, json.RawMessage("null"), ""); err != nil {
			return err
		}
	}
	return nil
}

// finished tells of the calls whose parameters are whole now.
func (c *completion) finished(ctx context.Context) error {
	if c.told != nil && c.told() {
		clear(c.calls)
	}
	var order []int
	for i := range c.calls {
		order = append(order, i)
	}
	sort.Ints(order)
	for _, i := range order {
		t := c.calls[i]
		if t.id == "" {
			t.id = t.name
		}
		if err := c.s.call(ctx, t.id, t.name, json.RawMessage(t.args)); err != nil {
			return err
		}
	}
	clear(c.calls)
	return nil
}

// uncalled deals with tools that the endpoint wants to have run: nobody here
// does.
func (c *completion) closeCalls(ctx context.Context) error {
	if err := c.finished(ctx); err != nil {
		return err
	}
	names := []string{}
	for _, id := range append([]string(nil), c.s.open...) {
		names = append(names, c.s.calls[id].Tool)
		if c.last != "tool_calls" && c.text {
			// It went on by itself: it has run the tool and keeps the result.
			if err := c.s.result(ctx, id, json.RawMessage("null"), ""); err != nil {
				return err
			}
			continue
		}
		if err := c.s.result(ctx, id, nil, "nobody runs this tool for the endpoint"); err != nil {
			return err
		}
	}
	if c.last == "tool_calls" && len(names) > 0 {
		return agent.Failf(agent.CodeRefused, chat.Unavailable, "the agent wants the tool %s to be run, which an agent of kind %s has to do itself; an agent of kind model runs tools", strings.Join(names, ", "), c.a.opt.Protocol)
	}
	return nil
}
