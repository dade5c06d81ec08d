package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	cf "github.com/centrifugal/centrifuge"

	"github.com/parley-hq/parley/internal/load"
)

// centrifugeFlag is the argument that makes this program the centrifuge server.
const centrifugeFlag = "-serve-centrifuge"

// serveCentrifuge is a small server on the centrifuge library: one node, its memory
// broker, WebSocket with JSON.
func serveCentrifuge(addr string) error {
	node, err := cf.New(cf.Config{
		LogLevel: cf.LogLevelNone,
		// The default of 1 MiB would cut readers off in the burst rows.
		ClientQueueMaxSize: 64 << 20,
	})
	if err != nil {
		return err
	}
	node.OnConnecting(func(context.Context, cf.ConnectEvent) (cf.ConnectReply, error) {
		return cf.ConnectReply{Credentials: &cf.Credentials{UserID: "u"}}, nil
	})
	node.OnConnect(func(c *cf.Client) {
		c.OnSubscribe(func(e cf.SubscribeEvent, cb cf.SubscribeCallback) {
			cb(cf.SubscribeReply{Options: cf.SubscribeOptions{EnableRecovery: strings.HasPrefix(e.Channel, kept)}}, nil)
		})
		c.OnHistory(func(_ cf.HistoryEvent, cb cf.HistoryCallback) { cb(cf.HistoryReply{}, nil) })
		c.OnPublish(func(e cf.PublishEvent, cb cf.PublishCallback) {
			var o cf.PublishOptions
			if strings.HasPrefix(e.Channel, kept) {
				o.HistorySize, o.HistoryTTL = 1000, time.Hour
			}
			cb(cf.PublishReply{Options: o}, nil)
		})
	})
	if err := node.Run(); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/connection/websocket", cf.NewWebsocketHandler(node, cf.WebsocketConfig{
		CheckOrigin: func(*http.Request) bool { return true }, UseWriteBufferPool: true, WriteTimeout: 30 * time.Second,
		MessageSizeLimit: 1 << 20, PingPongConfig: cf.PingPongConfig{PingInterval: -1},
	}))
	return serve(addr, mux)
}

// serve answers /healthz and the routes of mux until SIGTERM.
func serve(addr string, mux *http.ServeMux) error {
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	server := &http.Server{Addr: addr, Handler: mux}
	go func() {
		<-terminated()
		_ = server.Close()
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// terminated is sent to on SIGTERM.
func terminated() <-chan os.Signal {
	over := make(chan os.Signal, 1)
	signal.Notify(over, syscall.SIGTERM)
	return over
}

// centrifugeJSON is the protocol of that server.
type centrifugeJSON struct{ load.WS }

func (p centrifugeJSON) Open(c *load.Conn) error {
	if err := p.Handshake(c, "/connection/websocket"); err != nil {
		return err
	}
	_, err := ask(c, p, load.AppendFrame(nil, []byte(`{"id":1,"connect":{}}`)))
	return err
}

// ask sends a request and returns the next message.
func ask(c *load.Conn, w load.Wire, request []byte) ([]byte, error) {
	if _, err := c.Write(request); err != nil {
		return nil, err
	}
	msg, err := w.Receive(c)
	if err != nil {
		return nil, err
	}
	_, err = w.Answers(msg)
	return msg, err
}

func (centrifugeJSON) Answers(msg []byte) (int, error) {
	if bytes.Contains(msg, []byte(`"error"`)) {
		return 0, fmt.Errorf("centrifuge refused: %.300s", msg)
	}
	return max(bytes.Count(msg, []byte(`"publish":`)), bytes.Count(msg, []byte(`"subscribe":`)), bytes.Count(msg, []byte(`"history":`))), nil
}

// Append puts all commands into one frame, one per line, as its clients do.
func (centrifugeJSON) Append(_ load.Target, session string, texts []string) load.Request {
	var b []byte
	for _, t := range texts {
		b = fmt.Appendf(b, `{"id":3,"publish":{"channel":%q,"data":{"text":"%s"}}}`+"\n", session, t)
	}
	return load.Request{Bytes: load.AppendFrame(nil, bytes.TrimSuffix(b, []byte("\n"))), Answers: len(texts)}
}

func (centrifugeJSON) Piece(requests []byte, session string, offset int, text []byte) []byte {
	b := fmt.Appendf(nil, `{"id":4,"publish":{"channel":%q,"data":{"block":"b1","offset":%d,"text":"%s"}}}`, session, offset, text)
	return load.AppendFrame(requests, b)
}

func (centrifugeJSON) Subscribe(_ load.Target, session string) load.Subscription {
	return load.Subscription{Request: load.AppendFrame(nil, fmt.Appendf(nil, `{"id":2,"subscribe":{"channel":%q}}`, session)), Answers: 1}
}

// Last reads messages of a channel from memory, without compression.
func (centrifugeJSON) Last(_ load.Target, session string, n int) load.Request {
	b := fmt.Appendf(nil, `{"id":5,"history":{"channel":%q,"limit":%d,"reverse":true}}`, session, n)
	return load.Request{Bytes: load.AppendFrame(nil, b), Answers: 1}
}

// Resume asks for the epoch of the channel's history, which a reader needs to recover messages.
func (p centrifugeJSON) Resume(t load.Target, session string) (load.Subscriber, error) {
	c, err := load.Dial(t, p)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	msg, err := ask(c, p, p.Last(t, session, 1).Bytes)
	if err != nil {
		return nil, err
	}
	_, epoch, _ := strings.Cut(string(msg), `"epoch":"`)
	epoch, _, ok := strings.Cut(epoch, `"`)
	if !ok {
		return nil, fmt.Errorf("centrifuge gave no epoch: %.300s", msg)
	}
	return recovering{epoch: epoch}, nil
}

// recovering is the protocol of a reader that reconnects and has no message of the channel.
type recovering struct {
	centrifugeJSON
	epoch string
}

// Subscribe asks for all messages of the channel. They are in the answer, which the reader counts.
func (r recovering) Subscribe(_ load.Target, session string) load.Subscription {
	b := fmt.Appendf(nil, `{"id":2,"subscribe":{"channel":%q,"recover":true,"epoch":%q,"offset":0}}`, session, r.epoch)
	return load.Subscription{Request: load.AppendFrame(nil, b)}
}
