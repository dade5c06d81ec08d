// Command x1agent is a small x1 agent. It does not use Parley directly: it exchanges HTTP requests with its sidecar.
//
//	go run ./examples/x1agent
//	parley sidecar my-session
//
// It publishes its events on GET /stream, repeats its last 1000 events to every new reader, receives messages on
// POST /inject, and posts its start and its status to the sidecar.
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

const kept = 1000 // events that are repeated to new readers

// agent is the agent with its last events.
type agent struct {
	sidecar string

	mu      sync.Mutex
	events  [][]byte
	first   int           // the number of events[0]
	changed chan struct{} // closed and replaced when an event is added
}

func main() {
	stream := flag.String("stream", "127.0.0.1:3100", "address of its stream")
	channel := flag.String("channel", "127.0.0.1:8788", "address for messages to it")
	sidecar := flag.String("sidecar", os.Getenv("SIDECAR_URL"), "address of its sidecar; http://127.0.0.1:9090 when it is not given")
	flag.Parse()
	if *sidecar == "" {
		*sidecar = "http://127.0.0.1:9090"
	}
	a := &agent{sidecar: *sidecar, changed: make(chan struct{})}
	out := http.NewServeMux()
	out.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	out.HandleFunc("GET /stream", a.stream)
	in := http.NewServeMux()
	in.HandleFunc("POST /inject", a.inject)
	for _, name := range []string{"keepalive", "stop", "shutdown"} {
		in.HandleFunc("POST /"+name, func(http.ResponseWriter, *http.Request) { log.Print(name) })
	}
	// The request may be repeated; the key identifies the start.
	go a.post("/event", map[string]any{"type": "session.started", "payload": map[string]any{"agent_id": "example"}, "client_id": rand.Text()})
	go func() { log.Fatal(http.ListenAndServe(*channel, in)) }()
	log.Fatal(http.ListenAndServe(*stream, out))
}

// emit adds an event to the stream.
func (a *agent) emit(typ string, payload any) {
	b, err := json.Marshal(map[string]any{"type": typ, "payload": payload})
	if err != nil {
		log.Print(err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.events = append(a.events, b); len(a.events) > kept {
		a.events = a.events[1:]
		a.first++
	}
	close(a.changed)
	a.changed = make(chan struct{})
}

// stream sends the last events, and then new ones.
func (a *agent) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for next := 0; ; {
		a.mu.Lock()
		next = max(next, a.first)
		list, changed := a.events[next-a.first:], a.changed
		a.mu.Unlock()
		for _, b := range list {
			if _, err := fmt.Fprintf(w, "data: %s\n\n", b); err != nil {
				return
			}
			next++
		}
		_ = http.NewResponseController(w).Flush() // an error is returned by the next write
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// inject answers a message of a person. It first repeats the message on the stream, as x1's agents do.
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
		a.emit("user.input_response", in)
	} else {
		a.emit("user.message", map[string]any{"text": in.Text})
	}
	go func() {
		a.post("/status", map[string]any{"message": "thinking"})
		a.emit("agent.text", map[string]any{"text": "You said: " + in.Text})
	}()
}

// post sends a request to the sidecar, which may not have started yet.
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
