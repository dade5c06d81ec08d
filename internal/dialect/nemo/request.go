package nemo

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// chatRequest is OpenAI's chat request. Other fields are ignored.
type chatRequest struct {
	Messages []message `json:"messages"`
	Model    string    `json:"model"`
	Stream   bool      `json:"stream"`
	Options  struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// httpMessage is the message of an HTTP request.
type httpMessage struct {
	decodedMessage
	conversation string // "" means a new one that ends with the request
	model        string
	stream       bool
	usage        bool // the stream ends with a chunk that has the token counts
}

// readChat reads the body of a chat request.
func (d *Dialect) readChat(r *http.Request) (*httpMessage, error) {
	var req chatRequest
	if err := d.http.Read(r, &req); err != nil {
		return nil, err
	}
	a := newHTTPMessage(r, schemaChatStream)
	a.model, a.stream, a.usage = req.Model, req.Stream, req.Options.Usage
	return a, a.take(req.Messages, false)
}

// inputs are the usual names of a workflow's text field.
var inputs = []string{"input_message", "input", "query", "question", "message", "text", "prompt"}

// readInput reads the body of a generate request, whose fields are the workflow's own. The message is the text of one of
// the usual fields, else of the only text field, else the whole body.
func (d *Dialect) readInput(r *http.Request) (*httpMessage, map[string]json.RawMessage, error) {
	b, err := d.http.Body(r)
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
	// The whole body may be stored as the message; a security block must not be.
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

// newHTTPMessage reads the headers of a request.
func newHTTPMessage(r *http.Request, schema string) *httpMessage {
	a := &httpMessage{conversation: strings.TrimSpace(r.Header.Get("Conversation-Id"))}
	a.ID, a.Schema = cmp.Or(r.Header.Get("User-Message-Id"), placeholder), schema
	if a.conversation == placeholder {
		a.conversation = ""
	}
	if tp := r.Header.Get("Traceparent"); traceID(tp) != "" {
		a.Trace = tp
	}
	return a
}

// traceID returns the trace id in a traceparent header, "" when it has none.
func traceID(traceparent string) string {
	p := strings.Split(traceparent, "-")
	if len(p) < 4 || len(p[0]) != 2 || len(p[1]) != 32 || len(p[2]) != 16 || strings.Trim(p[1], "0") == "" || strings.Trim(p[1], "0123456789abcdef") != "" {
		return ""
	}
	return p[1]
}
