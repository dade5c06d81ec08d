package vertesia

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/wire"
)

// socketFrame is a frame of a client.
type socketFrame struct {
	Type    string          `json:"type"`
	Name    string          `json:"signalName"`
	Data    json.RawMessage `json:"data"`
	Request json.RawMessage `json:"requestId"`
}

// socketReply is the answer to a frame.
type socketReply struct {
	Type    string          `json:"type"` // ack, pong, error
	Request json.RawMessage `json:"requestId,omitempty"`
	Error   string          `json:"error,omitempty"`
}

// socket follows a run over a WebSocket and takes signals on it.
func (d *Dialect) socket(w http.ResponseWriter, r *http.Request, c chat.Caller, sess run) error {
	f, err := d.follow(r, c, sess, false, asSocket)
	if err != nil {
		return err
	}
	err = wire.ServeWS(w, r, wire.WSOptions{MaxMessage: maxFrame}, d.opt.Conns, func(ctx context.Context, conn *wire.Conn) error {
		f.conn = conn
		return d.serveSocket(ctx, conn, f, sess)
	})
	if bad, ok := errors.AsType[*wire.HandshakeError](err); ok {
		return chat.Errorf(chat.Invalid, "%s", bad.Reason)
	}
	return serveError(err)
}

// serveSocket reads frames while another goroutine writes messages. It returns
// when both have ended.
func (d *Dialect) serveSocket(ctx context.Context, conn *wire.Conn, f *follower, sess run) error {
	ctx, end := context.WithCancel(ctx)
	var writing sync.WaitGroup
	writing.Go(func() {
		defer end()
		if err := d.opt.Conns.Guard(func() error { return f.loop(ctx) }); err != nil && ctx.Err() == nil {
			_ = conn.CloseWith(wire.CloseTryLater, "come back in a moment") // it fails when the connection is closed already
		}
	})
	defer writing.Wait()
	defer end()
	for {
		b, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		reply, err := d.takeFrame(ctx, f.caller, sess, b)
		if err != nil {
			reply.Type, reply.Error = "error", chat.Public(err).Msg
		}
		out, err := json.Marshal(reply)
		if err != nil {
			return err
		}
		if err := conn.WriteText(ctx, out); err != nil {
			return err
		}
	}
}

// takeFrame does what a frame asks for.
func (d *Dialect) takeFrame(ctx context.Context, c chat.Caller, sess run, b []byte) (socketReply, error) {
	var f socketFrame
	if err := decode(b, &f); err != nil {
		return socketReply{}, err
	}
	if err := wire.Ended(ctx); err != nil { // the credential ended after the frame was read
		return socketReply{Request: f.Request}, err
	}
	reply := socketReply{Type: "ack", Request: f.Request}
	if err := d.opt.Allow(c, 1); err != nil {
		return reply, err
	}
	switch f.Type {
	case "ping":
		return socketReply{Type: "pong"}, nil
	case "signal":
		if _, err := d.takeSignal(ctx, c, sess, f.Name, f.Data); err != nil {
			return reply, err
		}
		if reply.Request == nil {
			reply.Request = json.RawMessage("null")
		}
		return reply, nil
	}
	return reply, chat.Errorf(chat.Invalid, "a frame has the type signal or ping, not %q", text.Clip(f.Type, 40))
}
