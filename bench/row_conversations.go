package main

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parley-hq/parley/internal/load"
)

// conversations has a model agent that answers in n sessions at the same time, with one reader each. The delay is that
// between the model and the reader. The other side reads from the model directly, which is the least that the machine allows
// with model and readers in this process.
func conversations(e *env) ([]*result, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(1000)) // its collections would count as delay of the server
	n := e.shrink(1000)
	m := &pacedModel{}
	endpoint, stop, err := serveModel(m)
	if err != nil {
		return nil, err
	}
	defer stop()
	p, err := startModelAgent(e, "conversations", endpoint)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	model := load.Target{Host: strings.TrimSuffix(strings.TrimPrefix(endpoint, "http://"), "/v1")}
	r := &result{
		what: fmt.Sprintf("%d conversations x 20 tokens/s through a model agent", n),
		more: func(s *side) string {
			if s.value(memory) == 0 {
				return ""
			}
			return "peak " + memory.show(s.value(memory))
		},
		checks: []check{{p50, bound{50, ""}, bound{10, ""}}, {p99, bound{150, ""}, bound{50, ""}}, {memory, bound{250, ""}, bound{150, ""}}},
		sides: []*side{
			{name: "Parley SSE", ours: true, run: func(i int) (t trial, err error) {
				ids := make([]string, n)
				for s := range ids {
					ids[s] = fmt.Sprintf("conversation-%d-%d", i, s)
				}
				if err := p.resetPeak(); err != nil {
					return t, err
				}
				_, err = p.measure(e, fmt.Sprintf("conversations-%d", i), func() (load.Result, error) {
					t, err = m.trial(e, p, n, func(r *load.Readers) error {
						return errors.Join(startConversations(p.target, ids), r.Watch(p.target, load.SSE{}, ids))
					})
					return load.Result{}, err
				})
				return t, errors.Join(err, p.waitIdle(e))
			}},
			{name: "the model directly", run: func(int) (trial, error) {
				return m.trial(e, nil, n, func(r *load.Readers) error { return r.Watch(model, askModel{}, make([]string, n)) })
			}},
		},
	}
	return []*result{r}, alternate(e, e.trials, r.sides...)
}

// startConversations creates sessions with the model agent and sends a message to each.
func startConversations(t load.Target, ids []string) error {
	c, err := load.Dial(t, load.HTTP{})
	if err != nil {
		return err
	}
	defer c.Close()
	for _, id := range ids {
		if _, err := c.Do("POST", "/parley/v1/sessions", "", fmt.Appendf(nil, `{"id":%q,"agent":"m"}`, id)); err != nil {
			return err
		}
		if _, err := c.Do("POST", "/parley/v1/sessions/"+id+"/events", "", []byte(`{"type":"user.message","payload":{"text":"go"}}`)); err != nil {
			return err
		}
	}
	return nil
}

// askModel reads the answer of the model without Parley.
type askModel struct{ load.SSE }

func (askModel) Subscribe(t load.Target, _ string) load.Subscription {
	body := []byte(`{"model":"scripted","stream":true,"messages":[{"role":"user","content":"go"}]}`)
	return load.Subscription{Request: t.Request("POST", "/v1/chat/completions", "", body), Answers: 1}
}

// pacedModel is a model with OpenAI's protocol whose answers all begin and end together.
type pacedModel struct {
	now     atomic.Pointer[answers] // of the trial
	started atomic.Int64
}

// trial opens conversations, waits until the model answers in all of them, and measures.
func (m *pacedModel) trial(e *env, p *process, n int, open func(r *load.Readers) error) (t trial, err error) {
	w := newAnswers()
	m.now.Store(w)
	m.started.Store(0)
	defer close(w.finish)
	readers, err := load.NewReaders()
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, readers.Close()) }() // before finish is closed
	if err := open(readers); err != nil {
		return t, err
	}
	for end := time.Now().Add(30 * time.Second); m.started.Load() < int64(n); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return t, fmt.Errorf("the model was asked in %d of %d conversations", m.started.Load(), n)
		}
	}
	var used time.Duration
	if p != nil {
		used = p.cpu()
	}
	res, err := w.run(e.ctx, readers, e.span)
	t.rate, t.latency = res.PerSecond, res.Latency
	if p == nil || err != nil {
		return t, err
	}
	t.cost = float64((p.cpu() - used).Microseconds()) / float64(max(res.Count, 1))
	t.memory, err = p.memory("VmHWM")
	return t, err
}

func (m *pacedModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/chat/completions" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	chunk := func(delta, finish string) error {
		_, err := fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","model":"scripted","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", delta, finish)
		return errors.Join(err, out.Flush())
	}
	if chunk(`{"role":"assistant","content":""}`, "null") != nil {
		return
	}
	err := m.now.Load().write(r.Context(), func() { m.started.Add(1) }, func(text string) error { return chunk(`{"content":"`+text+`"}`, "null") })
	if err == nil && chunk("{}", `"stop"`) == nil {
		_, _ = fmt.Fprint(w, "data: [DONE]\n\n") // the caller may have gone
	}
}
