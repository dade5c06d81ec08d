package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/parley-hq/parley/internal/load"
	"github.com/parley-hq/parley/internal/modeltest"
)

// modelAgent compares the model agent with a caller that asks the model directly and decodes each event with encoding/json.
// The model is a script in this process. Both read its answers over HTTP, one turn at a time.
func modelAgent(e *env) ([]*result, error) {
	// The model and the callers are in this process. Its garbage collections would count as time of the server.
	defer debug.SetGCPercent(debug.SetGCPercent(1000))
	turns, words := 300, 20000
	if e.short {
		turns, words = 30, 5000
	}
	long := make([]string, words)
	for i := range long {
		long[i] = "token "
	}
	script := &modeltest.Server{Script: func(r modeltest.Request) modeltest.Reply {
		if strings.HasPrefix(r.LastUser(), "long") {
			return modeltest.Reply{Pieces: long}
		}
		return modeltest.Reply{Pieces: []string{"One", " two", " three."}}
	}}
	endpoint, stop, err := serveModel(script)
	if err != nil {
		return nil, err
	}
	defer stop()
	p, err := startModelAgent(e, "model", endpoint)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	m := &asker{endpoint: endpoint, parley: "http://" + p.target.Host}
	caller, agent := &side{name: "a caller without a library"}, &side{name: "Parley", ours: true}
	caller.run = func(int) (t trial, err error) {
		return t, m.times(turns, &t.latency, func(int) (time.Duration, error) { d, _, err := m.plain(e.ctx, "short"); return d, err })
	}
	agent.run = func(i int) (t trial, err error) {
		err = m.times(turns, &t.latency, func(n int) (time.Duration, error) {
			d, _, err := m.through(e.ctx, fmt.Sprintf("short-%d-%d", i, n), "short")
			return d, err
		})
		t.took = t.latency.Quantile(.99) - caller.trials[i].latency.Quantile(.99)
		return t, err
	}
	more := took
	more.name = "p99 more than the caller"
	first := &result{what: "model agent: first token", sides: []*side{agent, caller}, checks: []check{{more, bound{.003, ""}, bound{.002, ""}}}}
	if err := alternate(e, e.trials, caller, agent); err != nil {
		return nil, err
	}
	answer := func(name string, ask func(i int) (first, all time.Duration, err error)) *side {
		return &side{name: name, ours: name == "Parley", run: func(i int) (trial, error) {
			_, all, err := ask(i)
			return trial{rate: float64(words) / all.Seconds()}, err
		}}
	}
	whole := &result{what: "model agent: tokens of one answer, as fast as the model can", checks: []check{{rate, bound{.9, caller.name}, bound{.95, caller.name}}}, sides: []*side{
		answer("Parley", func(i int) (time.Duration, time.Duration, error) {
			return m.through(e.ctx, fmt.Sprint("long-", i), "long")
		}),
		answer(caller.name, func(int) (time.Duration, time.Duration, error) { return m.plain(e.ctx, "long") }),
	}}
	return []*result{first, whole}, alternate(e, max(3, e.trials), whole.sides...)
}

// serveModel serves a model in this process and returns its endpoint.
func serveModel(h http.Handler) (endpoint string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(l) }() // ends with Close
	return "http://" + l.Addr().String() + "/v1", func() { server.Close() }, nil
}

// startModelAgent starts Parley with a model agent as its only agent.
func startModelAgent(e *env, name, endpoint string) (*process, error) {
	config := filepath.Join(e.temp, name+".yaml")
	text := "agents:\n  - {name: m, kind: model, endpoint: \"" + endpoint + "\", model: scripted, builtin: []}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return startServer(e, filepath.Join(e.temp, name), "--config", config, "--nats", "off")
}

// asker sends requests to the model, directly and through Parley.
type asker struct{ endpoint, parley string }

// times asks n times one after the other, and before some times without counting, so that connections and caches are warm.
func (a *asker) times(n int, h *load.Histogram, ask func(i int) (first time.Duration, err error)) error {
	for i := range n + 20 {
		d, err := ask(i)
		if err != nil {
			return err
		}
		if i >= 20 {
			h.Add(d)
		}
	}
	return nil
}

// plain is a caller without a library: it reads line by line and decodes each event.
func (a *asker) plain(ctx context.Context, text string) (first, all time.Duration, err error) {
	return a.lines(ctx, text, func(line []byte) (said bool, err error) {
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok || bytes.HasPrefix(data, []byte("[DONE]")) {
			return false, nil
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content string `json:"content"`
				} `json:"delta"`
			} `json:"choices"`
		}
		err = json.Unmarshal(data, &chunk)
		return len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "", err
	})
}

// lines reads a stream line by line.
func (a *asker) lines(ctx context.Context, text string, see func(line []byte) (said bool, err error)) (first, all time.Duration, err error) {
	begun := time.Now()
	res, err := a.send(ctx, http.MethodPost, a.endpoint+"/chat/completions", `{"model":"scripted","stream":true,"messages":[{"role":"user","content":"`+text+`"}]}`)
	if err != nil {
		return 0, 0, err
	}
	defer done(res)
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		said, err := see(lines.Bytes())
		if err != nil {
			return 0, 0, err
		}
		if said && first == 0 {
			first = time.Since(begun)
		}
	}
	return first, time.Since(begun), lines.Err()
}

// through sends a message to a new session and reads the answer from the session's stream.
func (a *asker) through(ctx context.Context, id, text string) (first, all time.Duration, err error) {
	res, err := a.send(ctx, http.MethodPost, a.parley+"/parley/v1/sessions", `{"id":"`+id+`"}`)
	if err != nil {
		return 0, 0, err
	}
	done(res)
	watch, err := a.send(ctx, http.MethodGet, a.parley+"/parley/v1/sessions/"+id+"/stream?after=0", "")
	if err != nil {
		return 0, 0, err
	}
	defer watch.Body.Close()
	// Open a connection for the message; the stream uses the one before.
	if res, err = a.send(ctx, http.MethodGet, a.parley+"/parley/v1/sessions/"+id, ""); err != nil {
		return 0, 0, err
	}
	done(res)
	begun := time.Now()
	sent := make(chan error, 1)
	go func() {
		res, err := a.send(ctx, http.MethodPost, a.parley+"/parley/v1/sessions/"+id+"/events", `{"type":"user.message","payload":{"text":"`+text+`"}}`)
		if err == nil {
			done(res)
		}
		sent <- err
	}()
	first, err = a.follow(watch.Body, begun, []byte("event: preview"), []byte(`"type":"turn.completed"`))
	all = time.Since(begun)
	if serr := <-sent; err == nil {
		err = serr
	}
	return first, all, err
}

// done reads the rest of an answer, so that its connection can be used again.
func done(res *http.Response) {
	_, _ = io.Copy(io.Discard, res.Body) // a broken connection is not used again
	res.Body.Close()
}

func (a *asker) send(ctx context.Context, method, url, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= 300 {
		b, _ := io.ReadAll(io.LimitReader(res.Body, 500))
		res.Body.Close()
		return nil, fmt.Errorf("%s: %s: %s", url, res.Status, b)
	}
	return res, nil
}

// follow reads lines until one contains end. It returns the time until the first line that contains mark.
func (a *asker) follow(r io.Reader, begun time.Time, mark, end []byte) (first time.Duration, err error) {
	lines := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			return first, fmt.Errorf("the stream ended early: %w", err)
		}
		if first == 0 && bytes.Contains(line, mark) {
			first = time.Since(begun)
		}
		if bytes.Contains(line, end) {
			return first, nil
		}
	}
}
