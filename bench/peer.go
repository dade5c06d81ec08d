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

	"github.com/centrifugal/centrifuge"

	"github.com/parley-hq/parley/internal/load"
)

// peerFlag is the argument by which this program becomes the peer.
const peerFlag = "-serve-centrifuge"

// servePeer is a small server on the centrifuge library: one node, its memory
// broker, WebSocket with JSON. Channels that begin with h: keep a history from
// which readers recover.
func servePeer(addr string) error {
	node, err := centrifuge.New(centrifuge.Config{
		LogLevel: centrifuge.LogLevelNone,
		// The default of 1 MiB would cut readers off in the burst rows.
		ClientQueueMaxSize: 64 << 20,
	})
	if err != nil {
		return err
	}
	node.OnConnecting(func(context.Context, centrifuge.ConnectEvent) (centrifuge.ConnectReply, error) {
		return centrifuge.ConnectReply{Credentials: &centrifuge.Credentials{UserID: "u"}}, nil
	})
	node.OnConnect(func(c *centrifuge.Client) {
		c.OnSubscribe(func(e centrifuge.SubscribeEvent, cb centrifuge.SubscribeCallback) {
			kept := strings.HasPrefix(e.Channel, "h:")
			cb(centrifuge.SubscribeReply{Options: centrifuge.SubscribeOptions{EnableRecovery: kept}}, nil)
		})
		c.OnPublish(func(e centrifuge.PublishEvent, cb centrifuge.PublishCallback) {
			var o centrifuge.PublishOptions
			if strings.HasPrefix(e.Channel, "h:") {
				o.HistorySize, o.HistoryTTL = 1000, time.Hour
			}
			cb(centrifuge.PublishReply{Options: o}, nil)
		})
	})
	if err := node.Run(); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/connection/websocket", centrifuge.NewWebsocketHandler(node, centrifuge.WebsocketConfig{
		CheckOrigin: func(*http.Request) bool { return true }, UseWriteBufferPool: true, WriteTimeout: 30 * time.Second,
		MessageSizeLimit: 1 << 20, PingPongConfig: centrifuge.PingPongConfig{PingInterval: -1},
	}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	server := &http.Server{Addr: addr, Handler: mux}
	over := make(chan os.Signal, 1)
	signal.Notify(over, syscall.SIGTERM)
	go func() {
		<-over
		_ = server.Close()
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// centrifugeJSON is how one talks to it.
type centrifugeJSON struct{}

func (centrifugeJSON) Path() string { return "/connection/websocket" }

func (centrifugeJSON) Greet() []byte { return []byte(`{"id":1,"connect":{}}`) }

func (centrifugeJSON) Watch(session string) []byte {
	return fmt.Appendf(nil, `{"id":2,"subscribe":{"channel":%q}}`, session)
}

func (centrifugeJSON) Watching(msg []byte) (bool, error) {
	if bytes.Contains(msg, []byte(`"error"`)) {
		return false, fmt.Errorf("centrifuge refused: %s", msg)
	}
	return bytes.Contains(msg, []byte(`"subscribe"`)), nil
}

// Append puts all commands into one frame, one per line, as its clients do.
func (centrifugeJSON) Append(frames []byte, session string, texts []string) ([]byte, int) {
	var b []byte
	for _, t := range texts {
		b = fmt.Appendf(b, `{"id":3,"publish":{"channel":%q,"data":{"text":"%s"}}}`+"\n", session, t)
	}
	return load.AppendFrame(frames, bytes.TrimSuffix(b, []byte("\n"))), len(texts)
}

func (centrifugeJSON) Piece(frames []byte, session string, offset int, text []byte) []byte {
	b := fmt.Appendf(nil, `{"id":4,"publish":{"channel":%q,"data":{"block":"b1","offset":%d,"text":"%s"}}}`, session, offset, text)
	return load.AppendFrame(frames, b)
}

func (centrifugeJSON) Answers(msg []byte) (int, error) {
	if bytes.Contains(msg, []byte(`"error"`)) {
		return 0, fmt.Errorf("centrifuge refused: %s", msg)
	}
	return bytes.Count(msg, []byte(`"publish":`)), nil
}
