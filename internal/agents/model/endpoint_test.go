package model

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-hq/parley/internal/llm"
)

// Addresses and headers are those that the providers document. A header of the
// configuration replaces ours.
func TestRequestsOfEveryProvider(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line := r.Method + " " + r.URL.String()
		for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Anthropic-Version", "Content-Type", "X-Extra"} {
			if v := r.Header.Get(name); v != "" {
				line += " " + name + "=" + v
			}
		}
		got = append(got, line)
		w.Header().Set("Retry-After", "7")
		http.Error(w, `{"error":{"message":"wait a bit"}}`, http.StatusTooManyRequests)
	}))
	t.Cleanup(server.Close)
	for _, c := range []struct {
		provider, path, key string
		headers             map[string]string
		want                string // of the request, then of the list of models
	}{
		{OpenAI, "/v1", "k", nil, "POST /v1/chat/completions Authorization=Bearer k Content-Type=application/json\nGET /v1/models Authorization=Bearer k"},
		{OpenAI, "/a%20b/?q=1", "", nil, "POST /a%20b/chat/completions Content-Type=application/json\nGET /a%20b/models"},
		{Responses, "", "k", map[string]string{"authorization": "Basic x"}, "POST /responses Authorization=Basic x Content-Type=application/json\nGET /models Authorization=Basic x"},
		{Anthropic, "/", "k", map[string]string{"x-extra": "1"}, "POST /v1/messages X-Api-Key=k Anthropic-Version=2023-06-01 Content-Type=application/json X-Extra=1\nGET /v1/models X-Api-Key=k Anthropic-Version=2023-06-01 X-Extra=1"},
		{Gemini, "/x", "k", nil, "POST /x/v1beta/models/m:streamGenerateContent?alt=sse X-Goog-Api-Key=k Content-Type=application/json\nGET /x/v1beta/models?pageSize=1 X-Goog-Api-Key=k"},
	} {
		got = nil
		e := newEndpoint(&Options{Provider: c.provider, Endpoint: server.URL + c.path, Headers: c.headers}, server.Client())
		_, err := e.ask(t.Context(), c.key, &llm.Request{Model: "m"}, func() {}, nil)
		if f, ok := asFailure(err); !ok || f.After.Seconds() != 7 || !strings.Contains(f.Msg, "wait a bit") {
			t.Errorf("%s: %v", c.provider, err)
		}
		if e.list(t.Context(), c.key) == nil {
			t.Errorf("%s: the list has no error", c.provider)
		}
		if lines := strings.Join(got, "\n"); lines != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.provider, lines, c.want)
		}
	}
}

// A redirect to another server would give it the key and the conversation.
func TestRedirectsToOtherServersAreRefused(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("it got %v", r.Header) }))
	t.Cleanup(other.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(server.Close)
	for _, name := range Providers {
		e := newEndpoint(&Options{Provider: name, Endpoint: server.URL}, server.Client())
		if _, err := e.ask(t.Context(), "k", &llm.Request{Model: "m"}, func() {}, nil); err == nil || !strings.Contains(err.Error(), "redirects to another server") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The name of a model cannot change the address.
func TestModelNamesInAddresses(t *testing.T) {
	for model, want := range map[string]string{
		"m": "models/m", "models/m": "models/m", "tunedModels/m": "tunedModels/m", "a?b#c": "models/a%3Fb%23c", "../m": "", "a/../../m": "",
	} {
		q, err := openGemini(&Options{}, &llm.Request{Model: model})
		path := fmt.Sprintf("v1beta/%s:streamGenerateContent?alt=sse", want)
		if (err != nil) != (want == "") || err == nil && q.path != path {
			t.Errorf("%s: %s %v", model, q.path, err)
		}
	}
}
