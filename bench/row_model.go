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

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/parley-hq/parley/internal/load"
	"github.com/parley-hq/parley/internal/modeltest"
)

// modelAgent compares the model agent with direct requests to the model. The model is a script in this process. Both sides
// read its answers over HTTP, one turn at a time.
func modelAgent(e *env) (lines []line, err error) {
	// The model and the callers are in this process. Its garbage collections would count as time of the server.
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
	p, err := startServer(e, filepath.Join(e.temp, "model"), "--config", config, "--nats", "off")
	if err != nil {
		return nil, err
	}
	defer p.stop()
	m := &asker{endpoint: endpoint, parley: "http://" + p.target.Host}
	var direct, ours load.Histogram
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
	longAnswer := func(name string, ask func(i int) (first, all time.Duration, err error)) *side {
		return &side{name: name, run: func(i int) (trial, error) {
			_, all, err := ask(i)
			return trial{rate: float64(words) / all.Seconds()}, err
		}}
	}
	peers := []*side{
		longAnswer("a caller with the provider's SDK", func(int) (time.Duration, time.Duration, error) { return m.sdk(e.ctx, "long") }),
		longAnswer("a caller that decodes each event with encoding/json", func(int) (time.Duration, time.Duration, error) { return m.plain(e.ctx, "long") }),
		longAnswer("bytes that are discarded", func(int) (time.Duration, time.Duration, error) { return m.bytes(e.ctx, "long") }),
	}
	agent := longAnswer("the model agent", func(i int) (time.Duration, time.Duration, error) {
		return m.through(e.ctx, fmt.Sprint("long-", i), "long")
	})
	if err := alternate(e, max(3, e.trials), append(peers, agent)...); err != nil {
		return lines, err
	}
	for i, p := range peers {
		rate, peer := agent.rate(), p.rate()
		l := line{
			what: "model agent: tokens a second of one answer, as fast as the model can, against " + p.name,
			ours: fmt.Sprintf("%.0f k/s", rate/1e3), peer: fmt.Sprintf("%.0f k/s", peer/1e3), ratio: rate / peer, value: rate / peer, floor: true,
		}
		if i < 2 {
			l.must, l.need, l.want, l.aim = "0.9 of the caller", .9, .95, "0.95"
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// asker sends requests to the model, directly and through Parley.
type asker struct{ endpoint, parley string }

// sdk uses the provider's client library. It returns the times until the first token and until the end.
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

// bytes reads the answer without decoding it: the speed of the model itself.
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
