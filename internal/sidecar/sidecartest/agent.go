// Package sidecartest is an agent like those of x1, for tests. It keeps its last events in memory, repeats them to every
// reader of its stream, and echoes injected messages. All methods may be called at the same time.
package sidecartest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Agent is an agent process.
type Agent struct {
	addr string // of stream and channel

	mu         sync.Mutex
	opt        Options
	srv        *http.Server
	ended      chan struct{} // closed when the server has ended
	events     []json.RawMessage
	first      int // the number of events[0]
	received   []map[string]any
	keepalives int
	stops      int
	refuse     int           // so many injects will fail
	changed    chan struct{} // closed and replaced when something happens
	cut        chan struct{} // closed to end all streams
}

// Options of an agent; the zero value is like x1's own agent.
type Options struct {
	Memory int  // how many events it repeats; 0 means 1000
	IDs    bool // events have ids, and Last-Event-ID is used
	Chunk  int  // the stream is written in pieces of so many bytes; 0 means whole events
}

// Start starts an agent on a free port.
func Start(opt Options) (*Agent, error) {
	opt.Memory = cmp.Or(opt.Memory, 1000)
	a := &Agent{opt: opt, changed: make(chan struct{}), cut: make(chan struct{}), addr: "127.0.0.1:0"}
	return a, a.Boot()
}

// URL is where it listens.
func (a *Agent) URL() string { return "http://" + a.addr }

// Boot starts the process again, with nothing in its memory.
func (a *Agent) Boot() error {
	l, err := net.Listen("tcp", a.addr)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.addr = l.Addr().String()
	a.events, a.first, a.cut, a.ended = nil, 0, make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /stream", a.stream)
	mux.HandleFunc("POST /inject", a.inject)
	mux.HandleFunc("POST /keepalive", func(http.ResponseWriter, *http.Request) { a.note(func() { a.keepalives++ }) })
	mux.HandleFunc("POST /stop", func(http.ResponseWriter, *http.Request) { a.note(func() { a.stops++ }) })
	srv, ended := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}, a.ended
	a.srv = srv
	go func() {
		_ = srv.Serve(l) // until it is closed
		close(ended)
	}()
	return nil
}

// Kill ends the process.
func (a *Agent) Kill() {
	a.mu.Lock()
	srv, ended := a.srv, a.ended
	close(a.cut)
	a.cut = make(chan struct{})
	a.mu.Unlock()
	_ = srv.Close()
	<-ended
}

// Cut ends the streams; the process goes on.
func (a *Agent) Cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.cut)
	a.cut = make(chan struct{})
}

// Say adds an event to the stream.
func (a *Agent) Say(typ string, payload any) {
	b, err := json.Marshal(map[string]any{"type": typ, "payload": payload})
	if err != nil {
		panic(err) // the test is wrong
	}
	a.note(func() { a.addLocked(b) })
}

// Refuse lets so many injects fail.
func (a *Agent) Refuse(n int) { a.note(func() { a.refuse = n }) }

func (a *Agent) addLocked(b json.RawMessage) {
	a.events = append(a.events, b)
	if len(a.events) > a.opt.Memory {
		a.events = a.events[1:]
		a.first++
	}
}

// note changes the agent and wakes all waiting goroutines.
func (a *Agent) note(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
	close(a.changed)
	a.changed = make(chan struct{})
}

// Received returns the injected messages so far, and a channel that is closed at the next change.
func (a *Agent) Received() ([]map[string]any, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]map[string]any(nil), a.received...), a.changed
}

// Signals returns how often it received /keepalive and /stop.
func (a *Agent) Signals() (keepalives, stops int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.keepalives, a.stops
}

func (a *Agent) inject(w http.ResponseWriter, r *http.Request) {
	var in map[string]any
	if json.NewDecoder(r.Body).Decode(&in) != nil || in["text"] == nil {
		http.Error(w, "text required", http.StatusBadRequest)
		return
	}
	a.note(func() {
		if a.refuse > 0 {
			a.refuse--
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		a.received = append(a.received, in)
		echo := map[string]any{"type": "user.message", "payload": map[string]any{"text": in["text"]}}
		if id := in["request_id"]; id != nil && in["is_synthetic"] == nil {
			echo = map[string]any{"type": "user.input_response", "payload": map[string]any{"text": in["text"], "request_id": id}}
		}
		if b, err := json.Marshal(echo); err == nil {
			a.addLocked(b)
		}
	})
}

func (a *Agent) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	flusher := w.(http.Flusher) // headers go out with the first event, as in x1's agent
	a.mu.Lock()
	cut := a.cut
	a.mu.Unlock()
	next := 0
	if n, err := strconv.Atoi(r.Header.Get("Last-Event-ID")); err == nil && a.opt.IDs {
		next = n + 1
	}
	for {
		a.mu.Lock()
		changed := a.changed
		var out []byte
		for next = max(next, a.first); next-a.first < len(a.events); next++ {
			if a.opt.IDs {
				out = fmt.Appendf(out, "id: %d\n", next)
			}
			out = fmt.Appendf(out, "data: %s\n\n", a.events[next-a.first])
		}
		a.mu.Unlock()
		for size := len(out); len(out) > 0; {
			if a.opt.Chunk > 0 {
				size = min(a.opt.Chunk, len(out))
			}
			if _, err := w.Write(out[:size]); err != nil {
				return
			}
			flusher.Flush()
			out = out[size:]
		}
		select {
		case <-changed:
		case <-cut:
			return
		case <-r.Context().Done():
			return
		}
	}
}
