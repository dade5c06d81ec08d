package native

import (
	"context"
	"testing"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// panicking is a session layer that panics when something is appended or shown.
type panicking struct{ sessions }

func (panicking) AppendThen(context.Context, chat.Caller, chat.SessionID, []chat.Draft, core.AppendDone) (func(), error) {
	panic("nothing can be appended")
}

func (panicking) PreviewAll(context.Context, chat.Caller, []core.SessionPieces) int { return 0 }

func (panicking) PreviewLater(context.Context, chat.Caller, chat.SessionID, []chat.Preview) (func() error, error) {
	panic("nothing can be shown")
}

func (panicking) Resolve(_ context.Context, _ chat.Caller, id chat.SessionID) (chat.SessionID, error) {
	if id == "bad" {
		panic("this session cannot be looked up")
	}
	return id, nil
}

// A frame whose handling panics closes its socket with an error.
func TestAPanicClosesTheSocket(t *testing.T) {
	panics := make(chan any, 1)
	w := newTestServer(t, func(o *Options) {
		o.Sessions = panicking{o.Sessions}
		o.Conns.Panicked = func(v any, _ []byte) { panics <- v }
	})
	w.create("alice", `{"id":"s"}`)
	appends := `{"op":"append","id":1,"session_id":"s","events":[` + say("hi") + `]}`
	for _, frame := range []string{
		appends,
		" " + appends, // handled later than when it is read
		`{"op":"preview","id":1,"session_id":"s","preview":{"block":"b","offset":0,"text":"a"}}`,
		`{"op":"stop","id":1,"session_id":"bad"}`,
	} {
		c := w.dial("alice", "/parley/v1/ws")
		if err := c.Write(t.Context(), websocket.MessageText, []byte(frame)); err != nil {
			t.Fatal(err)
		}
		<-panics
		if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusInternalError {
			t.Errorf("%s: %v", frame, err)
		}
	}
	w.dial("alice", "/parley/v1/ws")
}
