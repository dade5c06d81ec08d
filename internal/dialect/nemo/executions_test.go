package nemo

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/internal/servertest"
)

// 202, poll, answer, poll.
func TestInteractionsOverHTTP(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	code, body, _ := w.Call("POST", "/v1/workflow", inputBody("/ask checkbox"))
	var x struct {
		ID          string `json:"execution_id"`
		Status      string
		StatusURL   string `json:"status_url"`
		Interaction string `json:"interaction_id"`
		ResponseURL string `json:"response_url"`
		Prompt      struct {
			InputType string `json:"input_type"`
			Options   []option
		}
		Error  string
		Result struct{ Value string }
	}
	if err := json.Unmarshal([]byte(body), &x); err != nil || code != 202 || x.Status != "interaction_required" || x.Prompt.InputType != "checkbox" || len(x.Prompt.Options) != 3 {
		t.Fatalf("%d %s %v", code, body, err)
	}
	if code, body, _ := w.Call("GET", x.StatusURL, ""); code != 200 || !strings.Contains(body, `"status":"interaction_required"`) || !strings.Contains(body, x.ResponseURL) {
		t.Errorf("%d %s", code, body)
	}
	if code, body, _ := w.Call("POST", x.ResponseURL, `{"response":{"type":"checkbox","selected_option":{"id":"x","label":"x","value":"pigeon"}}}`); code != 422 {
		t.Errorf("what was not offered: %d %s", code, body)
	}
	for _, bad := range []string{`{}`, `{"response":{"type":"scream"}}`, `[]`} {
		if code, body, _ := w.Call("POST", x.ResponseURL, bad); code != 422 {
			t.Errorf("%s: %d %s", bad, code, body)
		}
	}
	if code, body, _ := w.Call("POST", x.ResponseURL, `{"response":{"type":"checkbox","selected_option":[{"id":"email","label":"Email","value":"email"},{"id":"sms","value":"sms"}]}}`); code != 204 || body != "" {
		t.Errorf("%d %s", code, body)
	}
	if code, body, _ := w.Call("POST", x.ResponseURL, `{"response":{"type":"checkbox","selected_option":{"value":"sms"}}}`); code != 400 || !strings.Contains(body, "answered") {
		t.Errorf("twice: %d %s", code, body)
	}
	w.poll(x.StatusURL, `"status":"completed","result":{"value":"You answered: email, sms"}`)
	for _, path := range []string{"/executions/nonsense", "/executions/" + x.Interaction, "/executions/00000000-0000-4000-8000-000000000000"} {
		if code, _, _ := w.Call("GET", path, ""); code != 404 {
			t.Errorf("%s: %d", path, code)
		}
	}
	if code, _, _ := w.Call("POST", "/executions/"+x.ID+"/interactions/"+x.ID+"/response", `{"response":{"type":"text","text":"x"}}`); code != 404 {
		t.Errorf("no such interaction: %d", code)
	}
	if _, body, _ = w.Call("POST", "/v1/chat", chatBody("/ask oauth_consent")); !strings.Contains(body, `"status":"oauth_required"`) || !strings.Contains(body, `"auth_url":"https://example.com/`) {
		t.Errorf("consent: %s", body)
	}
}

// Only its owner can see an execution.
func TestExecutionSurvivesRestart(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{secured: true})
	alice, bob := []string{"Authorization", "Bearer " + servertest.TokenOf("alice")}, []string{"Authorization", "Bearer " + servertest.TokenOf("bob")}
	_, body, _ := w.Call("POST", "/v1/chat", chatBody("/ask text"), alice...)
	var x execution
	if err := json.Unmarshal([]byte(body), &x); err != nil || x.ResponseURL == "" {
		t.Fatal(body, err)
	}
	w = w.restart()
	if code, _, _ := w.Call("GET", x.StatusURL, "", bob...); code != 404 {
		t.Errorf("bob sees it: %d", code)
	}
	if code, _, _ := w.Call("POST", x.ResponseURL, `{"response":{"type":"text","text":"Bob"}}`, bob...); code != 404 {
		t.Errorf("bob answers it: %d", code)
	}
	if code, body, _ := w.Call("POST", x.ResponseURL, `{"response":{"type":"text","text":"Ada"}}`, alice...); code != 204 {
		t.Errorf("%d %s", code, body)
	}
	w.waitTurns(w.only(), 1)
	if _, body, _ := w.Call("GET", x.StatusURL, "", alice...); !strings.Contains(body, "You answered: Ada") || !strings.Contains(body, "chat.completion") {
		t.Errorf("%s", body)
	}
}

// A stream reports a prompt and continues after the answer.
func TestInteractionInStream(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	r, err := http.NewRequestWithContext(t.Context(), "POST", w.HTTP.URL+"/v1/chat/stream", strings.NewReader(chatBody("/ask radio")))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := w.HTTP.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines, all := bufio.NewScanner(res.Body), ""
	for lines.Scan() {
		all += lines.Text() + "\n"
		if strings.HasPrefix(lines.Text(), `data: {"event_type":"interaction_required"`) {
			var x execution
			if err := json.Unmarshal([]byte(strings.TrimPrefix(lines.Text(), "data: ")), &x); err != nil {
				t.Fatal(err)
			}
			if code, body, _ := w.Call("POST", x.ResponseURL, `{"response":{"type":"radio","selected_option":{"id":"sms","label":"SMS","value":"sms"}}}`); code != 204 {
				t.Fatalf("%d %s", code, body)
			}
		}
	}
	if !strings.Contains(all, "event: interaction_required\n") || streamText(t, all) != "You answered: sms" {
		t.Errorf("%s", all)
	}
}

// On a route without prompts the text of the prompt is sent, and the next message of the conversation answers it.
func TestPromptAsText(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	ask := func(path, text string) string {
		_, body, _ := w.Call("POST", path, chatBody(text), "Conversation-Id", "c1")
		if strings.HasSuffix(path, "stream") {
			return streamText(t, body)
		}
		var c struct {
			Choices []struct{ Message struct{ Content string } }
		}
		if err := json.Unmarshal([]byte(body), &c); err != nil || len(c.Choices) != 1 {
			t.Fatal(body)
		}
		return c.Choices[0].Message.Content
	}
	for _, path := range []string{"/chat", "/chat/stream"} {
		if got := ask(path, "/ask radio"); !strings.HasPrefix(got, "How should I notify you?\n- email") {
			t.Errorf("%s: %q", path, got)
		}
		if got := ask(path, "pigeon"); !strings.Contains(got, "not one of the options") || !strings.Contains(got, "How should I notify you?") {
			t.Errorf("%s: %q", path, got)
		}
		if got := ask(path, "sms"); got != "You answered: sms" {
			t.Errorf("%s: %q", path, got)
		}
	}
}

// poll asks until the answer contains a text.
func (w *testServer) poll(path, want string, header ...string) {
	w.t.Helper()
	var body string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if _, body, _ = w.Call("GET", path, "", header...); strings.Contains(body, want) {
			return
		}
	}
	w.t.Fatalf("%s never says %s, but %s", path, want, body)
}
