package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/freeport"
)

// dialects that can speak in a session.
var dialects = []string{"native", "nemo", "vertesia", "letta", "x1"}

// quoted is a text as JSON.
func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// hall is a server with one session in which all dialects meet.
type hall struct {
	*process
	id   string
	bus  string
	nc   *nats.Conn
	nemo *nemoEar // speaks, too
}

// openHall starts a server and a session.
func openHall(t *testing.T) *hall {
	t.Helper()
	bus := freeport.Addr(t)
	h := &hall{process: serveAt(t, freeport.Addr(t), t.TempDir(), "--nats", bus), id: "hall", bus: bus}
	h.post("/parley/v1/sessions", `{"id":"hall"}`)
	h.nc = natsOf(t, bus)
	return h
}

// again kills the server and starts it on the same data and addresses.
func (h *hall) again(data string) {
	h.kill()
	h.process = serveAt(h.t, h.addr, data, "--nats", h.bus)
}

// say sends a message as a client of that dialect does.
func (h *hall) say(dialect, text string) {
	h.t.Helper()
	switch dialect {
	case "native":
		h.post("/parley/v1/sessions/"+h.id+"/events", `{"type":"user.message","payload":{"text":`+quoted(text)+`}}`)
	case "vertesia":
		h.post("/api/v1/agents/"+h.id+"/signal/UserInput", `{"message":`+quoted(text)+`}`)
	case "letta":
		// What it answers is the stream of the run: read it to the end.
		h.post("/v1/conversations/"+h.id+"/messages", `{"messages":[{"role":"user","content":`+quoted(text)+`}],"streaming":true,"background":true}`)
	case "x1":
		if r := h.input("user.message", `{"text":`+quoted(text)+`}`); r.Error != nil {
			h.t.Fatalf("x1 refuses %q: %+v", text, r.Error)
		}
	case "nemo":
		h.nemo.say(h.t, h.id, text)
	default:
		h.t.Fatalf("nobody speaks %q", dialect)
	}
}

// input publishes on the session's input subject and waits for what became of it.
func (h *hall) input(typ, payload string) (r x1.Reply) {
	h.t.Helper()
	m, err := h.nc.Request(x1.Subject(chat.SessionID(h.id), x1.Input), []byte(`{"session_id":"`+h.id+`","type":"`+typ+`","payload":`+payload+`}`), 30*time.Second)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := json.Unmarshal(m.Data, &r); err != nil {
		h.t.Fatalf("%v: %s", err, m.Data)
	}
	return r
}

// nemoEar is a NeMo client on a WebSocket. It comes back by itself with the
// conversation's id, which is all that the protocol has.
type nemoEar struct {
	mu     sync.Mutex
	conn   *websocket.Conn
	frames []nemoFrame
	faults []string
	news   chan struct{}
	sent   int
	sure   []nemoSure
}

type nemoFrame struct {
	Type         string `json:"type"`
	ID           string `json:"id"`
	Parent       string `json:"parent_id"`
	Conversation string `json:"conversation_id"`
	Status       string `json:"status"`
	Content      struct {
		Text      *string         `json:"text"`
		Name      string          `json:"name"`
		Payload   string          `json:"payload"`
		Code      string          `json:"code"`
		Details   string          `json:"details"`
		InputType string          `json:"input_type"`
		Options   json.RawMessage `json:"options"`
	} `json:"content"`
	life int // of the connection that brought it
}

// listenNemo opens a socket and reads until the test ends.
func (h *hall) listenNemo(t *testing.T) *nemoEar {
	t.Helper()
	n := &nemoEar{news: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	ready := make(chan struct{})
	done := make(chan struct{})
	address := "ws://" + h.addr + "/websocket?conversation_id=" + h.id
	go func() {
		defer close(done)
		n.run(ctx, address, ready)
	}()
	t.Cleanup(func() {
		stop()
		<-done
		for _, f := range n.faults {
			t.Errorf("nemo: %s", f)
		}
	})
	select {
	case <-ready:
	case <-time.After(30 * time.Second):
		t.Fatal("no WebSocket")
	}
	return n
}

func (n *nemoEar) run(ctx context.Context, url string, ready chan struct{}) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for life := 0; ctx.Err() == nil; {
		conn, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: client})
		if err != nil {
			pause(ctx, 20*time.Millisecond)
			continue
		}
		conn.SetReadLimit(1 << 24)
		n.mu.Lock()
		n.conn = conn
		n.mu.Unlock()
		if life++; life == 1 {
			close(ready)
		}
		for {
			_, b, err := conn.Read(ctx)
			if err != nil {
				break
			}
			n.frame(b, life)
		}
		conn.CloseNow()
	}
}

func (n *nemoEar) frame(b []byte, life int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := nemoFrame{life: life}
	if err := json.Unmarshal(b, &f); err != nil {
		n.faults = append(n.faults, fmt.Sprintf("%v: %s", err, b))
	}
	n.frames = append(n.frames, f)
	close(n.news)
	n.news = make(chan struct{})
}

// write sends a frame, on whatever connection there is.
func (n *nemoEar) write(t testing.TB, frame string) {
	t.Helper()
	n.mu.Lock()
	conn := n.conn
	n.mu.Unlock()
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(frame)); err != nil {
		t.Fatal(err)
	}
}

func (n *nemoEar) say(t testing.TB, conversation, text string) {
	t.Helper()
	n.sent++
	n.write(t, fmt.Sprintf(`{"type":"user_message","schema_type":"chat_stream","id":"m-%d","conversation_id":%q,"content":{"messages":[{"role":"user","content":[{"type":"text","text":%s}]}]}}`, n.sent, conversation, quoted(text)))
}

func (n *nemoEar) reply(t testing.TB, conversation, parent, text string) {
	t.Helper()
	n.sent++
	n.write(t, fmt.Sprintf(`{"type":"user_interaction_message","id":"a-%d","conversation_id":%q,"thread_id":"default","parent_id":%q,"content":{"messages":[{"role":"user","content":[{"type":"text","text":%s}]}]}}`, n.sent, conversation, parent, quoted(text)))
}

// until waits for a frame after the first so many.
func (n *nemoEar) until(t testing.TB, from int, fits func(nemoFrame) bool) nemoFrame {
	t.Helper()
	late := time.After(60 * time.Second)
	for {
		n.mu.Lock()
		frames, news := n.frames, n.news
		n.mu.Unlock()
		for ; from < len(frames); from++ {
			if fits(frames[from]) {
				return frames[from]
			}
		}
		select {
		case <-news:
		case <-late:
			t.Fatalf("no such frame; the last were %+v", frames[max(0, len(frames)-4):])
		}
	}
}

// count is how many frames there are.
func (n *nemoEar) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.frames)
}

// answers are the texts of the answers that have ended, in their order.
func (n *nemoEar) answers() (list []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	open := map[string]*strings.Builder{}
	for _, f := range n.frames {
		if f.Type != "system_response_message" {
			continue
		}
		if open[f.Parent] == nil {
			open[f.Parent] = &strings.Builder{}
		}
		if f.Content.Text != nil {
			open[f.Parent].WriteString(*f.Content.Text)
		}
		if f.Status == "complete" {
			list = append(list, open[f.Parent].String())
			delete(open, f.Parent)
		}
	}
	return list
}

// credentialOf connects as the holder of a credential; what the server refuses is
// told on the channel.
func credentialOf(cred x1.Credential, refused chan<- error) []nats.Option {
	return []nats.Option{
		nats.UserInfo(cred.User, cred.Password), nats.CustomInboxPrefix(cred.InboxPrefix), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }),
	}
}

// denied waits for a refusal. It comes in front of the answer to a flush, and is
// handed over by a goroutine of the client's.
func denied(refused <-chan error) error {
	select {
	case err := <-refused:
		return err
	case <-time.After(20 * time.Second):
		return nil
	}
}
