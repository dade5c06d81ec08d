package terminal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

// testScreen is a screen without a terminal.
type testScreen struct {
	*screen
	t   *testing.T
	seq chat.Seq
}

func newTestScreen(t *testing.T) *testScreen {
	cl, err := client.New(client.Options{URL: "http://127.0.0.1:1", Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	m := newScreen(context.Background(), cl, chat.Session{ID: "s-1", Agent: "demo"}, error.Error)
	m.Update(linkMsg{Up: true})
	return &testScreen{screen: m, t: t}
}

// apply applies an event of the turn t-1.
func (s *testScreen) apply(body chat.Body) chat.Seq {
	s.seq++
	e := &chat.Event{Session: "s-1", Seq: s.seq, At: chat.AtOf(time.Now()), Turn: "t-1", Type: body.Type(), Body: body}
	s.Update(frameMsg{Event: e})
	return s.seq
}

func (s *testScreen) content() string {
	view := s.View().Content
	lines := strings.Split(view, "\n")
	if len(lines) != s.height {
		s.t.Errorf("the screen has %d lines instead of %d", len(lines), s.height)
	}
	for _, l := range lines {
		if ansi.StringWidth(l) > s.width {
			s.t.Errorf("a line is too wide: %q", ansi.Strip(l))
		}
	}
	return ansi.Strip(view)
}

func (s *testScreen) mustShow(want ...string) {
	s.t.Helper()
	for _, w := range want {
		if got := s.content(); !strings.Contains(got, w) {
			s.t.Fatalf("the screen lacks %q:\n%s", w, got)
		}
	}
}

// press sends keys: names of keys in angle brackets, all else as text.
func (s *testScreen) press(text string) (cmd tea.Cmd) {
	keys := map[string]tea.Key{
		"<enter>": {Code: tea.KeyEnter}, "<esc>": {Code: tea.KeyEscape}, "<down>": {Code: tea.KeyDown}, "<tab>": {Code: tea.KeyTab},
		"<left>": {Code: tea.KeyLeft}, "<space>": {Code: tea.KeySpace, Text: " "}, "<right>": {Code: tea.KeyRight}, "<up>": {Code: tea.KeyUp}, "<bs>": {Code: tea.KeyBackspace}, "<end>": {Code: tea.KeyEnd}, "<ctrl+c>": {Code: 'c', Mod: tea.ModCtrl},
	}
	for text != "" {
		if end := strings.Index(text, ">"); text[0] == '<' && end > 0 {
			_, cmd = s.Update(tea.KeyPressMsg(keys[text[:end+1]]))
			text = text[end+1:]
			continue
		}
		r := []rune(text)[0]
		_, cmd = s.Update(tea.KeyPressMsg(tea.Key{Code: r, Text: string(r)}))
		text = text[len(string(r)):]
	}
	return cmd
}

func TestScreenShowsATurn(t *testing.T) {
	s := newTestScreen(t)
	s.mustShow("talking with demo", "ready")
	asked := s.apply(chat.UserMessage{Text: "what is\x1b[31m 2+2?"})
	s.apply(chat.TurnStarted{TurnID: "t-1", Trigger: asked, Agent: "demo"})
	s.Update(frameMsg{Preview: &chat.Preview{Block: "b1", Text: "Fo", End: 2, Kind: chat.TextBlock, Turn: "t-1"}})
	s.mustShow("› what is\uFFFD[31m 2+2?", "Fo▌", "Esc stops")
	s.apply(chat.UserMessage{Text: "and 3+3?"})
	s.mustShow("and 3+3?  (queued)", "1 queued")
	s.apply(chat.AgentToolCall{CallID: "c1", Tool: "add", Params: json.RawMessage(`{"a":2}`)})
	s.mustShow("⚙ add")
	s.apply(chat.AgentToolResult{CallID: "c1", Tool: "add", Result: json.RawMessage("4")})
	s.mustShow("✓ add {\"a\":2} → 4")
	s.apply(chat.AgentText{Block: "b1", Text: "Four.", Final: true})
	s.apply(chat.TurnCompleted{TurnID: "t-1", Outcome: chat.Done})
	if got := s.content(); strings.Count(got, "Fo") != 1 || strings.Contains(got, "▌") {
		t.Fatalf("the finished block does not replace its preview:\n%s", got)
	}
	if got := s.content(); strings.Index(got, "Four.") > strings.Index(got, "and 3+3?") {
		t.Fatalf("a queued message is shown before the answer that it waits for:\n%s", got)
	}
}

func TestScreenAnswersPrompts(t *testing.T) {
	options := []chat.Option{{ID: "a", Label: "Alpha"}, {ID: "b", Label: "Beta"}, {ID: "c", Label: "Gamma"}}
	calls := []chat.ApprovalCall{{CallID: "c1", Tool: "deploy"}, {CallID: "c2", Tool: "notify"}}
	in := func(typ chat.InputType) chat.Body {
		return chat.AgentInputRequest{RequestID: "p-1", InputType: typ, Text: "Which?", Options: options}
	}
	for name, test := range map[string]struct {
		prompt chat.Body
		keys   string
		want   string
	}{
		"text":           {chat.AgentInputRequest{RequestID: "p-1", InputType: chat.InputText, Text: "Name?"}, "Ada L<enter>", `{"text":"Ada L"}`},
		"radio":          {in(chat.InputRadio), "<down><enter>", `{"values":["b"]}`},
		"dropdown":       {in(chat.InputDropdown), "3", `{"values":["c"]}`},
		"checkbox":       {in(chat.InputCheckbox), "<space><down><down><space><enter>", `{"values":["a","c"]}`},
		"oauth":          {chat.AgentInputRequest{RequestID: "p-1", InputType: chat.InputOAuth, Text: "https://x"}, "<enter>", `{"text":"done"}`},
		"approve":        {chat.AgentApprovalRequest{RequestID: "p-1", Calls: calls[:1]}, "y", `{"decisions":[{"call_id":"c1","approve":true}]}`},
		"deny":           {chat.AgentApprovalRequest{RequestID: "p-1", Calls: calls[:1]}, "n", ``},
		"deny, reason":   {chat.AgentApprovalRequest{RequestID: "p-1", Calls: calls[:1]}, "ntoo late<enter>", `{"decisions":[{"call_id":"c1","approve":false,"reason":"too late"}]}`},
		"deny, then not": {chat.AgentApprovalRequest{RequestID: "p-1", Calls: calls[:1]}, "nx<esc>y", `{"decisions":[{"call_id":"c1","approve":true}]}`},
		"two calls":      {chat.AgentApprovalRequest{RequestID: "p-1", Calls: calls}, "2nno<enter>", `{"decisions":[{"call_id":"c1","approve":true,"remember":"session"},{"call_id":"c2","approve":false,"reason":"no"}]}`},
		"permission":     {chat.AgentPermissionRequest{RequestID: "p-1", Scopes: []string{"r", "w"}}, "<right><down><space><enter>", `{"granted":["r"],"duration":"session"}`},
		"no permission":  {chat.AgentPermissionRequest{RequestID: "p-1", Scopes: []string{"r", "w"}}, "d", `{"granted":[],"duration":"once"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestScreen(t)
			s.apply(test.prompt)
			s.mustShow("waits for you")
			got := ""
			f := s.form
			for _, k := range splitKeys(test.keys) {
				if k == "<esc>" {
					f.back()
					continue
				}
				if a, ready := f.key(keyOf(k)); ready {
					b, _ := json.Marshal(a)
					got = string(b)
				}
				s.content()
			}
			if got != test.want {
				t.Fatalf("answered %s, want %s", got, test.want)
			}
			s.apply(chat.PromptClosed{RequestID: "p-1", Reason: chat.Expired})
			s.mustShow("→ expired", "› ")
		})
	}
}

// A prompt that appears while a person writes a message does not receive the keys of the message.
func TestScreenDoesNotTakeKeysFromAMessage(t *testing.T) {
	approval := chat.AgentApprovalRequest{RequestID: "p-1", Calls: []chat.ApprovalCall{{CallID: "c1", Tool: "deploy"}}}
	s := newTestScreen(t)
	s.press("wh")
	s.apply(approval)
	s.Update(armMsg("p-1"))
	s.press("y now")
	s.mustShow("› why now", "waits for you · Tab answers")
	if s.press("<tab>"); s.form.sent {
		t.Fatal("a letter of the message approved the call")
	}
	s.mustShow("1. Approve")
	if s.press("y"); !s.form.sent {
		t.Fatal("y does not approve")
	}

	s = newTestScreen(t)
	s.apply(approval)
	s.press("yes") // it came up under the fingers
	s.mustShow("› yes")
	if s.form.sent {
		t.Fatal("a key that was pressed before the prompt approved the call")
	}

	s = newTestScreen(t)
	s.apply(approval)
	s.Update(armMsg("p-1"))
	s.press("/stream 3")
	s.mustShow("› /stream 3")
	if s.form.sent {
		t.Fatal("a message approved the call")
	}
	s.press("<enter>") // sent; the question has the keys again
	s.mustShow("/stream 3  (not sent yet)", "1. Approve")
}

func TestScreenShowsAnswersOfOthers(t *testing.T) {
	s := newTestScreen(t)
	s.apply(chat.AgentInputRequest{RequestID: "p-1", InputType: chat.InputText, Text: "Name?"})
	s.Update(armMsg("p-1"))
	s.press("Ada<left><left><left>L. ")
	s.mustShow("› L. Ada")
	e := &chat.Event{Session: "s-1", Seq: 2, Actor: chat.Actor{Kind: chat.User, ID: "mira"}, Type: "user.input_response", Body: chat.UserInputResponse{RequestID: "p-1", Text: "Bob"}}
	s.Update(frameMsg{Event: e})
	s.mustShow("? Name?  → Bob (answered by mira elsewhere)", "› L. Ada", "your text is kept")
}

func TestScreenShowsAnswersInTheWordsOfTheQuestion(t *testing.T) {
	s := newTestScreen(t)
	options := []chat.Option{{ID: "last_year", Label: "The same quarter of last year"}, {ID: "plan", Label: "The plan", Value: "p"}}
	s.apply(chat.AgentInputRequest{RequestID: "p-1", InputType: chat.InputCheckbox, Text: "Which?", Options: options})
	s.apply(chat.UserInputResponse{RequestID: "p-1", Values: []string{"p", "last_year"}})
	s.mustShow("? Which?  → The plan, The same quarter of last year")
}

func TestScreenShowsWorkstreams(t *testing.T) {
	s := newTestScreen(t)
	s.apply(chat.WorkstreamLaunched{ID: "w1", Name: "Freight", Task: "Look at freight."})
	s.mustShow("w1 Freight running · Look at freight.")
	s.apply(chat.WorkstreamProgress{ID: "w1", Phase: chat.PhaseTool, Tool: "look_up", Message: "Half of it."})
	s.mustShow("w1 Freight running · using look_up · Half of it.")
	s.apply(chat.WorkstreamProgress{ID: "w1", Phase: chat.PhaseSynthesizing})
	s.mustShow("w1 Freight running · writing up")
}

// The lines that a person reads do not move when lines are added below.
func TestScreenKeepsTheScrollPosition(t *testing.T) {
	s := newTestScreen(t)
	for i := range 60 {
		s.apply(chat.AgentText{Text: fmt.Sprintf("line %d", i)})
	}
	s.move(20)
	s.mustShow("20 lines below")
	before := strings.Join(strings.Split(s.content(), "\n")[:20], "\n")
	s.apply(chat.AgentText{Text: "one more\nand another"})
	s.Update(frameMsg{Preview: &chat.Preview{Block: "b1", Text: "and a piece", Kind: chat.TextBlock}})
	if after := strings.Join(strings.Split(s.content(), "\n")[:20], "\n"); after != before {
		t.Fatalf("the text moved from\n%s\nto\n%s", before, after)
	}
	s.mustShow("23 lines below")

	// A prompt takes lines from the conversation at the bottom, and a stored message replaces one that was not sent.
	s.outbox = append(s.outbox, outgoing{text: "mine", clientID: "c-1"})
	s.move(2)
	top := func() string { return strings.Join(strings.Split(s.content(), "\n")[:8], "\n") }
	before = top()
	s.seq++
	s.Update(frameMsg{Event: &chat.Event{Session: "s-1", Seq: s.seq, ClientID: "c-1", Type: "user.message", Body: chat.UserMessage{Text: "mine"}}})
	if after := top(); after != before {
		t.Fatalf("the text moved from\n%s\nto\n%s", before, after)
	}
	s.apply(chat.AgentApprovalRequest{RequestID: "p-1", Calls: []chat.ApprovalCall{{CallID: "c1", Tool: "deploy"}}})
	if after := top(); after != before {
		t.Fatalf("the text moved from\n%s\nto\n%s", before, after)
	}
}

// A pasted text is kept complete, however many lines it has.
func TestScreenKeepsLongPastedText(t *testing.T) {
	text := strings.TrimSuffix(strings.Repeat("a line\n", 40), "\n")
	s := newTestScreen(t)
	s.Update(tea.PasteMsg{Content: text})
	if got := s.input.Value(); got != text {
		t.Fatalf("%d of 40 lines were kept", strings.Count(got, "\n")+1)
	}
	s.content()
}

func splitKeys(s string) (keys []string) {
	for s != "" {
		if end := strings.Index(s, ">"); s[0] == '<' && end > 0 {
			keys, s = append(keys, s[:end+1]), s[end+1:]
		} else {
			keys, s = append(keys, s[:1]), s[1:]
		}
	}
	return keys
}

func keyOf(name string) tea.KeyPressMsg {
	codes := map[string]rune{"<enter>": tea.KeyEnter, "<down>": tea.KeyDown, "<right>": tea.KeyRight}
	switch {
	case name == "<space>" || name == " ":
		return tea.KeyPressMsg(tea.Key{Code: tea.KeySpace, Text: " "})
	case codes[name] != 0:
		return tea.KeyPressMsg(tea.Key{Code: codes[name]})
	}
	return tea.KeyPressMsg(tea.Key{Code: rune(name[0]), Text: name})
}

func TestScreenCountsDown(t *testing.T) {
	s := newTestScreen(t)
	s.apply(chat.AgentInputRequest{RequestID: "p-1", InputType: chat.InputText, Text: "Name?", Deadline: chat.AtOf(s.now.Add(90 * time.Second))})
	s.mustShow("1:30 left")
	s.Update(tickMsg(s.now.Add(40 * time.Second)))
	s.mustShow("0:50 left")
}

func TestScreenSaysWhatItLastKnewWhileOffline(t *testing.T) {
	s := newTestScreen(t)
	s.apply(chat.TurnStarted{TurnID: "t-1", Trigger: 1, Agent: "demo"})
	s.Update(linkMsg{Err: client.ErrUnreachable})
	s.mustShow("offline, trying again · working")
}

// Messages written while the server is not reachable are kept in order and sent once.
func TestScreenKeepsMessagesWrittenOffline(t *testing.T) {
	s := newTestScreen(t)
	s.Update(linkMsg{Err: client.ErrUnreachable})
	cmd := s.press("one<enter>")
	s.press("two<enter>")
	s.mustShow("offline, trying again · 2 not sent yet", "one  (not sent yet)", "two  (not sent yet)")
	s.Update(cmd()) // no server listens there
	s.mustShow("one  (not sent yet)")
	id := s.outbox[0].clientID
	s.Update(linkMsg{Up: true})
	// The stream may bring it before the answer to the request does.
	e := &chat.Event{Session: "s-1", Seq: 1, Type: "user.message", ClientID: id, Body: chat.UserMessage{Text: "one"}}
	s.Update(frameMsg{Event: e})
	if got := s.content(); strings.Count(got, "one") != 1 || !strings.Contains(got, "two  (not sent yet)") {
		t.Fatalf("the screen shows\n%s", got)
	}
	s.Update(sentMsg{clientID: id})
	if len(s.outbox) != 1 || s.outbox[0].text != "two" || !s.sending {
		t.Fatalf("the next message is not being sent: %+v", s.outbox)
	}
}

func TestScreenFitsAnySize(t *testing.T) {
	s := newTestScreen(t)
	s.apply(chat.UserMessage{Text: strings.Repeat("long message 日本語 ", 40)})
	s.apply(chat.AgentText{Text: strings.Repeat("word ", 500) + strings.Repeat("x", 300)})
	s.apply(chat.AgentThinking{Text: strings.Repeat("hm ", 200)})
	s.apply(chat.AgentPlan{Tasks: []chat.Task{{Title: strings.Repeat("task ", 40), Status: "done"}}})
	s.apply(chat.AgentText{Text: report})
	s.apply(chat.AgentText{Text: "> > - 1. " + strings.Repeat("日本語 `code` ", 60) + "\n\n| " + strings.Repeat("a | ", 40) + "\n|" + strings.Repeat("--|", 40)})
	s.conversation.me = me
	s.by(chat.Actor{Kind: chat.User, ID: strings.Repeat("long name ", 20)}, chat.UserMessage{Text: "hi"})
	s.apply(chat.AgentArtifact{ArtifactType: "chart", Title: strings.Repeat("title ", 30), Data: json.RawMessage(`{"x":["` + strings.Repeat("label ", 30) + `"],"values":[1e300]}`)})
	s.apply(chat.AgentApprovalRequest{RequestID: "p", Calls: []chat.ApprovalCall{{CallID: "c", Tool: "t", Params: json.RawMessage(`"` + strings.Repeat("p", 900) + `"`)}}})
	for _, size := range [][2]int{{80, 24}, {40, 16}, {200, 60}, {30, 14}, {40, 10}, {20, 6}, {16, 4}} {
		s.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		s.content()
		s.move(1000)
		s.content()
		s.move(-2000)
		s.form.fresh = false
		for _, keys := range []string{"e", "<esc>", "n", "<esc>", "<esc>", "<esc>"} {
			s.press(keys)
			s.content()
		}
	}
}
