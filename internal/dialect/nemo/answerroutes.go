package nemo

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// answerRoute is one of the many addresses under which an answer can be had.
type answerRoute struct {
	d           *Dialect
	path        string
	chat        bool // OpenAI's form; else {"value": …}
	stream      bool
	full        bool // steps as they are, not as Markdown
	interactive bool // prompts are told and can be answered
	openAI      bool // nothing but what OpenAI's clients know
}

// answerRoutes lists them.
func (d *Dialect) answerRoutes() []*answerRoute {
	routes := []*answerRoute{
		{path: "/chat", chat: true},
		{path: "/chat/stream", chat: true, stream: true},
		{path: "/generate"},
		{path: "/generate/stream", stream: true},
		{path: "/generate/full", stream: true, full: true},
		{path: "/v1/chat", chat: true, interactive: true},
		{path: "/v1/chat/stream", chat: true, stream: true, interactive: true},
		{path: "/v1/workflow", interactive: true},
		{path: "/v1/workflow/stream", stream: true, interactive: true},
		{path: "/v1/workflow/full", stream: true, full: true, interactive: true},
	}
	for _, r := range routes {
		r.d = d
	}
	return routes
}

// completions is OpenAI's own address.
func (d *Dialect) completions(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	rt := &answerRoute{d: d, path: "/v1/chat/completions", chat: true, openAI: true}
	return rt.serve(w, r, c)
}

func (rt *answerRoute) serve(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var a *httpMessage
	var err error
	if rt.chat {
		a, err = rt.d.readChat(r)
	} else {
		a, _, err = rt.d.readInput(r)
	}
	if err != nil {
		return err
	}
	run, err := rt.d.startAnswer(r.Context(), c, a, rt.interactive)
	if err != nil {
		return err
	}
	w.Header().Add("Access-Control-Expose-Headers", "Observability-Trace-Id, Conversation-Id")
	if run.session != "" {
		w.Header().Set("Conversation-Id", first(a.conversation, string(run.session)))
	}
	if rt.stream || rt.openAI && a.stream {
		return rt.streaming(w, r, run, a)
	}
	return rt.whole(w, r, run, a)
}

// whole answers when the turn has ended, or when the agent asks something.
func (rt *answerRoute) whole(w http.ResponseWriter, r *http.Request, run *httpAnswer, a *httpMessage) error {
	var prompt *openPrompt
	err := run.follow(r.Context(), func(*item) error { return nil }, func(p *openPrompt) (bool, error) { prompt = p; return true, nil }, nil)
	switch {
	case errors.Is(err, errPromptOpen) && rt.interactive:
		sendJSON(w, r, http.StatusAccepted, rt.d.accepted(prompt))
		return nil
	case errors.Is(err, errPromptOpen):
		run.appendParagraph(promptText(&prompt.Prompt))
		run.stopIfAbandoned(r.Context())
	case err != nil:
		run.stopIfAbandoned(r.Context())
		return err
	}
	if run.immediate != "" {
		run.text.WriteString(run.immediate)
	}
	if run.trace != "" {
		w.Header().Set("Observability-Trace-Id", run.trace)
	}
	if run.err != nil {
		return rt.failed(w, r, run)
	}
	sendJSON(w, r, http.StatusOK, rt.result(run, a.Last.Content.text()))
	return nil
}

func (rt *answerRoute) failed(w http.ResponseWriter, r *http.Request, run *httpAnswer) error {
	if rt.openAI {
		w.Header().Set("X-Should-Retry", "false") // OpenAI's clients would run the agent again, and its tools
		sendJSON(w, r, http.StatusInternalServerError, map[string]any{"error": map[string]any{
			"message": run.err.Details, "type": "server_error", "code": run.err.Code, "param": nil,
		}})
		return nil
	}
	// Over HTTP the real server has the text in message and the class in details.
	sendJSON(w, r, http.StatusUnprocessableEntity, errorContent{Code: run.err.Code, Message: run.err.Details, Details: run.err.Message})
	return nil
}

// result is the whole answer in the route's form.
func (rt *answerRoute) result(run *httpAnswer, question string) any {
	text := run.text.String()
	if !rt.chat {
		return value{text}
	}
	return completion{
		ID: run.id(), Object: "chat.completion", Created: run.createdAt.Unix(), Model: run.model, Usage: run.usage(question),
		Choices: []choice{{Message: &delta{Role: "assistant", Content: &text}, FinishReason: stop}},
	}
}

// appendParagraph adds a text of our own to the answer.
func (r *httpAnswer) appendParagraph(s string) {
	if r.text.Len() > 0 {
		s = "\n\n" + s
	}
	r.text.WriteString(s)
}

// id names the answer.
func (r *httpAnswer) id() string {
	if r.turn != nil && r.turn.uuid != "" {
		return r.turn.uuid
	}
	return derivedID(string(r.session), "answer")
}

// streaming answers piece by piece.
func (rt *answerRoute) streaming(w http.ResponseWriter, r *http.Request, run *httpAnswer, a *httpMessage) error {
	question, filter := a.Last.Content.text(), stepFilter(r)
	err := wire.ServeSSE(w, r, wire.SSEOptions{ContentType: "text/event-stream; charset=utf-8"}, rt.d.opt.Conns,
		func(ctx context.Context, s *wire.Stream) error {
			st := &answerStream{rt: rt, run: run, filter: filter, usage: a.usage, write: func(b []byte) error { return s.Write(ctx, b) }}
			st.last = func(b []byte) error { return s.Write(context.WithoutCancel(ctx), b) }
			if err := s.Flush(ctx); err != nil {
				return err
			}
			return st.serve(ctx, question)
		})
	if errors.Is(err, wire.ErrShutdown) {
		return chat.Errorf(chat.Unavailable, "the server is shutting down; come back in a moment")
	}
	return err
}

// stepFilter reads ?filter_steps=A,B or none; nil means all.
func stepFilter(r *http.Request) []string {
	v := r.URL.Query().Get("filter_steps")
	if v == "" {
		return nil
	}
	return strings.Split(v, ",")
}

// answerStream writes one answer as events.
type answerStream struct {
	rt     *answerRoute
	run    *httpAnswer
	filter []string
	usage  bool
	write  func([]byte) error
	last   func([]byte) error // also after the stream's context has ended
}

func (s *answerStream) serve(ctx context.Context, question string) error {
	err := s.run.follow(ctx, s.show, s.ask, func() error { return s.write(wire.AppendSSEComment(nil, "ping")) })
	switch {
	case errors.Is(err, errPromptOpen):
		s.run.stopIfAbandoned(ctx)
	case err != nil:
		s.run.stopIfAbandoned(ctx)
		if errors.Is(context.Cause(ctx), wire.ErrPeerGone) {
			return nil
		}
		if ended := wire.Ended(ctx); ended != nil {
			err = &refusal{codeAuth, chat.Public(ended)}
		} else if ctx.Err() != nil {
			return err
		}
		return s.problem(errorOf(err))
	}
	if s.run.err != nil {
		return s.problem(errorContent{Code: s.run.err.Code, Message: s.run.err.Details, Details: s.run.err.Message})
	}
	if !s.rt.chat {
		return nil
	}
	if err := s.write(s.chunk("", true)); err != nil {
		return err
	}
	if s.usage && s.rt.openAI {
		c := completion{ID: s.run.id(), Object: chunkObject, Created: s.run.createdAt.Unix(), Model: s.run.model, Usage: s.run.usage(question), Choices: []choice{}}
		if err := s.write(data(c)); err != nil {
			return err
		}
	}
	return s.write([]byte("data: [DONE]\n\n"))
}

func (s *answerStream) show(it *item) error {
	switch it.kind {
	case itemText:
		if s.rt.chat {
			return s.write(s.chunk(it.text, false))
		}
		return s.write(data(value{it.text}))
	case itemStep:
		if b := s.step(it); b != nil {
			return s.write(b)
		}
	case itemTrace:
		if !s.rt.openAI {
			return s.write(field("observability_trace", traceContent{it.text}))
		}
	}
	return nil
}

// step is an intermediate step; nil when it is not wanted.
func (s *answerStream) step(it *item) []byte {
	if s.rt.openAI {
		return nil
	}
	line := stepLine{ID: it.id, Parent: first(it.parent, "root"), Type: "markdown", Name: it.name, Payload: payload(it.text)}
	if s.rt.full {
		if s.filter != nil && !slices.Contains(s.filter, it.raw) {
			return nil
		}
		line.Type, line.Payload = it.raw, string(it.data)
		if len(it.data) == 0 {
			line.Payload = string(appendJSON(nil, it.text))
		}
	}
	return field("intermediate_data", line)
}

// ask tells of a prompt. A route that has no words for it shows its text and
// ends; the next message of the conversation answers it.
func (s *answerStream) ask(p *openPrompt) (stop bool, err error) {
	if !s.rt.interactive {
		text := promptText(&p.Prompt)
		if s.run.text.Len() > 0 {
			text = "\n\n" + text
		}
		s.run.text.WriteString(text)
		if s.rt.chat {
			return true, s.write(s.chunk(text, false))
		}
		return true, s.write(data(value{text}))
	}
	e := s.rt.d.promptEvent(p)
	return false, s.write(wire.AppendSSE(nil, e.Type, "", appendJSON(nil, e)))
}

// problem tells of an error in the form that the route's clients look for.
func (s *answerStream) problem(e errorContent) error {
	switch {
	case s.rt.openAI:
		return s.last(data(map[string]any{"error": map[string]any{"message": e.Message, "type": "server_error", "code": e.Code}}))
	case s.rt.interactive:
		return s.last(wire.AppendSSE(nil, "error", "", appendJSON(nil, e)))
	}
	return s.last(append(appendJSON(nil, e), '\n', '\n'))
}

func (s *answerStream) chunk(text string, last bool) []byte {
	c := completion{
		ID: s.run.id(), Object: chunkObject, Created: s.run.createdAt.Unix(), Model: s.run.model,
		Choices: []choice{{Delta: &delta{Role: "assistant", Content: &text}}},
	}
	if last {
		c.Choices[0].FinishReason = stop
	}
	return data(c)
}

// data is one event of the usual kind, field one of the protocol's own.
func data(v any) []byte { return field("data", v) }

func field(name string, v any) []byte {
	b := append([]byte(name), ": "...)
	return append(appendJSON(b, v), '\n', '\n')
}

const chunkObject = "chat.completion.chunk"

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
