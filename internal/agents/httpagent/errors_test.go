package httpagent_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/httpagent"
)

// With every protocol a failure is stored as an event with a code, and with a text
// that says what happened, why, and what to do.
func TestFailuresAreEvents(t *testing.T) {
	kinds := map[string]httpagent.Options{
		"openai-chat": {Protocol: httpagent.OpenAI},
		"ndjson":      {Protocol: httpagent.NDJSON},
		"nemo":        {Protocol: httpagent.NeMo, URL: "/chat/stream"},
		"websocket":   {Protocol: httpagent.NeMo, Socket: true, URL: "/websocket"},
		"ag-ui":       {Protocol: httpagent.AGUI},
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"error":{"message":"not today"}}`, code)
		}
	}
	faults := map[string]struct {
		opt  func(*httpagent.Options)
		bad  http.HandlerFunc
		code string
		says []string
	}{
		"fails":       {bad: status(500), code: agent.CodeDown, says: []string{"status 500: not today", "look at its log"}},
		"is not here": {bad: status(404), code: agent.CodeNotFound, says: []string{"status 404: not today", "url and model in the configuration"}},
		"takes no":    {bad: status(422), code: agent.CodeRefused, says: []string{"status 422: not today", "configuration"}},
		"wants a key": {bad: status(401), code: agent.CodeDenied, says: []string{"refused the key", "key_env or key_file"}},
		"is busy":     {bad: status(429), code: agent.CodeSlowDown, says: []string{"is busy", "try again later"}},
		"has no key": {
			opt:  func(o *httpagent.Options) { o.Key = func() (string, error) { return "", errors.New("KEY is not set") } },
			bad:  status(500),
			code: agent.CodeNoKey, says: []string{"KEY is not set", "set it, then ask again"},
		},
		"cuts": {
			bad: func(w http.ResponseWriter, _ *http.Request) {
				flush(w, "")
				panic(http.ErrAbortHandler)
			},
			code: agent.CodeCutOff, says: []string{"broke off", "Ask again"},
		},
	}
	for kind, opt := range kinds {
		for name, f := range faults {
			if kind == "websocket" && name == "cuts" {
				continue // the connection is no WebSocket yet
			}
			t.Run(kind+" "+name, func(t *testing.T) {
				opt := opt
				opt.Retries = -1
				if f.opt != nil {
					f.opt(&opt)
				}
				h := newServer(t, opt, f.bad)
				h.send("Hello?")
				end := h.awaitEnd(1)
				if s := h.summary(); end.Outcome != chat.Failed || !strings.Contains(s, "error "+f.code+"\nended failed") {
					t.Fatalf("the log says\n%s", s)
				}
				for _, says := range f.says {
					if !strings.Contains(end.Error, says) {
						t.Errorf("%q is not in %q", says, end.Error)
					}
				}
				if f.code == agent.CodeNoKey && h.agent.Probe(ctx) == nil {
					t.Error("Probe succeeds without the key")
				}
			})
		}
	}
}

// An unfinished line is reported as a broken answer, not as an unreadable one.
func TestNDJSONTruncatedLine(t *testing.T) {
	for line, want := range map[string]string{
		`{"type":"text","te`:           agent.CodeCutOff,
		`{"type":"text","te` + "\n":    agent.CodeUnreadable,
		`<html>`:                       agent.CodeUnreadable,
		`{"text":"x"}` + "\n":          agent.CodeUnreadable,
		`{"type":"text","text":"Hi."}`: agent.CodeCutOff,
	} {
		h := newServer(t, httpagent.Options{Protocol: httpagent.NDJSON, Retries: -1}, func(w http.ResponseWriter, _ *http.Request) { flush(w, line) })
		h.send("go")
		if end := h.awaitEnd(1); !strings.Contains(h.summary(), "error "+want+"\n") {
			t.Errorf("%q gives %s", line, end.Error)
		}
		h.kill()
	}
}
