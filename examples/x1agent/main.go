// Command x1agent is an agent as x1 has them, small enough to read: it knows
// nothing of Parley and speaks only HTTP with the sidecar at its side.
//
//	go run ./examples/x1agent
//	parley sidecar my-session
//
// It says what it has to say on GET /stream, repeats its last 1000 events to every
// new reader, is told things by POST /inject, and posts to its sidecar that it has
// started and what it is doing.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"sync"
	"time"
)

const memory = 1000

// agent keeps what it said.
type agent struct {
	sidecar string

	mu    sync.Mutex
	said  [][]byte
	first int           // the number of said[0]
	news  chan struct{} // closed and replaced when something is said
}

func main() {
	stream := flag.String("stream", "127.0.0.1:3100", "where its stream is read")
	channel := flag.String("channel", "127.0.0.1:8788", "where it is told things")
	sidecar := flag.String("sidecar", os.Getenv("SIDECAR_URL"), "address of its sidecar; http://127.0.0.1:9090 when it is not given")
	flag.Parse()
	if *sidecar == "" {
		*sidecar = "http://127.0.0.1:9090"
	}
	a := &agent{sidecar: *sidecar, news: make(chan struct{})}
	out := http.NewServeMux()
	out.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	out.HandleFunc("GET /stream", a.stream)
	in := http.NewServeMux()
	in.HandleFunc("POST /inject", a.inject)
	for _, quiet := range []string{"keepalive", "stop", "shutdown"} {
		in.HandleFunc("POST /"+quiet, func(http.ResponseWriter, *http.Request) { log.Print(quiet) })
	}
	// It may have to say this several times; the key tells that it is one start.
	go a.post("/event", map[string]any{"type": "session.started", "payload": map[string]any{"agent_id": "example"}, "client_id": rand.Text()})
	go func() { log.Fatal(http.ListenAndServe(*channel, in)) }()
	log.Fatal(http.ListenAndServe(*stream, out))
}

// say adds an event to the stream.
func (a *agent) say(typ string, payload any) {
	b, err := json.Marshal(map[string]any{"type": typ, "payload": payload})
	if err != nil {
		log.Print(err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.said = append(a.said, b); len(a.said) > memory {
		a.said = a.said[1:]
		a.first++
	}
	close(a.news)
	a.news = make(chan struct{})
}

// stream sends everything that is remembered, and then what is new.
func (a *agent) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for next := 0; ; {
		a.mu.Lock()
		next = max(next, a.first)
		list, news := a.said[next-a.first:], a.news
		a.mu.Unlock()
		for _, b := range list {
			if _, err := fmt.Fprintf(w, "data: %s\n\n", b); err != nil {
				return
			}
			next++
		}
		_ = http.NewResponseController(w).Flush() // the next write tells
		select {
		case <-news:
		case <-r.Context().Done():
			return
		}
	}
}

// inject answers what a person said. The echo comes first, as in x1's agents.
func (a *agent) inject(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Text      string `json:"text"`
		RequestID string `json:"request_id"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Text == "" {
		http.Error(w, "text is needed", http.StatusBadRequest)
		return
	}
	if in.RequestID != "" {
		a.say("user.input_response", in)
	} else {
		a.say("user.message", map[string]any{"text": in.Text})
	}
	go func() {
		a.post("/status", map[string]any{"message": "thinking"})
		a.say("agent.text", map[string]any{"text": "I heard: " + in.Text})
	}()
}

// post tells the sidecar something, which may not be there yet.
func (a *agent) post(path string, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		log.Print(err)
		return
	}
	for range 120 {
		if res, err := http.Post(a.sidecar+path, "application/json", bytes.NewReader(b)); err == nil {
			res.Body.Close()
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	log.Printf("the sidecar at %s does not answer", a.sidecar)
}
