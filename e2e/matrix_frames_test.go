// Tests of access of every kind of caller to every frame and subject.

package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/freeport"
)

// nativeFrames has a request for alice's data for each op of the native socket.
var nativeFrames = map[string]string{
	"watch":                `"after":"0"`,
	"unwatch":              ``,
	"append":               `"events":[{"type":"user.message","payload":{"text":"intruder"}}]`,
	"preview":              `"preview":{"block":"b","offset":0,"text":"intruder"}`,
	"answer":               `"request_id":"{request_id}","answer":{"text":"intruder"}`,
	"stop":                 ``,
	"ping":                 ``,
	"launch_workstream":    `"launch":{"id":"intruder","instruction":"x"}`,
	"message_workstream":   `"workstream_id":"w1","text":"intruder"`,
	"steer_workstream":     `"workstream_id":"w1","command":"add_instruction","text":"intruder"`,
	"terminate_workstream": `"workstream_id":"w1"`,
	"workstream_status":    `"workstream_id":"w1"`,
}

// harmlessFrames has the ops that change nothing.
var harmlessFrames = map[string]bool{"unwatch": true, "ping": true}

// readingFrames has the ops that a viewer may send.
var readingFrames = map[string]bool{"watch": true, "workstream_status": true}

// workFrames has a request for alice's turn for each op of the worker socket.
var workFrames = map[string]string{
	"append":               `"events":[{"type":"agent.text","payload":{"text":"intruder"}}]`,
	"preview":              `"preview":{"block":"b","offset":0,"text":"intruder"}`,
	"done":                 ``,
	"fail":                 `"error":"intruder"`,
	"ping":                 ``,
	"launch_workstream":    `"launch":{"id":"intruder","instruction":"x"}`,
	"message_workstream":   `"workstream_id":"w1","text":"intruder"`,
	"steer_workstream":     `"workstream_id":"w1","command":"add_instruction","text":"intruder"`,
	"terminate_workstream": `"workstream_id":"w1"`,
	"workstream_status":    `"workstream_id":"w1"`,
	"workstream_progress":  `"workstream_id":"w1","progress":{"message":"intruder"}`,
}

// nemoFrames has a request for alice's data for each type of the NeMo socket.
var nemoFrames = map[string]string{
	"user_message":             `"schema_type":"chat","id":"m1","conversation_id":"hers","content":{"messages":[{"role":"user","content":[{"type":"text","text":"intruder"}]}]}`,
	"user_interaction_message": `"id":"m2","parent_id":"{request_id}","conversation_id":"asked","content":{"messages":[{"role":"user","content":[{"type":"text","text":"intruder"}]}]}`,
	"auth_message":             `"payload":{"method":"jwt","token":"not.a.token"}`,
}

// socket is a connection on which requests and answers alternate.
type socket struct {
	t    *testing.T
	ctx  context.Context
	conn *websocket.Conn
}

// dialAs opens a socket, or returns the status of the refusal.
func dialAs(t *testing.T, p *process, token, path string) (*socket, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	head := http.Header{}
	if token != "" {
		head.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	conn, res, err := websocket.Dial(ctx, p.url+path, &websocket.DialOptions{HTTPClient: client, HTTPHeader: head})
	if err != nil {
		if res == nil {
			t.Fatal(err)
		}
		return nil, res.StatusCode
	}
	conn.SetReadLimit(8 << 20)
	t.Cleanup(func() { conn.CloseNow() })
	return &socket{t, ctx, conn}, http.StatusSwitchingProtocols
}

// ask sends a frame and returns the first answer that matches.
func (k *socket) ask(frame string, match func(answer string) bool) string {
	k.t.Helper()
	if err := k.conn.Write(k.ctx, websocket.MessageText, []byte(frame)); err != nil {
		k.t.Fatalf("%s: %v", frame, err)
	}
	for {
		_, b, err := k.conn.Read(k.ctx)
		if err != nil {
			k.t.Fatalf("%s: %v", frame, err)
		}
		if match(string(b)) {
			return string(b)
		}
	}
}

// withID matches the answer to the request with an id.
func withID(id string) func(string) bool {
	return func(answer string) bool {
		var f struct{ ID string }
		return json.Unmarshal([]byte(answer), &f) == nil && f.ID == id
	}
}

// listedNames returns the names that an error about an unknown op or type lists.
func listedNames(t *testing.T, said, behind, pattern string) []string {
	t.Helper()
	_, list, ok := strings.Cut(said, behind)
	list, _, _ = strings.Cut(list, `"`)
	found := regexp.MustCompile(pattern).FindAllString(list, -1)
	if !ok || len(found) < 3 {
		t.Fatalf("the error lists no names: %s", said)
	}
	return found
}

func filled(hers owned, s string) string {
	for k, v := range hers {
		s = strings.ReplaceAll(s, "{"+k+"}", v)
	}
	return s
}

// TestEveryFrameChecksItsCaller: every kind of caller sends every frame of every socket
// and every subject for alice's data. The list of frames comes from the server.
func TestEveryFrameChecksItsCaller(t *testing.T) {
	for _, v := range testCallers(t) {
		t.Run(v.name, func(t *testing.T) { v.frames(t) })
	}
}

func (v *testCaller) frames(t *testing.T) {
	t.Helper()
	bus := freeport.Addr(t)
	p, hers := matrixServer(t, v, "--nats", bus)
	p.must(call{method: "POST", path: "/parley/v1/sessions", token: tokenOf("alice"), body: `{"id":"worked","agent":"helper"}`})
	p.must(call{method: "POST", path: "/parley/v1/sessions/worked/events", token: tokenOf("alice"), body: `{"type":"user.message","payload":{"text":"secret"}}`})
	waitFor(t, func() bool {
		return strings.Contains(p.must(call{path: "/parley/v1/sessions/worked/events", token: tokenOf("alice")}), "agent.status")
	}, "the turn does not wait for a worker")
	turn := field(t, p.must(call{path: "/parley/v1/sessions/worked/events?types=turn.started", token: tokenOf("alice")}), "events.0.payload.turn_id")
	state := func() string {
		return p.stateOf(hers) + p.sessionRecords(hers) + p.must(call{path: "/parley/v1/sessions/worked/events", token: tokenOf("alice")})
	}
	before := state()
	v.native(t, p, hers)
	v.work(t, p, turn)
	v.nemo(t, p, hers)
	v.aisdk(t, p, hers)
	v.subjects(t, p, bus)
	if v.class != member {
		if after := state(); after != before {
			t.Errorf("alice's data has changed:\n%s\n%s", before, after)
		}
	}
}

// native sends the frames of the native socket.
func (v *testCaller) native(t *testing.T, p *process, hers owned) {
	t.Helper()
	k, code := dialAs(t, p, v.token, "/parley/v1/ws")
	if v.class == unknown {
		if code != http.StatusUnauthorized {
			t.Errorf("the native socket: %d", code)
		}
		return
	}
	if k == nil {
		t.Fatalf("the native socket: %d", code)
	}
	for _, op := range listedNames(t, k.ask(`{"op":"?","id":"?"}`, withID("?")), "not one of ", `[a-z_]+[a-z]`) {
		rest, ok := nativeFrames[op]
		if !ok {
			t.Errorf("no frame for the op %q: add it to nativeFrames", op)
			continue
		}
		if rest != "" {
			rest = "," + filled(hers, rest)
		}
		got := k.ask(`{"op":"`+op+`","id":"`+op+`","session_id":"hers"`+rest+`}`, withID(op))
		refused := strings.Contains(got, `"not_found"`) || strings.Contains(got, `"denied"`)
		switch {
		case strings.Contains(got, `"internal"`):
			t.Errorf("%s: %s", op, got)
		case v.class == member && strings.Contains(got, `"invalid"`):
			t.Errorf("what nativeFrames has for %s is not well formed, so it proves nothing: %s", op, got)
		case harmlessFrames[op], v.class == member, v.class == viewer && readingFrames[op]:
		case !refused:
			t.Errorf("%s is accepted: %s", op, got)
		}
		if v.class == stranger && (strings.Contains(got, "secret") || strings.Contains(got, `"alice"`)) {
			t.Errorf("%s shows alice's data: %s", op, got)
		}
	}
}

// work sends the frames of the worker socket: for the agent of alice's session, and for
// an agent that the caller may serve, with alice's turn.
func (v *testCaller) work(t *testing.T, p *process, turn string) {
	t.Helper()
	want := http.StatusForbidden
	if v.class == unknown {
		want = http.StatusUnauthorized
	}
	if k, code := dialAs(t, p, v.token, "/parley/v1/agents/helper/work"); code != want {
		t.Errorf("serving alice's agent: %d", code)
		if k != nil {
			k.conn.CloseNow() // alice's turn must not be assigned to the caller
		}
	}
	if v.name != "agent of another name" {
		return
	}
	k, code := dialAs(t, p, v.token, "/parley/v1/agents/other/work")
	if k == nil {
		t.Fatalf("the socket of workers: %d", code)
	}
	k.ask(`{"op":"ready","id":"ready","slots":1}`, withID("ready"))
	for _, op := range listedNames(t, k.ask(`{"op":"?","id":"?"}`, withID("?")), "not one of ", `[a-z_]+[a-z]`) {
		rest, ok := workFrames[op]
		if !ok {
			t.Errorf("no frame for the worker op %q: add it to workFrames", op)
			continue
		}
		if rest != "" {
			rest = "," + rest
		}
		got := k.ask(`{"op":"`+op+`","id":"`+op+`","session_id":"worked","turn_id":"`+turn+`"`+rest+`}`, withID(op))
		if !harmlessFrames[op] && !strings.Contains(got, `"error"`) || strings.Contains(got, "secret") || strings.Contains(got, `"internal"`) {
			t.Errorf("%s of a worker: %s", op, got)
		}
	}
}

// nemo sends the frames of NeMo's socket, which accepts every connection.
func (v *testCaller) nemo(t *testing.T, p *process, hers owned) {
	t.Helper()
	if v.class == member {
		return // a conversation id means a session of the member's own; see TestChosenIDNeverReachesAnotherUsersSession
	}
	isError := func(answer string) bool { return strings.Contains(answer, `"error_message"`) }
	k, code := dialAs(t, p, v.token, "/websocket?conversation_id=hers")
	if k == nil {
		if v.class != unknown || code != http.StatusUnauthorized {
			t.Errorf("NeMo's socket: %d", code)
		}
		return
	}
	var types []string
	if v.class != unknown {
		types = listedNames(t, k.ask(`{"type":"?"}`, isError), "send ", `[a-z_]+_message`)
	} else {
		for name := range nemoFrames {
			types = append(types, name)
		}
	}
	slices.Sort(types)
	for _, typ := range types {
		rest, ok := nemoFrames[typ]
		if !ok {
			t.Errorf("no frame for the type %q: add it to nemoFrames", typ)
			continue
		}
		got := k.ask(`{"type":"`+typ+`",`+filled(hers, rest)+`}`, func(a string) bool {
			return isError(a) || strings.Contains(a, `"status":"complete"`) || strings.Contains(a, `"auth_response_message"`)
		})
		taken := !isError(got) && !strings.Contains(got, `"error"`)
		if taken && (v.class == unknown || typ != "user_message") {
			t.Errorf("%s is accepted: %s", typ, got)
		}
		if strings.Contains(got, "secret") {
			t.Errorf("%s shows alice's data: %s", typ, got)
		}
	}
}

// aisdk sends the frames of the AI SDK's socket with the token in the handshake, and in each frame.
func (v *testCaller) aisdk(t *testing.T, p *process, hers owned) {
	t.Helper()
	if v.class == member {
		return // a chat id means a session of the member's own, as in NeMo's dialect
	}
	for _, handshake := range []string{v.token, ""} {
		k, code := dialAs(t, p, handshake, "/api/chat")
		if k == nil {
			t.Errorf("the socket of the AI SDK: %d", code)
			return
		}
		headers := `{}`
		if handshake == "" && v.token != "" {
			headers = `{"authorization":` + quoted("Bearer "+v.token) + `}`
		}
		for _, frame := range []string{`"type":"resume","id":"hers"`, `"type":"resume","id":"asked"`, `"type":"send",` + strings.TrimSuffix(aisdkSend("hers", "intruder")[1:], "}")} {
			got := k.ask(`{`+filled(hers, frame)+`,"requestId":"r","headers":`+headers+`,"body":{}}`, func(a string) bool {
				if strings.Contains(a, "secret") {
					t.Errorf("%s shows alice's data: %s", frame, a)
				}
				return !strings.Contains(a, `"type":"chunk"`) && !strings.Contains(a, `"type":"start"`)
			})
			if v.class == unknown && !strings.HasPrefix(got, `{"type":"error"`) {
				t.Errorf("%s is accepted: %s", frame, got)
			}
		}
	}
}

// subjects uses x1 without a credential, with the token, and with a credential for
// another session.
func (v *testCaller) subjects(t *testing.T, p *process, bus string) {
	t.Helper()
	if c, err := nats.Connect("nats://"+bus, nats.Token(v.token), nats.NoReconnect()); err == nil {
		c.Close()
		t.Error("NATS accepts the token, for all sessions of all workspaces")
	}
	if v.class != stranger {
		return // a caller without a credential gets none; viewers and members may subscribe
	}
	own := field(t, p.must(call{method: "POST", path: "/parley/v1/sessions", token: v.token, body: `{"agent":"none"}`}), "session_id")
	var cred x1.Credential
	if err := json.Unmarshal([]byte(p.must(call{method: "POST", path: "/parley/v1/sessions/" + own + "/credentials", token: v.token, body: `{}`})), &cred); err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 64)
	c, err := nats.Connect("nats://"+bus, append(credentialOf(cred, refused), nats.NoReconnect())...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, kind := range []x1.Kind{x1.Events, x1.Archive, x1.Input, x1.Delta, x1.Presence, x1.Traffic, x1.History} {
		for _, subject := range []string{"x1.session.hers.", "x1.up.hers."} {
			if err := c.Publish(subject+string(kind), []byte(`{"session_id":"hers","type":"user.message","payload":{"text":"intruder"}}`)); err != nil {
				t.Fatal(err)
			}
			if denied(refused) == nil {
				t.Errorf("a credential for another session publishes on %s%s", subject, kind)
			}
		}
		sub, err := c.SubscribeSync("x1.session.hers." + string(kind))
		if err != nil {
			t.Fatal(err)
		}
		if denied(refused) == nil {
			t.Errorf("a credential for another session subscribes to %s", kind)
		}
		_ = sub.Unsubscribe() // the server refused it
	}
}
