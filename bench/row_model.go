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
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/parley-hq/parley/internal/load"
	"github.com/parley-hq/parley/internal/modeltest"
)

// modelAgent: what the model agent adds to asking a model directly. The model is
// a script in this process, and both sides take what it says over HTTP, one turn
// at a time.
func modelAgent(e *env) (lines []line, err error) {
	// The model and those who ask are this process. Its collections would count as
	// waits of the server, and of the longer way more often.
	defer debug.SetGCPercent(debug.SetGCPercent(1000))
	turns, words := 1000, 20000
	if e.short {
		turns, words = 60, 5000
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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: script}
	go func() { _ = server.Serve(l) }() // ends with Close
	defer server.Close()
	endpoint := "http://" + l.Addr().String() + "/v1"

	config := filepath.Join(e.temp, "model.yaml")
	text := "agents:\n  - {name: m, kind: model, endpoint: \"" + endpoint + "\", model: scripted, builtin: []}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	p, err := start(e, "/readyz", func(addr string) *exec.Cmd {
		return exec.CommandContext(e.ctx, e.binary, "serve", "--addr", addr, "--data", filepath.Join(e.temp, "model"), "--config", config, "--min-free=-1", "--min-free-percent=-1", "--log-level", "warn", "--nats", "off")
	})
	if err != nil {
		return nil, err
	}
	defer p.stop()
	m := &asker{endpoint: endpoint, parley: "http://" + p.target.Host}
	var direct, ours load.Hist
	for i := range turns + 20 {
		d, _, err := m.sdk(e.ctx, "short")
		if err != nil {
			return nil, err
		}
		o, _, err := m.through(e.ctx, fmt.Sprint("short-", i), "short")
		if err != nil {
			return nil, err
		}
		if i >= 20 { // connections and caches are warm
			direct.Add(d)
			ours.Add(o)
		}
	}
	added := ours.Quantile(.99) - direct.Quantile(.99)
	lines = append(lines, line{
		what: "model agent: first token, p99, over asking the model directly",
		ours: fmt.Sprintf("%s (p50 %s)", ms(ours.Quantile(.99)), ms(ours.Quantile(.5))), peer: fmt.Sprintf("%s (p50 %s)", ms(direct.Quantile(.99)), ms(direct.Quantile(.5))), ratio: float64(direct.Quantile(.99)) / float64(ours.Quantile(.99)),
		value: float64(added) / float64(time.Millisecond), need: 3, want: 2, must: "3 ms more", aim: "2 ms more",
	})
	peers := []struct {
		name  string
		ask   func(ctx context.Context, text string) (first, all time.Duration, err error)
		must  string
		need  float64
		rates []float64
	}{
		{name: "a caller with the provider's SDK", ask: m.sdk, must: "0.9 of the caller", need: .9},
		{name: "a caller that decodes each event with encoding/json", ask: m.plain, must: "0.9 of the caller", need: .9},
		{name: "bytes that nobody reads", ask: m.bytes},
	}
	var rates []float64
	for i := range max(3, e.rounds) {
		for j := range peers {
			_, d, err := peers[j].ask(e.ctx, "long")
			if err != nil {
				return lines, err
			}
			peers[j].rates = append(peers[j].rates, float64(words)/d.Seconds())
		}
		_, o, err := m.through(e.ctx, fmt.Sprint("long-", i), "long")
		if err != nil {
			return lines, err
		}
		rates = append(rates, float64(words)/o.Seconds())
	}
	for _, p := range peers {
		rate, peer := median(rates), median(p.rates)
		l := line{
			what: "model agent: tokens a second of one answer, as fast as the model can, against " + p.name,
			ours: fmt.Sprintf("%.0f k/s", rate/1e3), peer: fmt.Sprintf("%.0f k/s", peer/1e3), ratio: rate / peer,
			value: rate / peer, floor: true, must: p.must, need: p.need,
		}
		if p.need > 0 {
			l.want, l.aim = .95, "0.95"
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// asker asks the model, directly and through Parley.
type asker struct{ endpoint, parley string }

// sdk asks the model with the client library that the agent uses, and returns when
// the first token and when the end came.
func (a *asker) sdk(ctx context.Context, text string) (first, all time.Duration, err error) {
	service := openai.NewChatCompletionService(option.WithBaseURL(a.endpoint), option.WithMaxRetries(0))
	begun := time.Now()
	var res *http.Response
	stream := service.NewStreaming(ctx, openai.ChatCompletionNewParams{Model: "scripted", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}, option.WithResponseInto(&res))
	for stream.Next() {
		if c := stream.Current().Choices; first == 0 && len(c) > 0 && c[0].Delta.Content != "" {
			first = time.Since(begun)
		}
	}
	all = time.Since(begun)
	if stream.Err() == nil {
		done(res)
	}
	return first, all, stream.Err()
}

// plain asks as a program does that has no library: line by line, each event as
// JSON.
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

// bytes takes what the model says and looks at nothing: how fast the model is.
func (a *asker) bytes(ctx context.Context, text string) (first, all time.Duration, err error) {
	return a.lines(ctx, text, func([]byte) (bool, error) { return true, nil })
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

// through sends a message in a session of its own, which somebody watches.
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
	// Who talks has a connection; the watch has taken that of the request before.
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

// done reads what is left of an answer, so that its connection is there for the
// next request.
func done(res *http.Response) {
	_, _ = io.Copy(io.Discard, res.Body) // a connection that broke is not used again
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

// follow reads lines until the end and returns when the first one came that has a
// mark.
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
