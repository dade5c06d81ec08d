package nemo

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// answerRoute is one of the routes that take a message and give its answer.
type answerRoute struct {
	d           *Dialect
	path        string
	chat        bool // OpenAI's form; else {"value": …}
	stream      bool
	full        bool // steps with their payload, not as Markdown
	interactive bool // prompts are reported and can be answered
	openAI      bool // for OpenAI clients: no steps and no trace
}

func (rt *answerRoute) serve(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var m *httpMessage
	var err error
	if rt.chat {
		m, err = rt.d.readChat(r)
	} else {
		m, _, err = rt.d.readInput(r)
	}
	if err != nil {
		return err
	}
	a, err := rt.d.startAnswer(r.Context(), c, m, rt.interactive)
	if err != nil {
		return err
	}
	w.Header().Add("Access-Control-Expose-Headers", "Observability-Trace-Id, Conversation-Id")
	if a.session != "" {
		w.Header().Set("Conversation-Id", cmp.Or(m.conversation, string(a.session)))
	}
	if rt.stream || rt.openAI && m.stream {
		return rt.serveStream(w, r, a, m)
	}
	return rt.serveWhole(w, r, a, m)
}

// serveWhole answers when the turn has ended, or when a prompt is open.
func (rt *answerRoute) serveWhole(w http.ResponseWriter, r *http.Request, a *httpAnswer, m *httpMessage) error {
	var prompt *openPrompt
	err := a.follow(r.Context(), func(*item) error { return nil }, func(p *openPrompt) (bool, error) { prompt = p; return true, nil }, nil)
	switch {
	case errors.Is(err, errPromptOpen) && rt.interactive:
		e := rt.d.promptExecution(prompt)
		e.StatusURL = "/executions/" + e.ID
		rt.d.http.Send(w, r, http.StatusAccepted, e)
		return nil
	case errors.Is(err, errPromptOpen):
		a.appendParagraph(promptText(&prompt.Prompt))
		a.stopIfOneShot(r.Context())
	case err != nil:
		a.stopIfOneShot(r.Context())
		return err
	}
	a.text.WriteString(a.immediate)
	if a.trace != "" {
		w.Header().Set("Observability-Trace-Id", a.trace)
	}
	switch {
	case a.err != nil && rt.openAI:
		w.Header().Set("X-Should-Retry", "false") // else OpenAI clients run the agent and its tools again
		rt.d.http.Send(w, r, http.StatusInternalServerError, map[string]any{"error": map[string]any{
			"message": a.err.Details, "type": "server_error", "code": a.err.Code, "param": nil,
		}})
	case a.err != nil:
		rt.d.http.Send(w, r, http.StatusUnprocessableEntity, httpError(*a.err))
	default:
		rt.d.http.Send(w, r, http.StatusOK, a.result(rt.chat, m.Last.Content.text()))
	}
	return nil
}

// httpError is a failed turn over HTTP: the toolkit's server has the text in message and the class in details there.
func httpError(e errorContent) errorContent {
	return errorContent{Code: e.Code, Message: e.Details, Details: e.Message}
}

// result is the whole answer, in OpenAI's form or as {"value": …}.
func (a *httpAnswer) result(chat bool, question string) any {
	text := a.text.String()
	if !chat {
		return value{text}
	}
	return completion{
		ID: a.id(), Object: "chat.completion", Created: a.createdAt.Unix(), Model: a.model, Usage: a.usage(question),
		Choices: []choice{{Message: &delta{Role: "assistant", Content: &text}, FinishReason: stop}},
	}
}

// serveStream answers piece by piece.
func (rt *answerRoute) serveStream(w http.ResponseWriter, r *http.Request, a *httpAnswer, m *httpMessage) error {
	err := wire.ServeSSE(w, r, wire.SSEOptions{ContentType: "text/event-stream; charset=utf-8"}, rt.d.opt.Conns,
		func(ctx context.Context, out *wire.Stream) error {
			s := &answerStream{answerRoute: rt, answer: a, usage: m.usage && rt.openAI, ctx: ctx, out: out}
			if v := r.URL.Query().Get("filter_steps"); v != "" {
				s.steps = strings.Split(v, ",")
			}
			if err := out.Flush(ctx); err != nil {
				return err
			}
			return s.serve(m.Last.Content.text())
		})
	if errors.Is(err, wire.ErrShutdown) {
		return chat.Errorf(chat.Unavailable, "the server is shutting down; try again in a moment")
	}
	return err
}

// answerStream writes one answer as server-sent events.
type answerStream struct {
	*answerRoute
	answer *httpAnswer
	steps  []string // the types of steps that the client wants; nil means all
	usage  bool     // a chunk with token counts ends the stream
	ctx    context.Context
	out    *wire.Stream
}

func (s *answerStream) write(b []byte) error { return s.out.Write(s.ctx, b) }

func (s *answerStream) serve(question string) error {
	err := s.answer.follow(s.ctx, s.show, s.showPrompt, func() error { return s.write(wire.AppendSSEComment(nil, "ping")) })
	switch {
	case errors.Is(err, errPromptOpen):
		s.answer.stopIfOneShot(s.ctx)
	case err != nil:
		s.answer.stopIfOneShot(s.ctx)
		if errors.Is(context.Cause(s.ctx), wire.ErrPeerGone) {
			return nil
		}
		if ended := wire.Ended(s.ctx); ended != nil {
			err = &refusal{codeAuth, chat.Public(ended)}
		} else if s.ctx.Err() != nil {
			return err
		}
		return s.writeError(errorOf(err))
	}
	if s.answer.err != nil {
		return s.writeError(httpError(*s.answer.err))
	}
	if !s.chat {
		return nil
	}
	end := s.chunk("")
	end.Choices[0].FinishReason = stop
	if err := s.write(field("data", end)); err != nil {
		return err
	}
	if s.usage {
		c := s.chunk("")
		c.Usage, c.Choices = s.answer.usage(question), []choice{}
		if err := s.write(field("data", c)); err != nil {
			return err
		}
	}
	return s.write([]byte("data: [DONE]\n\n"))
}

func (s *answerStream) show(it *item) error {
	switch {
	case it.kind == itemText:
		return s.writeText(it.text)
	case it.kind == itemStep && !s.openAI:
		line := stepLine{ID: it.id, Parent: cmp.Or(it.parent, "root"), Type: "markdown", Name: it.name, Payload: payload(it.text)}
		if s.full {
			if s.steps != nil && !slices.Contains(s.steps, it.raw) {
				return nil
			}
			line.Type, line.Payload = it.raw, string(it.data)
			if len(it.data) == 0 {
				line.Payload = string(appendJSON(nil, it.text))
			}
		}
		return s.write(field("intermediate_data", line))
	case it.kind == itemTrace && !s.openAI:
		return s.write(field("observability_trace", traceContent{it.text}))
	}
	return nil
}

func (s *answerStream) writeText(text string) error {
	if s.chat {
		return s.write(field("data", s.chunk(text)))
	}
	return s.write(field("data", value{text}))
}

// showPrompt reports a prompt. A route without prompts sends its text and ends; the next message of the conversation
// answers it.
func (s *answerStream) showPrompt(p *openPrompt) (end bool, err error) {
	if !s.interactive {
		return true, s.writeText(s.answer.appendParagraph(promptText(&p.Prompt)))
	}
	e := s.d.promptExecution(p)
	e.Type, e.Status = e.Status, ""
	return false, s.write(wire.AppendSSE(nil, e.Type, "", appendJSON(nil, e)))
}

// writeError writes an error in the form that the clients of the route read, also after the context has ended.
func (s *answerStream) writeError(e errorContent) error {
	b := append(appendJSON(nil, e), '\n', '\n')
	switch {
	case s.openAI:
		b = field("data", map[string]any{"error": map[string]any{"message": e.Message, "type": "server_error", "code": e.Code}})
	case s.interactive:
		b = wire.AppendSSE(nil, "error", "", appendJSON(nil, e))
	}
	return s.out.Write(context.WithoutCancel(s.ctx), b)
}

func (s *answerStream) chunk(text string) completion {
	return completion{
		ID: s.answer.id(), Object: "chat.completion.chunk", Created: s.answer.createdAt.Unix(), Model: s.answer.model,
		Choices: []choice{{Delta: &delta{Role: "assistant", Content: &text}}},
	}
}

// field is one event; the protocol has field names of its own beside data.
func field(name string, v any) []byte {
	return append(appendJSON([]byte(name+": "), v), '\n', '\n')
}

var stop = json.RawMessage(`"stop"`)

// completion is OpenAI's answer, whole or in chunks.
type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   any      `json:"usage,omitempty"`
}

type choice struct {
	Index        int             `json:"index"`
	Message      *delta          `json:"message,omitempty"`
	Delta        *delta          `json:"delta,omitempty"`
	FinishReason json.RawMessage `json:"finish_reason"`
}

type delta struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content"`
}

type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
}

// value is the answer of a workflow.
type value struct {
	Value string `json:"value"`
}

// stepLine is an intermediate step in a stream.
type stepLine struct {
	ID      string `json:"id"`
	Parent  string `json:"parent_id"`
	Type    string `json:"type"`
	Name    string `json:"name"`
	Payload string `json:"payload"`
}
