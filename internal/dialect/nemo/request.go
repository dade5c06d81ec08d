package nemo

import (
	"errors"
	"net/http"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// statuses are the HTTP statuses of errors. What does not validate is 422, as in
// the real server.
var statuses = map[chat.Code]int{
	chat.Invalid: 422, chat.Unauthenticated: 401, chat.Denied: 403, chat.NotFound: 404, chat.Conflict: 409,
	chat.Gone: 410, chat.TooLarge: 413, chat.SlowDown: 429, chat.Unavailable: 503, chat.Internal: 500,
}

func statusOf(err error) int {
	if s, ok := statuses[chat.CodeOf(err)]; ok {
		return s
	}
	return http.StatusInternalServerError
}

// fail answers with an error in the protocol's form. The body also has "detail",
// which is what clients of FastAPI servers look at.
func (d *Dialect) fail(w http.ResponseWriter, r *http.Request, err error) {
	err = wire.Reason(r.Context(), err)
	d.blame(r, err)
	retryAfter(w, err)
	e := errorOf(err)
	sendJSON(w, r, statusOf(err), struct {
		errorContent
		Detail string `json:"detail"`
	}{e, e.Details})
}

// retryAfter says in a header when it may be tried again.
func retryAfter(w http.ResponseWriter, err error) {
	if s := chat.Public(err).RetryAfter(); s != "" {
		w.Header().Set("Retry-After", s)
	}
}

// blame logs what an operator has to look into: not that a client has gone, which
// ends its request, too.
func (d *Dialect) blame(r *http.Request, err error) {
	if chat.CodeOf(err) == chat.Internal && r.Context().Err() == nil {
		d.log.ErrorContext(r.Context(), "request failed", "path", r.URL.Path, "err", err)
	}
}

// failOpenAI answers in the form that OpenAI's clients read.
func (d *Dialect) failOpenAI(w http.ResponseWriter, r *http.Request, err error) {
	err = wire.Reason(r.Context(), err)
	d.blame(r, err)
	retryAfter(w, err)
	status := statusOf(err)
	if status == 422 {
		status = http.StatusBadRequest
	}
	sendJSON(w, r, status, openAIError(err))
}

func openAIError(err error) any {
	e := errorOf(err)
	kind := "invalid_request_error"
	switch chat.CodeOf(err) {
	case chat.Unauthenticated, chat.Denied:
		kind = "authentication_error"
	case chat.SlowDown:
		kind = "rate_limit_error"
	case chat.Unavailable, chat.Internal:
		kind = "server_error"
	}
	return map[string]any{"error": map[string]any{"message": e.Details, "type": kind, "code": e.Code, "param": nil}}
}

func sendJSON(w http.ResponseWriter, r *http.Request, status int, v any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	_ = wire.WriteBody(w, r, status, appendJSON(nil, v)) // the client has gone if this fails
}

func health(w http.ResponseWriter, r *http.Request) {
	sendJSON(w, r, http.StatusOK, map[string]string{"status": "healthy"})
}

// body reads a JSON body.
func (d *Dialect) body(r *http.Request) ([]byte, error) {
	b, err := wire.ReadBody(r, d.opt.MaxBody)
	switch {
	case errors.Is(err, wire.ErrTooLarge):
		return nil, chat.Errorf(chat.TooLarge, "a body has at most %d bytes here", d.opt.MaxBody)
	case err != nil:
		return nil, chat.Errorf(chat.Invalid, "the body could not be read").Because(err)
	}
	if err := wire.CheckJSON(b, 0); err != nil {
		return nil, chat.Errorf(chat.Invalid, "the body cannot be read: %v", err)
	}
	return b, nil
}

// chatRequest is OpenAI's chat request. Other fields are passed over.
type chatRequest struct {
	Messages []message     `json:"messages"`
	Model    string        `json:"model"`
	Stream   bool          `json:"stream"`
	User     string        `json:"user"`
	Options  streamOptions `json:"stream_options"`
}

type streamOptions struct {
	Usage bool `json:"include_usage"`
}

// httpMessage is what an HTTP request says, and to which conversation.
type httpMessage struct {
	decodedMessage
	conversation string // "" means one of its own, that ends with the request
	model        string
	stream       bool
	usage        bool // the stream ends with a chunk that counts tokens
}

// readChat reads a request of the chat kind.
func (d *Dialect) readChat(r *http.Request) (*httpMessage, error) {
	b, err := d.body(r)
	if err != nil {
		return nil, err
	}
	var req chatRequest
	if err := json.Unmarshal(b, &req); err != nil {
		return nil, refuse(codeMessage, "the body does not fit: %s", chat.JSONProblem(err))
	}
	a := newHTTPMessage(r, schemaChatStream)
	a.model, a.stream, a.usage = req.Model, req.Stream, req.Options.Usage
	return a, a.take(req.Messages, false)
}

// inputs are the fields in which workflows take a text.
var inputs = []string{"input_message", "input", "query", "question", "message", "text", "prompt"}

// readInput reads a request of the generate kind, whose body is the workflow's
// own: the text is looked for in the usual fields, else the only text there is,
// else the whole body is it.
func (d *Dialect) readInput(r *http.Request) (*httpMessage, map[string]json.RawMessage, error) {
	b, err := d.body(r)
	if err != nil {
		return nil, nil, err
	}
	a := newHTTPMessage(r, schemaGenerateStream)
	var text string
	if json.Unmarshal(b, &text) == nil && len(b) > 0 {
		return a, nil, a.setText(text)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil || fields == nil {
		return nil, nil, refuse(codeMessage, "the body must be a JSON object such as {\"input_message\":\"…\"}")
	}
	// Such a body has no place for it, but who fills one in must not find it stored.
	for name := range fields {
		if strings.EqualFold(name, "security") {
			delete(fields, name)
			b = appendJSON(nil, fields)
		}
	}
	if raw, ok := fields["messages"]; ok {
		var list []message
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, nil, refuse(codeMessage, "messages do not fit: %s", chat.JSONProblem(err))
		}
		return a, fields, a.take(list, true)
	}
	for _, name := range inputs {
		if raw, ok := fields[name]; ok && json.Unmarshal(raw, &text) == nil {
			return a, fields, a.setText(text)
		}
	}
	texts := 0
	for name, raw := range fields {
		var s string
		if !jobFields[name] && json.Unmarshal(raw, &s) == nil {
			text = s
			texts++
		}
	}
	if texts == 1 {
		return a, fields, a.setText(text)
	}
	return a, fields, a.setText(string(b))
}

func (a *httpMessage) setText(text string) error {
	if strings.TrimSpace(text) == "" || text == "{}" {
		return refuse(codeContent, "there is no text in the request: send {\"input_message\":\"…\"}")
	}
	return a.take([]message{{Role: "user", Content: parts{{Type: "text", Text: text}}}}, true)
}

// newHTTPMessage reads the headers that mean something here.
func newHTTPMessage(r *http.Request, schema string) *httpMessage {
	a := &httpMessage{conversation: strings.TrimSpace(r.Header.Get("Conversation-Id"))}
	a.ID, a.Schema = first(r.Header.Get("User-Message-Id"), placeholder), schema
	if a.conversation == placeholder {
		a.conversation = ""
	}
	if tp := r.Header.Get("Traceparent"); traceID(tp) != "" {
		a.Trace = tp
	}
	return a
}

// traceID is the trace id in a traceparent header, "" when it is none.
func traceID(traceparent string) string {
	p := strings.Split(traceparent, "-")
	if len(p) < 4 || len(p[0]) != 2 || len(p[1]) != 32 || len(p[2]) != 16 || strings.Trim(p[1], "0") == "" || strings.Trim(p[1], "0123456789abcdef") != "" {
		return ""
	}
	return p[1]
}
