package nemo

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

// All payloads of a long thinking block together are at most a few times its length, and each payload has a bound.
func TestStepPayloadsAreBounded(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("")
	thought := strings.Repeat("thinking hard ", 1500)
	c.say("c1", "m1", "/think "+thought)
	sum := 0
	for _, f := range c.readTurn() {
		if f.Type == typeStep {
			sum += len(f.Content.Payload)
			if len(f.Content.Payload) > maxPayload+200 {
				t.Errorf("a payload of %d bytes", len(f.Content.Payload))
			}
		}
	}
	if sum == 0 || sum > 4*len(thought) {
		t.Errorf("%d bytes of steps for a thought of %d", sum, len(thought))
	}
	params, _ := json.Marshal(map[string]string{"big": strings.Repeat("<x>", 20000)})
	c.say("c1", "m2", "/tool calc "+string(params))
	last := ""
	for _, f := range c.readTurn() {
		if f.Type == typeStep && len(f.Content.Payload) > 4*maxPayload {
			t.Errorf("a payload of %d bytes", len(f.Content.Payload))
		}
		if f.Type == typeStep {
			last = f.Content.Payload
		}
	}
	// What came of a call is seen, however large its input is.
	if !strings.Contains(last, "**Input:**") || !strings.Contains(last, "**Output:**") {
		t.Errorf("the step ends with %q", last[max(0, len(last)-200):])
	}
}

// Every bad frame gets an error_message with the right code, and the socket stays open.
func TestBadFrames(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("")
	user := `{"type":"user_message","schema_type":"chat_stream","id":"x1","conversation_id":"c1","content":%s}`
	for name, tc := range map[string]struct{ frame, code string }{
		"no JSON":           {`{"type":`, codeMessage},
		"no object":         {`[1,2]`, codeMessage},
		"empty":             {` `, codeMessage},
		"number":            {`42`, codeMessage},
		"too deep":          {strings.Repeat("[", 1000), codeMessage},
		"wrong kind":        {`{"type":"user_message","id":7}`, codeMessage},
		"half a character":  {fmt.Sprintf(user, `{"messages":[{"role":"user","content":"\ud83d"}]}`), codeMessage},
		"a deep message":    {fmt.Sprintf(user, strings.Repeat("[", 1000)+strings.Repeat("]", 1000)), codeMessage},
		"a user of 5 KiB":   {strings.Replace(fmt.Sprintf(user, `"hi"`), `"id"`, `"user":{"life":"`+strings.Repeat("x", 5<<10)+`"},"id"`, 1), codeMessage},
		"no type":           {`{"id":"x1"}`, codeMessageType},
		"unknown type":      {`{"type":"shout"}`, codeMessageType},
		"mistyped":          {strings.Replace(fmt.Sprintf(user, `"hi"`), "user_message", "usr_message", 1), codeMessageType},
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
			if strings.Contains(tc.frame, `"c1"`) && (got.Conversation != "c1" || got.Parent != "x1") {
				t.Errorf("it is not said to what: %s", got.raw)
			}
			if strings.Contains(tc.frame, `"user_message"`) || strings.Contains(tc.frame, `"schema_type"`) {
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
	if got := textOf(c.readTurn()); got != "You said: hi" {
		t.Errorf("the socket is not usable any more: %q", got)
	}
}

// A failed turn shows its error, also when it is the first thing that happens.
func TestWorkflowError(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("")
	c.say("c1", "m1", "/fail out of luck")
	frames := c.readTurn()
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

// The stream types come in pieces, the others at once.
func TestSchemaTypes(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newServer(t, setup{agents: map[string]agent.Agent{"demo": counter{30, map[int]chan struct{}{10: gate}}}})
	c := w.dial("")
	for schema, pieces := range map[string]bool{"chat": false, "generate": false, "chat_stream": true, "generate_stream": true} {
		c.send(userMessage("c-"+schema, "m1", schema, "go"))
		var frames []frame
		if pieces {
			frames = c.readWords(1) // words that are written while the client does not read come in one frame
		}
		gate <- struct{}{}
		frames = c.readRest(frames)
		n := 0
		for _, f := range frames {
			if f.Type == typeResponse && f.Status == "in_progress" {
				n++
			}
		}
		if textOf(frames) != words1toN(30) || pieces == (n == 1) {
			t.Errorf("%s: %d frames, %q", schema, n, textOf(frames))
		}
	}
}

// Old clients name the conversation by thread_id and get it back.
func TestThreadID(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("")
	c.send(`{"type":"user_message","schema_type":"chat","id":"m1","thread_id":"thread_456","content":{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}}`)
	for _, f := range c.readTurn() {
		if f.Type != typeTrace && (f.Thread != "thread_456" || f.Conversation != "thread_456") {
			t.Errorf("%s", f.raw)
		}
	}
	if _, err := w.Sessions.Get(t.Context(), chat.Trusted, "thread_456"); err != nil {
		t.Error(err)
	}
	// Without any name the socket has a conversation of its own.
	c.send(`{"type":"user_message","schema_type":"chat","thread_id":"default","content":{"messages":[{"role":"user","content":"one"}]}}`)
	first := c.readTurn()[0]
	c.send(`{"type":"user_message","schema_type":"chat","content":"two"}`)
	second := c.readTurn()[0]
	if first.Conversation == "" || first.Conversation != second.Conversation || first.Parent != "default" || first.Thread != "default" {
		t.Errorf("%s\n%s", first.raw, second.raw)
	}
}

// Every frame is checked against its schema.
func TestOtherSchemas(t *testing.T) {
	t.Parallel()
	for schema, done := range map[string]string{"documented": "completed", "agentiq": "completed", "aiq": "complete"} {
		t.Run(schema, func(t *testing.T) {
			t.Parallel()
			w := newServer(t, setup{})
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
	w := newServer(t, setup{})
	if code, body, _ := w.Call("GET", "/websocket?schema=klingon", ""); code != 422 || !strings.Contains(body, "klingon") {
		t.Errorf("%d %s", code, body)
	}
}

func TestSlowClientMissesNothing(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("")
	c.say("c1", "m1", "/stream 3000")
	w.running("c1")
	w.waitTurns("c1", 1)
	if got := textOf(c.readTurn()); got != words1toN(3000) {
		t.Errorf("%d bytes", len(got))
	}
}

// The trace frame has the agent's trace id.
func TestTrace(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newServer(t, setup{agents: map[string]agent.Agent{"demo": counter{1, map[int]chan struct{}{0: gate}}}})
	c := w.dial("")
	c.say("c1", "m1", "go")
	w.running("c1")
	draft := chat.NewDraft(chat.AgentTrace{TraceID: "trace-77"})
	if _, err := w.Sessions.Append(t.Context(), chat.Trusted, "c1", []chat.Draft{draft}); err != nil {
		t.Fatal(err)
	}
	close(gate)
	frames := c.readTurn()
	if last := frames[len(frames)-1]; last.Content.Trace != "trace-77" || last.Parent != "m1" {
		t.Errorf("%s", last.raw)
	}
}

// An erased conversation answers gone, and the socket stays usable.
func TestErasedConversation(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("")
	c.say("c1", "m1", "hi")
	c.readTurn()
	if _, err := w.Sessions.Erase(t.Context(), chat.Trusted, "c1"); err != nil {
		t.Fatal(err)
	}
	c.until(isEnd)
	c.say("c1", "m2", "hi")
	c.until(isError)
	c.until(isEnd)
	c.say("c2", "m1", "hi")
	if got := textOf(c.readTurn()); got != "You said: hi" {
		t.Errorf("got %q", got)
	}
}
