package vertesia

import (
	"context"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// eventCoding shows the events of a run themselves. It leaves previews out.
type eventCoding struct{}

// Name implements chat.Encoding.
func (eventCoding) Name() string { return "vertesia/history" }

// AppendEvent implements chat.Encoding. After the event that ends the run it
// appends a control event.
func (eventCoding) AppendEvent(dst []byte, e *chat.Entry) []byte {
	ev, err := e.Fact.Event()
	if err != nil {
		return dst
	}
	b, err := json.Marshal(map[string]any{"runId": ev.Session, "event": eventOf(&ev)})
	if err != nil {
		return dst
	}
	dst = wire.AppendSSE(dst, "history", "", b)
	switch ev.Body.(type) {
	case chat.SessionCompleted, chat.SessionFailed:
		dst = wire.AppendSSE(dst, "control", "", []byte(`{"type":"done"}`))
	}
	return dst
}

// AppendPiece implements chat.Encoding.
func (eventCoding) AppendPiece(dst []byte, _ *chat.Entry) []byte { return dst }

// streamDetails follows the events of a run.
func (d *Dialect) streamDetails(w http.ResponseWriter, r *http.Request, c chat.Caller, sess run) error {
	return d.serveSSE(w, r, wire.SSEOptions{}, func(ctx context.Context, s *wire.Stream) error {
		start := chat.Start{Cursor: &chat.Cursor{}, Idle: heartbeat}
		for b, err := range d.opt.Sessions.Watch(ctx, c, sess.ID, start, eventCoding{}) {
			if err != nil {
				return err
			}
			frames := b.Bytes
			if b.Idle {
				frames = wire.AppendSSEComment(nil, "ping")
			}
			if len(frames) == 0 {
				continue
			}
			if err := s.Write(ctx, frames); err != nil {
				return err
			}
		}
		return nil
	})
}
