package vertesia

import (
	"context"
	"errors"
	"iter"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/wire"
)

// factual shows the facts themselves, for those who look into a run.
type factual struct{}

func (factual) Name() string { return "vertesia/history" }

// AppendEvent appends a fact; after the one that ends the run it says so.
func (factual) AppendEvent(dst []byte, e *chat.Entry) []byte {
	ev, err := e.Fact.Event()
	if err != nil {
		return dst
	}
	b, err := marshal(map[string]any{"runId": ev.Session, "event": eventOf(&ev)})
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

// AppendPiece appends nothing: what is being written is no fact.
func (factual) AppendPiece(dst []byte, _ *chat.Entry) []byte { return dst }

// streamDetails follows the facts of a run.
func (d *Dialect) streamDetails(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	sess, err := d.run(r, c)
	if err != nil {
		return err
	}
	if sess.once {
		if err := d.settle(r.Context(), c, sess.ID); err != nil {
			return err
		}
	}
	if r.Method == http.MethodHead {
		w.Header().Set("Content-Type", "text/event-stream")
		return nil
	}
	o := &observer{d: d, caller: c, id: sess.ID}
	err = wire.ServeSSE(w, r, wire.SSEOptions{}, d.opt.Conns, o.run)
	if errors.Is(err, wire.ErrShutdown) {
		return errShutdown()
	}
	return err
}

// observer is one who looks into a run.
type observer struct {
	d      *Dialect
	caller chat.Caller
	id     chat.SessionID
}

func (o *observer) run(ctx context.Context, s *wire.Stream) error {
	for b, err := range o.watch(ctx) {
		switch {
		case err != nil:
			return err
		case b.Idle:
			err = s.Write(ctx, wire.AppendSSEComment(nil, "ping"))
		case len(b.Bytes) > 0:
			err = s.Write(ctx, b.Bytes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

//go:noinline
func (o *observer) watch(ctx context.Context) iter.Seq2[chat.Batch, error] {
	return o.d.opt.Sessions.Watch(ctx, o.caller, o.id, chat.Start{Cursor: &chat.Cursor{}, Idle: o.d.opt.Heartbeat}, factual{})
}
