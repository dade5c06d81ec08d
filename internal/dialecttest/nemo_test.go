package dialecttest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/chat"
)

// nemoClient returns a client of a server that sends frames on each connection: with several connections those of the first, the second
// and so on. It sends them when it has read one frame, or at once if the client only reads.
func nemoClient(t *testing.T, reads bool, connections ...[]string) (c Client, count func() int) {
	t.Helper()
	var accepted atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		n := int(accepted.Add(1))
		if n > len(connections) {
			t.Errorf("connection %d is one too many", n)
			return
		}
		if !reads {
			_, _, err = conn.Read(r.Context())
		}
		for _, frame := range connections[n-1] {
			if err == nil {
				err = conn.Write(r.Context(), websocket.MessageText, []byte(frame))
			}
		}
		if err != nil {
			t.Error(err)
		}
		_, _, _ = conn.Read(r.Context()) // until the client has gone
	}))
	t.Cleanup(server.Close)
	c, err := New("nemo", Options{URLs: []string{server.URL}, Session: "s1", Idle: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, func() int { return int(accepted.Load()) }
}

// limited is the context of a call, which must not wait forever.
func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// The frames of a server. A response without text is an end.
func nemoText(id, parent, text string) string {
	return fmt.Sprintf(`{"type":"system_response_message","id":%q,"parent_id":%q,"content":{"text":%q},"status":"in_progress"}`, id, parent, text)
}

func nemoEnd(id, parent string) string {
	return fmt.Sprintf(`{"type":"system_response_message","id":%q,"parent_id":%q,"content":{"text":null},"status":"complete"}`, id, parent)
}

func nemoPrompt(id, parent string) string {
	return fmt.Sprintf(`{"type":"system_interaction_message","id":%q,"parent_id":%q,"content":{"input_type":"text","text":"Name?"},"status":"in_progress"}`, id, parent)
}

const nemoRefusal = `{"type":"error_message","id":"e1","parent_id":"m1","content":{"code":"workflow_error","details":"try again"},"status":"in_progress"}`

// The server says that an answer came late, also behind the end of the turn.
func TestNemoClientWaitsUntilItsAnswerIsHandled(t *testing.T) {
	ctx := limited(t)
	id, name := turnOf(1)
	const late = `{"type":"error_message","id":"e1","parent_id":"a1","content":{"code":"invalid_message","details":"the prompt is answered"},"status":"in_progress"}`
	const handled = `{"type":"error_message","id":"e2","parent_id":"a1-handled","content":{"code":"invalid_message_type"},"status":"in_progress"}`
	c, _ := nemoClient(t, true, []string{nemoPrompt("p1", "m0"), nemoText(name, "m0", "hello"), nemoEnd(name, "m0"), late, handled})
	asked, err := c.Join(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if seen, err := c.Answer(ctx, asked.Prompt, "a1", "Ada"); err != nil || seen.End != Done || !seen.Late {
		t.Errorf("%q, late %t, %v", seen.End, seen.Late, err)
	}
}

// turnOf is the id of a turn, and its name in frames.
func turnOf(n byte) (id, name string) {
	turn := chat.ID{15: n}
	return turn.Text(chat.TurnPrefix), turn.UUID()
}

// A server that cannot store a message refuses it with an error and an end. The client sends it again and waits for the answer.
func TestNemoClientDoesNotTakeARefusalForAnAnswer(t *testing.T) {
	c, connections := nemoClient(t, false, []string{nemoRefusal, nemoEnd("x", "m1")}, []string{nemoText("t1", "m1", "hello"), nemoEnd("t1", "m1")})
	seen, err := c.Say(limited(t), "m1", "hi")
	if err != nil || seen.End != Done || strings.Join(seen.Texts, "") != "hello" || connections() != 2 {
		t.Errorf("after %d connections the client has %q, %q, %v", connections(), seen.Texts, seen.End, err)
	}
}

// The answer to the same message on an earlier connection may come right behind the refusal.
func TestNemoClientTakesAnAnswerBehindARefusal(t *testing.T) {
	c, connections := nemoClient(t, false, []string{nemoRefusal, nemoEnd("x", "m1"), nemoText("t1", "m1", "hello"), nemoEnd("t1", "m1")})
	seen, err := c.Say(limited(t), "m1", "hi")
	if err != nil || seen.End != Done || strings.Join(seen.Texts, "") != "hello" || connections() != 1 {
		t.Errorf("after %d connections the client has %q, %q, %v", connections(), seen.Texts, seen.End, err)
	}
}

// After a cut the server may send again what belongs to a turn that has ended. It counts as repeated, and ends nothing.
func TestNemoClientTellsTurnsApart(t *testing.T) {
	_, before := turnOf(1)
	id, now := turnOf(2)
	old := []string{nemoEnd(before, "m0"), nemoText(before, "m0", "tail"), nemoEnd(before, "m0")}
	for name, call := range map[string]func(context.Context, Client) (Seen, error){
		"says":  func(ctx context.Context, c Client) (Seen, error) { return c.Say(ctx, "m1", "hi") },
		"joins": func(ctx context.Context, c Client) (Seen, error) { return c.Join(ctx, id) },
	} {
		c, _ := nemoClient(t, name == "joins", slices.Concat(old, []string{nemoText(now, "m1", "hello"), nemoEnd(now, "m1")}))
		seen, err := call(limited(t), c)
		if err != nil || seen.End != Done || strings.Join(seen.Texts, "") != "hello" || seen.Repeated != len("tail") {
			t.Errorf("a client that %s has %q, %q, %d bytes twice, %v", name, seen.Texts, seen.End, seen.Repeated, err)
		}
	}
}

// A prompt that was returned is not returned again, also with the id that it has when it is sent later; another one of the same turn is.
func TestNemoClientIgnoresAPromptThatItHasReturned(t *testing.T) {
	ctx := limited(t)
	id, name := turnOf(1)
	first, later, second := chat.ID{14: 1}.UUID(), chat.ID{14: 1, 15: 9}.UUID(), chat.ID{14: 2}.UUID()
	c, _ := nemoClient(t, true, []string{nemoPrompt(first, "m0"), nemoPrompt(first, "m0"), nemoPrompt(second, "m0"), nemoPrompt(later, "m0"), nemoText(name, "m0", "hello"), nemoEnd(name, "m0")})
	for i, call := range []func() (Seen, error){
		func() (Seen, error) { return c.Join(ctx, id) },
		func() (Seen, error) { return c.Rest(ctx) },
		func() (Seen, error) { return c.Rest(ctx) },
	} {
		want := []End{Asks, Asks, Done}[i]
		if seen, err := call(); err != nil || seen.End != want {
			t.Errorf("call %d: %q, %q, %v", i+1, seen.Texts, seen.End, err)
		}
	}
}
