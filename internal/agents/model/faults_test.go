package model_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/model"
	"github.com/parley-hq/parley/internal/agents/tool"
	"github.com/parley-hq/parley/internal/modeltest"
)

// Whatever an endpoint does, the turn ends with a clear event, and the next
// message is answered.
func TestBadDays(t *testing.T) {
	endless := func(r modeltest.Request) modeltest.Reply {
		return modeltest.Reply{Calls: []modeltest.Call{{Name: "count", Args: `{}`}}}
	}
	first := func(bad modeltest.Reply) modeltest.Script {
		return func(r modeltest.Request) modeltest.Reply {
			if r.Number == 1 {
				return bad
			}
			return modeltest.Reply{Text: "All is well again, friend."}
		}
	}
	always := func(bad modeltest.Reply) modeltest.Script {
		return func(r modeltest.Request) modeltest.Reply {
			if r.LastUser() == "again" {
				return modeltest.Reply{Text: "All is well again, friend."}
			}
			return bad
		}
	}
	well := `text "All is well again, friend." final`
	for _, c := range []struct {
		name   string
		opt    model.Options
		script modeltest.Script
		want   []string // of the first turn
	}{
		{"a rate limit passes", model.Options{}, first(modeltest.Reply{Status: 429, Error: "slow", Header: map[string]string{"Retry-After-Ms": "1"}}), []string{"agent.status", well, "turn done"}},
		{"an overload passes", model.Options{}, first(modeltest.Reply{Status: 503, Error: "overloaded"}), []string{"agent.status", well, "turn done"}},
		{"an overload does not pass", model.Options{Retries: 2}, always(modeltest.Reply{Status: 500, Error: "broken for good"}), []string{"agent.status", "agent.status", "fault unavailable: the model's endpoint failed (500): broken for good", "turn failed: the model's endpoint failed (500)"}},
		{"the key is refused", model.Options{}, always(modeltest.Reply{Status: 401, Error: "Incorrect API key provided: sk-secret-123"}), []string{"fault denied:", "key_env", "provided: …", "turn failed"}},
		{"no such model", model.Options{}, always(modeltest.Reply{Status: 404, Error: "no model x"}), []string{"fault not_found:", "turn failed"}},
		{"a bad request", model.Options{}, always(modeltest.Reply{Status: 400, Error: "unsupported parameter"}), []string{"fault refused:", "unsupported parameter", "turn failed"}},
		{"silence from the start", model.Options{Idle: 2 * time.Second, Retries: 1}, always(modeltest.Reply{Hang: true}), []string{"agent.status", "fault timeout:", "turn failed"}},
		{"silence in the middle", model.Options{Idle: 8 * time.Second, Retries: -1}, always(modeltest.Reply{Text: "one two three", HangAt: 2}), []string{`text "one two" partial`, "fault timeout:", "turn failed"}},
		{"cut in mid-word, then the same again", model.Options{}, first(modeltest.Reply{Pieces: []string{"All is we", "ll"}, CutAt: 1}), []string{"agent.status", well, "turn done"}},
		{"cut in mid-word, then something else", model.Options{}, first(modeltest.Reply{Pieces: []string{"It was a da", "rk"}, CutAt: 1}), []string{"agent.status", `text "It was a da" partial`, well, "turn done"}},
		{"cut for ever", model.Options{Retries: 1}, always(modeltest.Reply{Text: "one two three", CutAt: 2}), []string{"agent.status", `text "one two" partial`, "fault cut_off:", "turn failed"}},
		{"ended without an end", model.Options{}, first(modeltest.Reply{Text: "All is well or not", EndAt: 3}), []string{"agent.status", well, "turn done"}},
		{"garbage in the stream", model.Options{}, first(modeltest.Reply{Text: "All is", Garbage: `{"choices":[{"delta":`}), []string{"agent.status", well, "turn done"}},
		{"an error in the stream", model.Options{Retries: -1}, always(modeltest.Reply{Text: "All is", Garbage: `{"error":{"message":"The GPU is on fire","type":"server_error","code":null}}`}), []string{`text "All is" partial`, "fault unavailable: the model failed: The GPU is on fire", "turn failed"}},
		{"a limit in the stream", model.Options{Retries: -1}, always(modeltest.Reply{Garbage: `{"error":{"message":"Wait a bit","code":429}}`}), []string{"fault rate_limited: the model's endpoint has too much to do: Wait a bit", "turn failed"}},
		{"no reason to end", model.Options{Retries: -1}, always(modeltest.Reply{Text: "That was all.", Garbage: "[DONE]"}), []string{`text "That was all." final`, "turn done"}},
		{"an empty answer", model.Options{Retries: 1}, always(modeltest.Reply{}), []string{"agent.status", "fault empty_answer:", "turn failed"}},
		{"an unknown tool", model.Options{}, first(modeltest.Reply{Calls: []modeltest.Call{{Name: "fly", Args: `{}`}}}), []string{"call fly {}", `error fly unknown_tool: there is no tool "fly"; there are: count`, well, "turn done"}},
		{"broken arguments", model.Options{}, first(modeltest.Reply{Calls: []modeltest.Call{{Name: "count", Args: `n=1, please`}}}), []string{"call count", "error count invalid_arguments:", well, "turn done"}},
		{"an argument that is given twice", model.Options{}, first(modeltest.Reply{Calls: []modeltest.Call{{Name: "count", Args: `{"n":1,"n":2}`}}}), []string{"call count", "error count invalid_arguments: a name occurs twice", well, "turn done"}},
		{"arguments that break off", model.Options{}, first(modeltest.Reply{Calls: []modeltest.Call{{Name: "count", Args: `{"n":1`}}}), []string{"call count", "error count invalid_arguments:", well, "turn done"}},
		{"an endless loop", model.Options{MaxSteps: 3}, func(r modeltest.Request) modeltest.Reply {
			if r.LastUser() == "again" {
				return modeltest.Reply{Text: "All is well again, friend."}
			}
			return endless(r)
		}, []string{"result count", "result count", "result count", "fault too_many_steps:", "max_steps", "turn failed"}},
		{"the limit of length", model.Options{}, first(modeltest.Reply{Text: "This would have", Stop: "length"}), []string{`text "This would have" final`, "fault length:", "turn done"}},
		{"held back", model.Options{}, first(modeltest.Reply{Text: "I may", Stop: "filter"}), []string{`text "I may" final`, "fault content_filter:", "turn done"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // the idle timeout is slow
			var count counter
			c.opt.Tools = []tool.Tool{count.tool("count", true)}
			c.opt.Key = func() (string, error) { return "sk-secret-123", nil }
			w := newServer(t, c.opt, c.script)
			w.say("s-1", "hello")
			w.ended("s-1", 1)
			w.has("s-1", c.want...)
			if strings.Contains(w.text("s-1"), "sk-secret") {
				t.Errorf("the key is in the log:\n%s", w.text("s-1"))
			}
			w.say("s-1", "again")
			if end := w.ended("s-1", 2); end.Outcome != chat.Done {
				t.Errorf("afterwards:\n%s", w.text("s-1"))
			}
			w.has("s-1", `user "again"`, well)
		})
	}
}

func TestEveryProviderIsTriedAgain(t *testing.T) {
	for _, name := range model.Providers {
		for kind, bad := range map[string]modeltest.Reply{
			"429": {Status: 429, Code: "rate_limit_error", Error: "slow down"}, "500": {Status: 500, Error: "oh"},
			"cut": {Text: "Half of", CutAt: 1}, "end": {Text: "Half of", EndAt: 1},
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				w := newServer(t, model.Options{Provider: name}, func(r modeltest.Request) modeltest.Reply {
					if r.Number <= 2 {
						return bad
					}
					return modeltest.Reply{Text: "Half of it."}
				})
				w.say("s-1", "hello")
				if end := w.ended("s-1", 1); end.Outcome != chat.Done {
					t.Fatal(w.text("s-1"))
				}
				w.has("s-1", "agent.status", "agent.status", `text "Half of it." final`)
				if n := strings.Count(w.text("s-1"), "text "); n != 1 {
					t.Errorf("%d texts:\n%s", n, w.text("s-1"))
				}
			})
		}
		t.Run(name+" 401", func(t *testing.T) {
			w := newServer(t, model.Options{Provider: name}, func(r modeltest.Request) modeltest.Reply {
				return modeltest.Reply{Status: 401, Code: "authentication_error", Error: "who are you"}
			})
			w.say("s-1", "hello")
			w.ended("s-1", 1)
			w.has("s-1", "fault denied:", "who are you", "turn failed")
			if err := w.agent.Health(); err == nil || !strings.Contains(err.Error(), "key") {
				t.Errorf("health is %v", err)
			}
		})
		t.Run(name+" overflow", func(t *testing.T) {
			said := map[string]string{
				model.OpenAI: "This model's maximum context length is 100 tokens", model.Responses: "Your input exceeds the context window of this model",
				model.Anthropic: "prompt is too long: 200000 tokens > 100000 maximum", model.Gemini: "The input token count (2) exceeds the maximum number of tokens allowed (1)",
			}[name]
			w := newServer(t, model.Options{Provider: name}, func(r modeltest.Request) modeltest.Reply {
				return modeltest.Reply{Status: 400, Error: said}
			})
			w.say("s-1", strings.Repeat("hello ", 200))
			w.ended("s-1", 1)
			w.has("s-1", "fault context_overflow:", "turn failed")
		})
	}
}

// Several errors in one step: each pause is reported.
func TestTroubleUponTrouble(t *testing.T) {
	w := newServer(t, model.Options{}, func(r modeltest.Request) modeltest.Reply {
		switch r.Number {
		case 1, 3, 4:
			return modeltest.Reply{Status: 429, Error: "slow " + strings.Repeat("!", r.Number)}
		case 2:
			return modeltest.Reply{Status: 400, Error: "maximum context length exceeded"}
		}
		return modeltest.Reply{Text: "Here I am."}
	})
	w.say("s-1", strings.Repeat("word ", 100))
	w.ended("s-1", 1)
	w.has("s-1", "agent.status", "agent.status", "agent.status", `text "Here I am." final`, "turn done")
}

func TestConnectionRefused(t *testing.T) {
	w := newServer(t, model.Options{Endpoint: "http://127.0.0.1:1/v1", Retries: 1}, nil)
	w.say("s-1", "hello")
	w.ended("s-1", 1)
	w.has("s-1", "agent.status", "fault unavailable: the model's endpoint cannot be reached: the connection was refused", "turn failed")
	if err := w.agent.Probe(w.ctx()); err == nil {
		t.Error("it says that it is well")
	}
}

// An endpoint that takes connections and says nothing is not well.
func TestAnEndpointThatHangs(t *testing.T) {
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(endpoint.Close)
	w := newServer(t, model.Options{Endpoint: endpoint.URL + "/v1"}, nil)
	short, cancel := context.WithTimeout(w.ctx(), 50*time.Millisecond)
	defer cancel()
	if err := w.agent.Probe(short); err == nil || !strings.Contains(err.Error(), "did not answer in time") {
		t.Errorf("health is %v", err)
	}
}

// A page of a proxy is no answer, and it is said what came instead.
func TestAnEndpointThatDoesNotStream(t *testing.T) {
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>Please sign in.</html>")
	}))
	t.Cleanup(endpoint.Close)
	for _, name := range model.Providers {
		w := newServer(t, model.Options{Provider: name, Endpoint: endpoint.URL + "/v1", Retries: -1}, nil)
		w.say("s-1", "hello")
		w.ended("s-1", 1)
		w.has("s-1", "fault unreadable: the model's endpoint answered with text/html instead of a stream", "turn failed")
	}
}

func TestModelsInAnotherFormAreNoFault(t *testing.T) {
	for list, well := range map[string]bool{`[{"name":"scripted"}]`: true, `<html>`: true, "": false} {
		endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if list == "" {
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, list)
		}))
		w := newServer(t, model.Options{Endpoint: endpoint.URL + "/v1"}, nil)
		if err := w.agent.Probe(w.ctx()); (err == nil) != well {
			t.Errorf("an endpoint that lists its models as %q: %v", list, err)
		}
		endpoint.Close()
	}
}

func TestAMissingKeyIsNamed(t *testing.T) {
	opt := model.Options{Key: func() (string, error) { return "", errors.New("parley.yaml:7: key_env: KEY is not set") }}
	w := newServer(t, opt, nil)
	w.say("s-1", "hello")
	w.ended("s-1", 1)
	w.has("s-1", "fault no_key: the model's key is missing: parley.yaml:7: key_env: KEY is not set", "turn failed")
	if err := w.agent.Probe(w.ctx()); err == nil || !strings.Contains(err.Error(), "KEY") {
		t.Errorf("health is %v", err)
	}
}

func TestStopEndsAtOnce(t *testing.T) {
	for name, reply := range map[string]modeltest.Reply{
		"before the first word": {Hang: true}, "in the middle": {Text: "one two three", HangAt: 2},
		"between two tries": {Status: 429, Header: map[string]string{"Retry-After": "100"}},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{}, 8)
			w := newServer(t, model.Options{}, func(modeltest.Request) modeltest.Reply {
				asked <- struct{}{}
				return reply
			})
			w.say("s-1", "hello")
			<-asked
			if reply.Status != 0 {
				w.until("s-1", "status", func(e chat.Event) bool { return e.Type == "agent.status" })
			}
			if reply.HangAt > 0 {
				w.shown("s-1", "one two")
			}
			began := time.Now()
			if _, err := w.Stop(w.ctx(), ann, "s-1", "", ""); err != nil {
				t.Fatal(err)
			}
			if end := w.ended("s-1", 1); end.Outcome != chat.Stopped {
				t.Fatal(w.text("s-1"))
			}
			t.Logf("it took %s", time.Since(began))
			if reply.HangAt > 0 {
				w.has("s-1", `text "one two" partial`, "turn stopped")
			}
		})
	}
}

// shown waits until readers have seen a text.
func (w *testServer) shown(id chat.SessionID, text string) {
	w.t.Helper()
	deadline := time.Now().Add(testTimeout)
	for {
		blocks, err := w.Blocks(w.ctx(), chat.Trusted, id)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, b := range blocks {
			if strings.Contains(b.Text, text) {
				return
			}
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%q was not shown", text)
		}
		time.Sleep(time.Millisecond) // previews tell nobody but readers; the condition is what counts
	}
}
