package terminal

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/json"
)

// answers is a screen whose answers to prompts are recorded.
type answers struct {
	*testScreen
	got chan string // bodies of the requests
}

func newAnswers(t *testing.T, prompt chat.Body) *answers {
	got := make(chan string, 8)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body json.RawMessage
		_ = json.NewDecoder(r.Body).Decode(&body) // a request without a body is recorded as empty
		got <- r.URL.Path + " " + string(body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(server.Close)
	cl, err := client.New(client.Options{URL: server.URL, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	s := &answers{newTestScreen(t), got}
	s.cl = cl
	asked := s.apply(chat.UserMessage{Text: "go"})
	s.apply(chat.TurnStarted{TurnID: "t-1", Trigger: asked, Agent: "demo"})
	s.apply(prompt)
	s.Update(armMsg("p-1"))
	return s
}

// sent runs a command and returns the request that it sends; "" if it sends none.
func (s *answers) sent(cmd tea.Cmd) string {
	if cmd != nil {
		cmd()
	}
	select {
	case body := <-s.got:
		return body
	default:
		return ""
	}
}

func approval(params string) chat.AgentApprovalRequest {
	return chat.AgentApprovalRequest{RequestID: "p-1", Calls: []chat.ApprovalCall{{CallID: "c1", Tool: "deploy", Params: json.RawMessage(params)}}}
}

// Long arguments leave room for the question, and secrets are not shown.
func TestApprovalWithLongArguments(t *testing.T) {
	rows := make([]string, 40)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"service":"svc-%d","password":"hunter2"}`, i)
	}
	s := newAnswers(t, approval(`{"api_key":"k-very-secret","max_tokens":12,"rows":[`+strings.Join(rows, ",")+`]}`))
	s.mustShow("  deploy", `    "api_key": "••••••",`, `    "max_tokens": 12,`, "more lines · v shows all", "1. Approve")
	if shown := s.View().Content; strings.Contains(shown, "k-very-secret") || strings.Contains(shown, "hunter2") || strings.Contains(shown, "svc-9") {
		t.Fatalf("it shows\n%s", shown)
	}
	s.press("v")
	s.mustShow(`"service": "svc-1"`, "1. Approve")
}

func TestMaskedJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":"x","token":{"deep":[1,"}"]},"n":1}`:                  `{"a":"x","token":"••••••","n":1}`,
		`[{"Api-Key":12},{"tokens":3,"say":"\"token\":1"},"token"]`: `[{"Api-Key":"••••••"},{"tokens":3,"say":"\"token\":1"},"token"]`,
		`{"password":"`: `{"password":"••••••"`,
		`no JSON`:       `no JSON`,
	} {
		if got := masked(text); got != want {
			t.Errorf("masked(%s) = %s, want %s", text, got, want)
		}
	}
}

// A person can change the arguments of a call before approving it.
func TestApprovalWithEditedArguments(t *testing.T) {
	s := newAnswers(t, approval(`{"env":"prod","n":12345678901234567890}`))
	s.mustShow("e edit", "4. Edit the arguments…")
	s.press("e")
	s.mustShow("\n  {  ", `    "env": "prod",  `, `    "n": 12345678901234567890  `, "Enter keeps the change")
	if got := s.sent(s.press("<down><end><bs><bs>")); got != "" {
		t.Fatalf("editing sent %s", got)
	}
	s.press("<enter>")
	s.mustShow("this is not valid JSON", `"env": "prod`)
	s.press(`2",<enter>`)
	s.mustShow(`deploy {"env":"prod2","n":12345678901234567890}`, "you changed the arguments", "1. Approve")
	if got := s.sent(s.press("y")); !strings.Contains(got, `"decisions":[{"call_id":"c1","approve":true,"params":{"env":"prod2","n":12345678901234567890}}]`) {
		t.Fatalf("the answer is %s", got)
	}
	s.apply(chat.UserApprovalResponse{RequestID: "p-1", Decisions: []chat.Decision{{CallID: "c1", Approve: true, Params: json.RawMessage(`{}`)}}})
	s.mustShow("→ approved with changed arguments")
}

// Arguments that were opened and not changed are not part of the answer, and neither are those of a call that is denied.
func TestApprovalWithoutChangedArguments(t *testing.T) {
	for _, keys := range []string{"e<enter>y", "ex<esc>y"} {
		s := newAnswers(t, approval("{\"env\": \"a\u009bb\"}"))
		if got := s.sent(s.press(keys)); !strings.Contains(got, `[{"call_id":"c1","approve":true}]`) {
			t.Errorf("%s answered %s", keys, got)
		}
	}
	s := newAnswers(t, approval(`{"a":1}`))
	if got := s.sent(s.press(`e<right><bs><enter>`)); got != "" {
		t.Fatalf("invalid arguments sent %s", got)
	}
	s.press("<esc>")
	if got := s.sent(s.press("nno<enter>")); !strings.Contains(got, `[{"call_id":"c1","approve":false,"reason":"no"}]`) {
		t.Errorf("the answer is %s", got)
	}
	s = newAnswers(t, approval(`{"a":1}`))
	s.press("e<bs><end><bs>")
	s.form.args.SetValue("[1]")
	s.press("<enter>")
	s.mustShow("the arguments must be a JSON object")
}

// The editor of the environment gets a file that is private and removed afterwards.
func TestApprovalInTheEditor(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	path, err := argumentFile(`{"env": "prod"}`)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || filepath.Dir(path) != dir {
		t.Fatalf("the file is %v in %s, %v", info, path, err)
	}
	s := newAnswers(t, approval(`{"env":"prod"}`))
	s.Update(editedMsg{requestID: "p-1", text: "{\n\t\"env\": \"staging\"\n}\n"})
	s.mustShow(`deploy {"env":"staging"}`, "you changed the arguments")
	s.Update(editedMsg{requestID: "p-1", text: "nonsense"})
	s.mustShow("not valid JSON", "nonsense")
	s.press("<esc>")
	s.mustShow(`deploy {"env":"staging"}`)
	s.Update(editedMsg{requestID: "p-0", text: `{"env":"other"}`})
	s.mustShow(`deploy {"env":"staging"}`, "the question is closed")
}

// Esc asks before it stops a turn that waits for an answer.
func TestEscAsksBeforeItWithdrawsAPrompt(t *testing.T) {
	for name, prompt := range map[string]chat.Body{
		"approval":   approval(`{}`),
		"text":       chat.AgentInputRequest{RequestID: "p-1", InputType: chat.InputText, Text: "Name?"},
		"permission": chat.AgentPermissionRequest{RequestID: "p-1", Scopes: []string{"r"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAnswers(t, prompt)
			if got := s.sent(s.press("<esc>")); got != "" {
				t.Fatalf("Esc sent %s", got)
			}
			s.mustShow("Stop the turn and withdraw the question?")
			if strings.Contains(s.content(), "y approve") {
				t.Fatalf("the keys of the form are shown:\n%s", s.content())
			}
			for _, key := range []string{"<esc>", "y", "<enter>", "n"} {
				if got := s.sent(s.press(key)); got != "" {
					t.Fatalf("%s sent %s", key, got)
				}
				s.mustShow("waits for you")
				s.press("<esc>")
			}
			if got := s.sent(s.press("s")); !strings.Contains(got, "/stop") {
				t.Fatalf("the confirmation sent %q", got)
			}
		})
	}
	s := newAnswers(t, approval(`{}`))
	s.press("<esc>")
	s.apply(chat.PromptClosed{RequestID: "p-1", Reason: chat.Expired})
	if got := s.content(); strings.Contains(got, "Stop the turn") {
		t.Fatalf("the question is closed:\n%s", got)
	}
	if got := s.sent(s.press("<esc>")); !strings.Contains(got, "/stop") {
		t.Fatalf("Esc sent %q while the agent works", got)
	}
}

// Esc also stops workstreams that go on after the turn. An interactive one that waits for a message does not run.
func TestEscStopsWorkstreams(t *testing.T) {
	s := newAnswers(t, approval(`{}`))
	s.apply(chat.PromptClosed{RequestID: "p-1", Reason: chat.Expired})
	s.apply(chat.WorkstreamLaunched{ID: "w1", Task: "look"})
	s.apply(chat.WorkstreamLaunched{ID: "w2", Task: "talk", Interactive: true})
	s.apply(chat.TurnCompleted{TurnID: "t-1", Outcome: chat.Done})
	s.mustShow("1 workstream runs · Esc stops")
	if got := s.sent(s.press("<esc>")); !strings.Contains(got, "/stop") || !strings.Contains(got, `"workstreams":true`) {
		t.Fatalf("Esc sent %q", got)
	}
	s.mustShow("stopping…")
	s.apply(chat.WorkstreamCanceled{ID: "w1"})
	s.mustShow("ready")
	if got := s.sent(s.press("<esc>")); got != "" {
		t.Fatalf("Esc sent %q while nothing runs", got)
	}
}
