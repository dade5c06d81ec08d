package dialecttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/chat"
)

// NemoFrame is a frame of a NeMo server.
type NemoFrame struct {
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
}

// NemoMessage is a frame that sends a message.
func NemoMessage(conversation, id, text string) string {
	return fmt.Sprintf(`{"type":"user_message","schema_type":"chat_stream","id":%q,"conversation_id":%q,"content":{"messages":[{"role":"user","content":[{"type":"text","text":%s}]}]}}`, id, conversation, Quote(text))
}

// NemoAnswer is a frame that answers a prompt.
func NemoAnswer(conversation, id, parent, text string) string {
	return fmt.Sprintf(`{"type":"user_interaction_message","id":%q,"conversation_id":%q,"thread_id":"default","parent_id":%q,"content":{"messages":[{"role":"user","content":[{"type":"text","text":%s}]}]}}`, id, conversation, parent, Quote(text))
}

// nemo is a NeMo client on a WebSocket. It reconnects with the conversation's id; the protocol has no cursor.
type nemo struct {
	base
	conn   *nemoConn
	stop   chan string     // the id of a message that replaces the running turn
	turn   string          // the turn that it follows, as frames name it; "" until something of it has come
	parent string          // the id of the message that the turn answers, if this client has sent it
	asked  map[string]bool // the prompts that were returned, see promptShown
}

// nemoConn is a connection that is read all the time, so that pings are answered.
type nemoConn struct {
	*websocket.Conn
	frames chan NemoFrame // closed when the connection has ended
	err    error          // why; set before that

	mu      sync.Mutex
	leaving bool          // pings are not answered any more
	left    chan struct{} // everything was read whose ping was answered; has room for one
}

// ping is called for each ping and reports whether it is answered.
func (c *nemoConn) ping(context.Context, []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaving {
		select {
		case c.left <- struct{}{}:
		default:
		}
	}
	return !c.leaving
}

// leave ends the connection when everything was read whose ping was answered: a ping may come before what it acknowledges.
func (c *nemoConn) leave() {
	c.mu.Lock()
	c.leaving = true
	c.mu.Unlock()
	select {
	case <-c.left:
	case <-time.After(200 * time.Millisecond): // nothing comes
	}
	c.CloseNow()
}

// Close ends the connection.
func (n *nemo) Close() {
	n.drop()
	n.base.Close()
}

func (n *nemo) drop() {
	if n.conn != nil {
		n.conn.CloseNow()
		for range n.conn.frames {
		}
		n.conn = nil
	}
}

// connect opens a connection.
func (n *nemo) connect(ctx context.Context, url string) error {
	dial, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c := &nemoConn{frames: make(chan NemoFrame, 10_000), left: make(chan struct{}, 1)}
	var err error
	c.Conn, _, err = websocket.Dial(dial, "ws"+strings.TrimPrefix(url, "http")+"/websocket?conversation_id="+n.opt.Session+"&session=of-"+n.opt.Session,
		&websocket.DialOptions{HTTPClient: n.http, OnPingReceived: c.ping})
	if err != nil {
		return broken{err}
	}
	c.SetReadLimit(1 << 24)
	n.conn = c
	go c.read()
	return nil
}

func (c *nemoConn) read() {
	defer close(c.frames)
	for {
		_, b, err := c.Read(context.Background())
		if err != nil {
			c.err = broken{err}
			return
		}
		var f NemoFrame
		if err := json.Unmarshal(b, &f); err != nil {
			c.err = fmt.Errorf("%w: %s", err, b)
			return
		}
		c.frames <- f
	}
}

func (n *nemo) Say(ctx context.Context, key, text string) (Seen, error) {
	n.turn, n.parent = "", key
	return n.follow(ctx, &nemoTurn{key: key, frame: NemoMessage(n.opt.Session, key, text)})
}

func (n *nemo) Join(ctx context.Context, turn string) (Seen, error) {
	id, ok := chat.ParseID(chat.TurnPrefix, turn)
	if !ok {
		return Seen{}, fmt.Errorf("%q is no turn", turn)
	}
	n.turn, n.parent = id.UUID(), ""
	return n.follow(ctx, &nemoTurn{})
}

func (n *nemo) Rest(ctx context.Context) (Seen, error) { return n.follow(ctx, &nemoTurn{}) }

func (n *nemo) Answer(ctx context.Context, p Prompt, key, text string) (Seen, error) {
	if p.Approval {
		text = "continue"
	}
	return n.follow(ctx, &nemoTurn{key: key, frame: NemoAnswer(n.opt.Session, key, p.Request, text), answers: true})
}

// Stop sends another message: NeMo has no other way to stop a turn. Say of the first message ends when this one is answered.
func (n *nemo) Stop(ctx context.Context, key string) error {
	select {
	case n.stop <- key:
	default: // it waits to be sent
	}
	return ctx.Err()
}

// nemoTurn is what follow is about.
type nemoTurn struct {
	key, frame string // what is sent; "" when the client only reads
	before     string // the key of the message that key replaces
	begun      bool   // something that follows from frame has come
	answers    bool   // frame is an answer: what follows from it may also follow from that of another client
	handled    bool   // the server has handled the answer; if it was late, the refusal has come
	ended      bool   // the end of the turn has come
	refused    bool   // the server could not take frame on this connection, and what follows a refusal has not come
	seen       Seen
	path       []string // what came on each connection, for errors
}

// follow sends a frame, if there is one, and reads until the answer is complete or a prompt comes. On a new connection it sends
// the frame again if nothing that follows from it has come, and an answer until the server has handled it.
func (n *nemo) follow(ctx context.Context, t *nemoTurn) (Seen, error) {
	n.opt.Progress()
	sent := false
	err := n.again(ctx, func(url string) error {
		if n.conn == nil {
			if err := n.connect(ctx, url); err != nil {
				return err
			}
			sent = false
		}
		t.seen.Texts = append(t.seen.Texts, "")
		t.refused = false
		err := n.read(ctx, t, &sent)
		if err == nil {
			return nil
		}
		// What has come by now counts, because the client has answered its pings.
		n.conn.leave()
		for f := range n.conn.frames {
			done, bad := n.take(t, f)
			if again := (broken{}); done || bad != nil && !errors.As(bad, &again) {
				err = bad
				break
			}
		}
		n.drop()
		t.path = append(t.path, fmt.Sprintf("(%s: %v)", url, err))
		return err
	})
	if err != nil && errors.Is(context.Cause(ctx), ErrUnseen) && strings.Join(t.seen.Texts, "") == "" {
		return Seen{Repeated: t.seen.Repeated}, nil
	}
	t.seen.Path = strings.Join(t.path[max(0, len(t.path)-40):], " ")
	if err != nil {
		err = fmt.Errorf("%w; %s", err, t.seen.Path)
	}
	return t.seen, err
}

// read sends the frame and reads one connection until the turn ends.
func (n *nemo) read(ctx context.Context, t *nemoTurn, sent *bool) error {
	limited, came, stop := n.patience(ctx)
	defer stop()
	for {
		if t.toSend() && !*sent {
			frames := []string{t.frame}
			if t.answers { // the server says nothing of an accepted answer; it handles one frame after the other
				frames = append(frames, fmt.Sprintf(`{"type":"none","id":%q,"conversation_id":%q}`, t.key+behindAnswer, n.opt.Session))
			}
			for _, f := range frames {
				if err := n.conn.Write(limited, websocket.MessageText, []byte(f)); err != nil {
					return broken{err}
				}
			}
			*sent = true
		}
		select {
		case f, ok := <-n.conn.frames:
			if !ok {
				return n.conn.err
			}
			came()
			if done, err := n.take(t, f); done || err != nil {
				return err
			}
		case key := <-n.stop:
			if t.before == "" {
				t.before, t.key, t.frame, t.begun, *sent = t.key, key, NemoMessage(n.opt.Session, key, "instead"), false, false
			}
		case <-limited.Done():
			return broken{context.Cause(limited)}
		}
	}
}

// behindAnswer is added to the id of an answer for that of the frame behind it, which the server refuses when it has handled the answer.
const behindAnswer = "-handled"

// toSend reports whether the frame has to be sent on a new connection.
func (t *nemoTurn) toSend() bool {
	if t.answers {
		return !t.handled
	}
	return t.frame != "" && !t.begun
}

// take adds a frame. It reports whether the turn has ended or asks.
func (n *nemo) take(t *nemoTurn, f NemoFrame) (bool, error) {
	note := f.Type + " " + f.Status + " " + f.Parent
	if f.Type == "error_message" {
		note += " " + f.Content.Code
	}
	if len(t.path) == 0 || t.path[len(t.path)-1] != note {
		t.path = append(t.path, note)
	}
	switch f.Type {
	case "error_message":
		if t.answers && f.Parent == t.key+behindAnswer {
			t.handled, t.refused = !t.refused, false
			return t.handled && t.ended, nil
		}
		return false, t.takeError(f)
	case "system_interaction_message":
		prompt := promptShown(f.ID)
		if n.asked[prompt] {
			return false, nil // it was sent again
		}
		n.asked[prompt] = true
		t.seen.End, t.seen.Prompt = Asks, Prompt{Request: f.Parent}
		return true, nil
	case "system_response_message":
		return n.takeResponse(t, f), nil
	}
	return false, nil
}

// promptShown returns the prompt that a frame shows. The low bits of the frame's id say how late it was sent: a prompt that is sent again has
// another id.
func promptShown(frame string) string {
	id, ok := chat.ParseID("", frame)
	if !ok {
		return frame
	}
	id[15] &^= 0x7f
	return id.UUID()
}

func (t *nemoTurn) takeError(f NemoFrame) error {
	if t.key != "" && f.Parent != t.key && f.Parent != t.before && !t.answers {
		return fmt.Errorf("an error came for %s: %+v", f.Parent, f.Content)
	}
	if f.Content.Code == "workflow_error" { // it cannot answer now
		t.refused = t.answers || !t.begun
		return broken{fmt.Errorf("%s: %s", f.Content.Code, f.Content.Details)}
	}
	if t.answers && (strings.Contains(f.Content.Details, "answered") || strings.Contains(f.Content.Details, "no prompt is open")) {
		t.seen.Late = true
		return nil
	}
	return fmt.Errorf("an error came: %s: %s", f.Content.Code, f.Content.Details)
}

// takeResponse adds text or an end. It reports whether the turn has ended.
func (n *nemo) takeResponse(t *nemoTurn, f NemoFrame) bool {
	text, ends := "", f.Status == "complete"
	if f.Content.Text != nil {
		text = *f.Content.Text
	}
	if t.refused && f.Content.Text == nil && f.Parent == t.key {
		t.refused = false // the end of the refusal
		return false
	}
	if t.before != "" && f.Parent == t.key { // it belongs to the message that replaces the turn
		if t.begun = true; ends {
			t.seen.End = Stopped
		}
		return ends
	}
	if n.turn == "" && f.Parent == n.parent {
		n.turn = f.ID
	}
	if f.ID != n.turn { // a turn that was followed before: its last frames may come again after a cut
		t.seen.Repeated += len(text)
		return false
	}
	t.seen.Texts[len(t.seen.Texts)-1] += text
	if t.before != "" {
		return false // it ends with the turn that replaces it
	}
	t.begun = true
	if ends {
		t.ended, t.seen.End = true, Done
	}
	return ends && (!t.answers || t.handled)
}
