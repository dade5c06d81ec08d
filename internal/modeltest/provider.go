package modeltest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// The protocols.
const (
	Chat      = "openai"
	Responses = "responses"
	Anthropic = "anthropic"
	Gemini    = "gemini"
)

// Protocols lists them.
var Protocols = []string{Chat, Responses, Anthropic, Gemini}

// Request is a request, in one form for all protocols.
type Request struct {
	Protocol string
	Model    string
	Key      string
	System   string
	Messages []Message
	Tools    []string
	Number   int // of the request, from 1
	Body     []byte
}

// Message is one message of a conversation.
type Message struct {
	Role    string // user, assistant, tool
	Text    string
	Calls   []Call
	Results []Result
}

// Call is a tool call.
type Call struct {
	ID   string
	Name string
	Args string // JSON, or a text that is not valid JSON
}

// Result is the result of a tool call.
type Result struct {
	ID   string
	Text string
}

// LastUser is the text of the last user message.
func (r *Request) LastUser() string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == "user" && r.Messages[i].Text != "" {
			return r.Messages[i].Text
		}
	}
	return ""
}

// Results lists the tool results after the last user message.
func (r *Request) Results() []Result {
	var out []Result
	for i := len(r.Messages) - 1; i >= 0; i-- {
		m := &r.Messages[i]
		if m.Role == "user" && m.Text != "" && len(m.Results) == 0 {
			break
		}
		out = append(append([]Result(nil), m.Results...), out...)
	}
	return out
}

// Reply is the answer of the model.
type Reply struct {
	Thinking string
	Text     string
	Pieces   []string // of the text; nil means its words
	Calls    []Call
	Stop     string // length or filter; "" means that the answer is complete
	Input    int    // tokens
	Output   int

	Pause time.Duration // before each piece
	Wait  func()        // called before the first piece

	// Faults.
	Status  int               // answer with this status instead
	Error   string            // its message
	Code    string            // its code
	Header  map[string]string // of that answer
	CutAt   int               // end the connection after so many pieces; 0 means never
	EndAt   int               // end the stream in order after so many pieces, without the event that ends the answer; 0 means never
	HangAt  int               // send nothing more after so many pieces; 0 means never
	Hang    bool              // send nothing at all
	Hung    func()            // called when HangAt or Hang has begun
	Garbage string            // send this as the data of an event
}

// Script returns the answer to a request.
type Script func(r Request) Reply

// Server is a model. Script must be set.
type Server struct {
	Script Script

	mu       sync.Mutex
	requests []Request
}

// Requests returns all requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// ServeHTTP answers a request of any of the protocols.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/models") {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"object":"list","data":[{"id":"scripted","object":"model"}],"models":[{"name":"models/scripted"}]}`)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var q Request
	var writer answerWriter
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/chat/completions"):
		q, err = readChat(body)
		writer = &chatWriter{}
	case strings.HasSuffix(path, "/responses"):
		q, err = readResponses(body)
		writer = &responsesWriter{}
	case strings.HasSuffix(path, "/messages"):
		q, err = readAnthropic(body)
		writer = &anthropicWriter{}
	case strings.HasSuffix(path, ":streamGenerateContent"):
		q, err = readGemini(body)
		q.Model = strings.TrimSuffix(path[strings.LastIndexByte(path, '/')+1:], ":streamGenerateContent")
		writer = &geminiWriter{}
	default:
		http.NotFound(w, r)
		return
	}
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid_request_error", err.Error(), nil)
		return
	}
	q.Body = body
	q.Key = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	for _, name := range []string{"X-Api-Key", "X-Goog-Api-Key"} {
		if k := r.Header.Get(name); k != "" {
			q.Key = k
		}
	}
	s.mu.Lock()
	q.Number = len(s.requests) + 1
	s.requests = append(s.requests, q)
	s.mu.Unlock()
	s.answer(w, r, writer, q)
}

func fail(w http.ResponseWriter, status int, code, message string, header map[string]string) {
	for k, v := range header {
		w.Header().Set(k, v)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	b, _ := json.Marshal(map[string]any{"type": "error", "error": map[string]any{"type": code, "code": code, "message": message, "status": code}})
	_, _ = w.Write(b) // the client may have left
}

// answerWriter writes an answer as the events of one protocol.
type answerWriter interface {
	begin(e *events, q *Request, r *Reply)
	think(e *events, text string)
	say(e *events, text string)
	end(e *events, r *Reply)
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, writer answerWriter, q Request) {
	reply := s.Script(q)
	if reply.Wait != nil {
		reply.Wait()
	}
	if reply.Hang {
		reply.hang(r)
		return
	}
	if reply.Status != 0 {
		fail(w, reply.Status, reply.Code, reply.Error, reply.Header)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	e := &events{w: w, flush: http.NewResponseController(w)}
	pieces := reply.Pieces
	if pieces == nil {
		pieces = words(reply.Text)
	}
	writer.begin(e, &q, &reply)
	if reply.Thinking != "" {
		for _, p := range words(reply.Thinking) {
			writer.think(e, p)
		}
	}
	for i, p := range pieces {
		switch {
		case reply.CutAt > 0 && i == reply.CutAt:
			panic(http.ErrAbortHandler)
		case reply.EndAt > 0 && i == reply.EndAt:
			return
		case reply.HangAt > 0 && i == reply.HangAt:
			reply.hang(r)
			return
		}
		if reply.Pause > 0 {
			t := time.NewTimer(reply.Pause)
			select {
			case <-t.C:
			case <-r.Context().Done():
				t.Stop()
				return
			}
		}
		writer.say(e, p)
	}
	if reply.Garbage != "" {
		e.raw("", reply.Garbage)
		return
	}
	writer.end(e, &reply)
}

func (r *Reply) hang(q *http.Request) {
	if r.Hung != nil {
		r.Hung()
	}
	<-q.Context().Done()
}

// words splits a text so that the pieces joined are the text.
func words(s string) []string {
	var out []string
	for s != "" {
		i := strings.IndexByte(s[1:], ' ')
		if i < 0 {
			return append(out, s)
		}
		out, s = append(out, s[:i+1]), s[i+1:]
	}
	return out
}

// events writes server-sent events.
type events struct {
	w     io.Writer
	flush *http.ResponseController
}

func (e *events) send(name string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // impossible: the values are of this package
	}
	e.raw(name, string(b))
}

func (e *events) raw(name, data string) {
	if name != "" {
		_, _ = io.WriteString(e.w, "event: "+name+"\n") // the client may have left
	}
	_, _ = io.WriteString(e.w, "data: "+data+"\n\n")
	_ = e.flush.Flush()
}

type object = map[string]any
