package nemo

import (
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/chat"
)

// Every bad frame gets an error_message with the right code, and the socket
// stays open.
func TestBadFrames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("")
	user := `{"type":"user_message","schema_type":"chat_stream","id":"x1","conversation_id":"c1","content":%s}`
	for name, tc := range map[string]struct{ frame, code string }{
		"no JSON":           {`{"type":`, codeMessage},
		"no object":         {`[1,2]`, codeMessage},
		"empty":             {` `, codeMessage},
		"number":            {`42`, codeMessage},
		"too deep":          {strings.Repeat("[", 1000), codeMessage},
		"wrong kind":        {`{"type":"user_message","id":7}`, codeMessage},
		"no type":           {`{"id":"x1"}`, codeMessageType},
		"unknown type":      {`{"type":"shout"}`, codeMessageType},
		"a server's type":   {`{"type":"system_response_message","id":"x1","content":{"text":"hi"}}`, codeMessageType},
		"no schema_type":    {`{"type":"user_message","id":"x1","content":{"messages":[{"role":"user","content":"hi"}]}}`, codeMessage},
		"bad schema_type":   {`{"type":"user_message","schema_type":"string","id":"x1","content":{"messages":[]}}`, codeMessage},
		"no content":        {`{"type":"user_message","schema_type":"chat","id":"x1"}`, codeContent},
		"no messages":       {fmt.Sprintf(user, `{"messages":[]}`), codeContent},
		"no user message":   {fmt.Sprintf(user, `{"messages":[{"role":"assistant","content":"x"}]}`), codeContent},
		"unknown role":      {fmt.Sprintf(user, `{"messages":[{"role":"king","content":"x"}]}`), codeContent},
		"empty text":        {fmt.Sprintf(user, `{"messages":[{"role":"user","content":[{"type":"text","text":""}]}]}`), codeContent},
		"content a number":  {fmt.Sprintf(user, `7`), codeContent},
		"unknown part":      {fmt.Sprintf(user, `{"messages":[{"role":"user","content":[{"type":"smell","text":"x"}]}]}`), codeData},
		"image without url": {fmt.Sprintf(user, `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`), codeData},
		"image from a file": {fmt.Sprintf(user, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}]}`), codeData},
		"bad base64":        {fmt.Sprintf(user, `{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"???","format":"wav"}}]}]}`), codeData},
		"generate, no text": {`{"type":"user_message","schema_type":"generate","id":"x1","content":{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/x.png"}}]}]}}`, codeContent},
		"answer to nothing": {`{"type":"user_interaction_message","id":"x1","conversation_id":"nowhere","content":{"messages":[{"role":"user","content":"x"}]}}`, codeMessage},
	} {
		t.Run(name, func(t *testing.T) {
			c.t = t
			c.send(tc.frame)
			frames := c.until(isError)
			got := frames[len(frames)-1]
			if got.Content.Code != tc.code || got.Conversation == "" || got.Content.Details == "" {
				t.Errorf("got %s, want the code %s", got.raw, tc.code)
			}
			if strings.Contains(tc.frame, `"user_message"`) {
				// The UI would wait for ever otherwise, and would not show the error.
				if len(frames) < 2 || frames[0].Type != typeStep {
					t.Errorf("nothing makes the error visible")
				}
				if end := c.next(); !isEnd(end) || end.Parent != got.Parent {
					t.Errorf("no end: %s", end.raw)
				}
			}
		})
	}
	c.t = t
	if err := c.conn.Write(t.Context(), websocket.MessageBinary, []byte{0, 1, 2}); err != nil {
		t.Fatal(err)
	}
	if f := c.next(); f.Content.Code != codeMessage {
		t.Errorf("a binary frame: %s", f.raw)
	}
	c.say("c1", "m1", "hi")
	if got := text(c.turn()); got != "You said: hi" {
		t.Errorf("the socket is of no use any more: %q", got)
	}
}

// A failing turn shows its error, also when it is the first thing that happens.
func TestWorkflowError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("")
	c.say("c1", "m1", "/fail out of luck")
	frames := c.turn()
	if frames[0].Type != typeStep || frames[0].Content.Payload != "out of luck" {
		t.Errorf("nothing visible before the error: %s", frames[0].raw)
	}
	if e := frames[1]; !isError(e) || e.Content.Code != codeWorkflow || e.Content.Details != "out of luck" || e.Parent != "m1" {
		t.Errorf("error: %s", e.raw)
	}
	if !isEnd(frames[2]) {
		t.Errorf("end: %s", frames[2].raw)
	}
}

// The four kinds of message: streams come in pieces, the others at once.
func TestSchemaTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("")
	for schema, pieces := range map[string]bool{"chat": false, "generate": false, "chat_stream": true, "generate_stream": true} {
		c.send(userMessage("c-"+schema, "m1", schema, "/stream 30 200"))
		frames, n := c.turn(), 0
		for _, f := range frames {
			if f.Type == typeResponse && f.Status == "in_progress" {
				n++
			}
		}
		if text(frames) != words1toN(30) || pieces == (n == 1) {
			t.Errorf("%s: %d frames, %q", schema, n, text(frames))
		}
	}
}

// Answers that do not fit are refused with the reason, and the prompt is shown
// again; late and unasked ones are told so.
func TestAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("")
	c.say("c1", "m1", "/ask radio")
	p := c.prompt()
	c.answer("c1", "a1", p.Parent, "pigeon")
	if f := c.next(); f.Content.Code != codeData || !strings.Contains(f.Content.Details, "email") {
		t.Errorf("refusal: %s", f.raw)
	}
	again := c.next()
	if !isPrompt(again) {
		t.Errorf("the prompt is not shown again: %s", again.raw)
	}
	c.answer("c1", "a2", again.ID, "push")
	if got := text(c.turn()); got != "You answered: push" {
		t.Errorf("got %q", got)
	}
	c.answer("c1", "a3", again.ID, "sms")
	if f := c.next(); f.Content.Code != codeMessage || !strings.Contains(f.Content.Details, "answered") {
		t.Errorf("late answer: %s", f.raw)
	}
	for _, tc := range []struct{ say, answer, want string }{
		{"/ask binary_choice", "continue", "You answered: continue"},
		{"/ask dropdown", "email", "You answered: email"},
		{"/ask checkbox", `["email","push"]`, "You answered: email, push"},
		{"/ask checkbox", "sms, push", "You answered: sms, push"},
		{"/ask text", " Ada ", "You answered:  Ada "},
		{"/ask oauth_consent", "", "You answered: "},
		{`/approve deploy {"env":"prod"}`, "continue", `deploy gave {"env":"prod"}`},
		{`/approve deploy {}`, "cancel", "Denied: no reason given"},
		{"/permission files.read net", "continue", "Granted: files.read, net"},
		{"/permission net", "cancel", "Denied: net"},
	} {
		c.say("c1", "m-"+tc.say+tc.answer, tc.say)
		p := c.prompt()
		c.answer("c1", "a-"+tc.say+tc.answer, p.Parent, tc.answer)
		if got := text(c.turn()); got != tc.want {
			t.Errorf("%s, %s: %q", tc.say, tc.answer, got)
		}
	}
	c.say("c1", "m-n", "/ask notification")
	frames := c.turn()
	if frames[0].Content.InputType != "notification" || text(frames) != "Notified." {
		t.Errorf("notification: %s", frames[0].raw)
	}
}

// A prompt ends at its time, decided by the server; an answer after that is told
// so.
func TestPromptExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("")
	c.say("c1", "m1", "/ask text timeout=0.2")
	p := c.prompt()
	if p.Content.Timeout == nil || *p.Content.Timeout != 1 {
		t.Errorf("timeout of %s", p.raw)
	}
	if got := text(c.turn()); got != "No answer in time." {
		t.Errorf("got %q", got)
	}
	c.answer("c1", "a1", p.Parent, "Ada")
	if f := c.next(); !isError(f) || !strings.Contains(f.Content.Details, "expired") {
		t.Errorf("late answer: %s", f.raw)
	}
}

// Two tabs answer the same prompt: the first wins, the other is told who did.
func TestFirstAnswerWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	one := w.dial("")
	one.say("c1", "m1", "/ask text")
	p := one.prompt()
	two := w.dial("?session=other&conversation_id=c1")
	two.prompt()
	one.answer("c1", "a1", p.Parent, "Ada")
	if got := text(one.turn()); got != "You answered: Ada" {
		t.Errorf("got %q", got)
	}
	two.turn()
	two.answer("c1", "a2", p.Parent, "Bob")
	if f := two.next(); !isError(f) || !strings.Contains(f.Content.Details, "answered already by local") {
		t.Errorf("the second: %s", f.raw)
	}
}

// Old clients name the conversation by thread_id and get it back.
func TestThreadID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("")
	c.send(`{"type":"user_message","schema_type":"chat","id":"m1","thread_id":"thread_456","content":{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}}`)
	for _, f := range c.turn() {
		if f.Type != typeTrace && (f.Thread != "thread_456" || f.Conversation != "thread_456") {
			t.Errorf("%s", f.raw)
		}
	}
	if _, err := w.sessions.Get(t.Context(), chat.Trusted, "thread_456"); err != nil {
		t.Error(err)
	}
	// Without any name the socket has a conversation of its own.
	c.send(`{"type":"user_message","schema_type":"chat","thread_id":"default","content":{"messages":[{"role":"user","content":"one"}]}}`)
	first := c.turn()[0]
	c.send(`{"type":"user_message","schema_type":"chat","content":"two"}`)
	second := c.turn()[0]
	if first.Conversation == "" || first.Conversation != second.Conversation || first.Parent != "default" || first.Thread != "default" {
		t.Errorf("%s\n%s", first.raw, second.raw)
	}
}

// The other ways of speaking: every frame is checked against its schema.
func TestOtherSchemas(t *testing.T) {
	t.Parallel()
	for schema, done := range map[string]string{"documented": "completed", "agentiq": "completed", "aiq": "complete"} {
		t.Run(schema, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, setup{})
			c := w.dial("?schema=" + schema)
			for i, say := range []string{"/tool calc {\"a\":2}", "/think hm", "/plan 2", "/fail no", "/ask notification", "hi"} {
				c.say("c1", fmt.Sprint("m", i), say)
				frames := c.until(isEnd)
				end := frames[len(frames)-1]
				want := done
				if say == "/fail no" && schema != "aiq" {
					want = "failed"
				}
				if end.Status != want {
					t.Errorf("%s ends with %s", say, end.raw)
				}
				if schema == "agentiq" && end.Thread == "" {
					t.Errorf("no thread: %s", end.raw)
				}
			}
			for i, kind := range []string{"text", "binary_choice", "radio", "checkbox", "dropdown"} {
				c.say("c1", fmt.Sprint("p", i), "/ask "+kind)
				frames := c.until(func(f frame) bool { return f.Content.InputType != "" })
				p := frames[len(frames)-1]
				want := typePrompt
				if schema == "agentiq" {
					switch kind {
					case "radio", "dropdown":
						want = "system_human_interaction"
					case "checkbox":
						want = "system_human_interaction_name"
					}
				}
				if p.Type != want {
					t.Errorf("%s: %s", kind, p.raw)
				}
				answer := map[string]string{"text": "x", "binary_choice": "Continue"}[kind]
				if answer == "" {
					answer = "Email" // AI-Q sends back what it was given: the label
				}
				c.answer("c1", fmt.Sprint("a", i), p.Parent, answer)
				c.until(isEnd)
			}
			c.send(`{"type":"nonsense"}`)
			f := c.next()
			if schema == "agentiq" && (f.Content.Code != "112" || f.Content.Message != "ValidationError") {
				t.Errorf("%s", f.raw)
			}
		})
	}
	w := newWorld(t, setup{})
	if code, body, _ := w.post("GET", "/websocket?schema=klingon", ""); code != 422 || !strings.Contains(body, "klingon") {
		t.Errorf("%d %s", code, body)
	}
}

// What a client says of itself: the user is part of the actor, the version is
// answered, other keys are kept, secrets are not.
func TestWhatAMessageCarries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("")
	c.send(`{"type":"user_message","schema_type":"chat","id":"m1","conversation_id":"c1","schema_version":"1.0.0","flavour":{"a":1},
		"user":{"name":"Ada","email":"ada@example.com","team":"x"},"security":{"api_key":"sesame-secret","token":"sesame-token"},
		"content":{"messages":[{"role":"user","content":"hi"}]}}`)
	for _, f := range c.turn() {
		if f.Type != typeTrace && f.Version != "1.0.0" {
			t.Errorf("no version: %s", f.raw)
		}
	}
	facts, _, err := w.sessions.Read(t.Context(), chat.Trusted, "c1", chat.Range{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range facts {
		if strings.Contains(string(f.JSON), "sesame") {
			t.Errorf("a secret is stored: %s", f.JSON)
		}
		e, _ := f.Event()
		if b, ok := e.Body.(chat.UserMessage); ok {
			if e.Actor.Name != "Ada" || e.Actor.Email != "ada@example.com" || e.Actor.ID != "local" || e.Via != via {
				t.Errorf("actor %+v via %s", e.Actor, e.Via)
			}
			about := aboutOf(b)
			if string(about.Extra["flavour"]) != `{"a":1}` || string(about.User) != `{"team":"x"}` {
				t.Errorf("context %s", b.Context)
			}
		}
	}
	if s := fmt.Sprintf("%v %+v %#v", security{Token: "sesame"}, security{Token: "sesame"}, security{Token: "sesame"}); strings.Contains(s, "sesame") {
		t.Errorf("a secret is printed: %s", s)
	}
}

// Attachments are kept with the message, large ones as artifacts.
func TestAttachments(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("")
	large, smallData := strings.Repeat("wave", 20_000), "tiny"
	c.send(fmt.Sprintf(`{"type":"user_message","schema_type":"chat","id":"m1","conversation_id":"c1","content":{"messages":[{"role":"user","content":[
		{"type":"text","text":"look"},
		{"type":"image_url","image_url":{"url":"data:image/png;base64,%s","detail":"low"}},
		{"type":"image_url","image_url":{"url":"https://example.com/cat.png"}},
		{"type":"input_audio","input_audio":{"data":%q,"format":"wav"}},
		{"type":"video_url","video_url":{"url":"https://example.com/cat.mp4"}}]}]}}`,
		base64.StdEncoding.EncodeToString([]byte(smallData)), base64.StdEncoding.EncodeToString([]byte(large))))
	if got := text(c.turn()); got != "You said: look" {
		t.Errorf("got %q", got)
	}
	facts, _, err := w.sessions.Read(t.Context(), chat.Trusted, "c1", chat.Range{Types: []string{"user.message"}})
	if err != nil || len(facts) != 1 {
		t.Fatal(err, len(facts))
	}
	e, _ := facts[0].Event()
	parts := e.Body.(chat.UserMessage).Content
	if len(parts) != 5 {
		t.Fatalf("parts %+v", parts)
	}
	if parts[1].Type != "image" || parts[1].URL != "data:image/png;base64,dGlueQ==" || parts[1].Detail != "low" || parts[1].MediaType != "image/png" {
		t.Errorf("small image %+v", parts[1])
	}
	if parts[2].URL != "https://example.com/cat.png" || parts[4].Type != "video" {
		t.Errorf("links %+v %+v", parts[2], parts[4])
	}
	if parts[3].Type != "audio" || parts[3].Path == "" || parts[3].URL != "" || parts[3].Format != "wav" {
		t.Fatalf("large sound %+v", parts[3])
	}
	f, info, err := w.files.Get(t.Context(), "c1", parts[3].Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); err != nil || string(b) != large || info.MediaType != "audio/wav" {
		t.Errorf("the artifact has %d bytes of %s (%v)", len(b), info.MediaType, err)
	}
}

// Of a whole history only the last user message is new; the rest begins a new
// conversation, and is passed over in an old one.
func TestHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("")
	history := `{"type":"user_message","schema_type":"chat","id":%q,"conversation_id":"c1","content":{"messages":[
		{"role":"system","content":"be brief"},{"role":"user","content":[{"type":"text","text":"Hello, how are you?"}]},
		{"role":"assistant","content":[{"type":"text","text":"im good"}]},{"role":"user","content":[{"type":"text","text":%q}]}]}}`
	c.send(fmt.Sprintf(history, "m1", "one"))
	if got := text(c.turn()); got != "You said: one" {
		t.Errorf("got %q", got)
	}
	c.send(fmt.Sprintf(history, "m2", "two"))
	if got := text(c.turn()); got != "You said: two" {
		t.Errorf("got %q", got)
	}
	facts, _, err := w.sessions.Read(t.Context(), chat.Trusted, "c1", chat.Range{Types: []string{"user.message", "agent.text"}})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, f := range facts {
		e, _ := f.Event()
		switch b := e.Body.(type) {
		case chat.UserMessage:
			said = append(said, "> "+b.Text)
			if b.Text == "one" && aboutOf(b).System != "be brief" {
				t.Errorf("context %s", b.Context)
			}
		case chat.AgentText:
			said = append(said, "< "+b.Text)
		}
	}
	if got := strings.Join(said, " | "); got != "> Hello, how are you? | < im good | > one | < You said: one | > two | < You said: two" {
		t.Errorf("the log says %s", got)
	}
}

// Who is speaking can be said by a header, in the address, by auth_message, or
// by each message.
func TestAuthentication(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{secured: true})
	c := w.dial("")
	c.say("c1", "m1", "hi")
	frames := c.until(isEnd)
	if f := frames[1]; f.Content.Code != codeAuth {
		t.Errorf("nobody gets %s", f.raw)
	}
	c.send(`{"type":"auth_message","payload":{"method":"jwt","token":"wrong"}}`)
	if f := c.next(); f.Type != typeAuthResponse || f.Status != "error" || f.Payload == nil || f.Payload.Code != codeAuth {
		t.Errorf("a wrong token: %s", f.raw)
	}
	c.send(`{"type":"auth_message","payload":{"method":"dance"}}`)
	if f := c.next(); f.Type != typeAuthResponse || f.Status != "error" {
		t.Errorf("a wrong method: %s", f.raw)
	}
	secured := func(token string) string {
		return strings.Replace(userMessage("c1", "m2", "chat", "hi"), `"content"`, fmt.Sprintf(`"security":{"token":%q},"content"`, token), 1)
	}
	c.send(secured("wrong"))
	if f := c.until(isEnd)[1]; f.Content.Code != codeAuth {
		t.Errorf("a wrong token in a message: %s", f.raw)
	}
	c.send(secured(tokenOf("bob")))
	if got := text(c.turn()); got != "You said: hi" {
		t.Errorf("bob by his message: %q", got)
	}
	c.send(fmt.Sprintf(`{"type":"auth_message","payload":{"method":"api_key","token":%q}}`, tokenOf("alice")))
	f := c.next()
	if f.Status != "success" || f.UserID == "" {
		t.Errorf("alice: %s", f.raw)
	}
	c.say("c2", "m1", "hi")
	if got := text(c.turn()); got != "You said: hi" {
		t.Errorf("alice: %q", got)
	}
	key := w.dial("", "X-API-Key", tokenOf("alice"))
	key.say("c3", "m1", "hi")
	key.turn()
	owners := map[chat.SessionID]string{"c1": "bob", "c2": "alice", "c3": "alice"}
	for id, owner := range owners {
		if s, err := w.sessions.Get(t.Context(), chat.Trusted, id); err != nil || s.Owner.ID != owner {
			t.Errorf("%s belongs to %s, want %s (%v)", id, s.Owner.ID, owner, err)
		}
	}
	if code, _, _ := w.post("GET", "/websocket?session=%3Cscript%3E", ""); code != 403 {
		t.Errorf("a bad session parameter: %d", code)
	}
}

// After auth_message the conversation of the address is followed.
func TestAuthThenResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{secured: true})
	c := w.dial("?conversation_id=c1", "Authorization", "Bearer "+tokenOf("alice"))
	c.say("c1", "m1", "/ask text")
	c.prompt()
	c.drop()
	back := w.dial("?conversation_id=c1")
	back.send(fmt.Sprintf(`{"type":"auth_message","payload":{"method":"jwt","token":%q}}`, tokenOf("alice")))
	p := back.prompt()
	back.answer("c1", "a", p.Parent, "Ada")
	if got := text(back.turn()); got != "You answered: Ada" {
		t.Errorf("got %q", got)
	}
}

// A client that reads nothing and then everything misses nothing.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("")
	c.say("c1", "m1", "/stream 3000")
	w.running("c1")
	w.ended("c1", 1)
	if got := text(c.turn()); got != words1toN(3000) {
		t.Errorf("%d bytes", len(got))
	}
}

// The agent's trace id is what the trace frame carries.
func TestTrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("")
	c.say("c1", "m1", "/sleep 0.3")
	w.running("c1")
	draft := chat.NewDraft(chat.AgentTrace{TraceID: "trace-77"})
	if _, err := w.sessions.Append(t.Context(), chat.Trusted, "c1", []chat.Draft{draft}); err != nil {
		t.Fatal(err)
	}
	frames := c.turn()
	if last := frames[len(frames)-1]; last.Content.Trace != "trace-77" || last.Parent != "m1" {
		t.Errorf("%s", last.raw)
	}
}

// An erased conversation answers gone, and the socket stays of use.
func TestErased(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("")
	c.say("c1", "m1", "hi")
	c.turn()
	if _, err := w.sessions.Erase(t.Context(), chat.Trusted, "c1"); err != nil {
		t.Fatal(err)
	}
	c.until(isEnd)
	c.say("c1", "m2", "hi")
	c.until(isError)
	c.until(isEnd)
	c.say("c2", "m1", "hi")
	if got := text(c.turn()); got != "You said: hi" {
		t.Errorf("got %q", got)
	}
}

// One socket follows a bounded number of conversations; those that were dropped
// are followed again when they are used.
func TestManyConversations(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("")
	for round := range 2 {
		for i := range maxThreads + 8 {
			c.say(fmt.Sprintf("c%d", i), fmt.Sprintf("m%d", round), "hi")
			if got := text(c.turn()); got != "You said: hi" {
				t.Fatalf("c%d: %q", i, got)
			}
		}
	}
	if n := len(w.dialect.desk.homes); n != maxThreads+8 {
		t.Errorf("%d places", n)
	}
}
