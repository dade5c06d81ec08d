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

// peerFlag is the argument that makes this program the centrifuge server.
const peerFlag = "-serve-centrifuge"

// kept is the prefix of channels that keep a history, from which readers recover.
const kept = "h:"

// servePeer is a small server on the centrifuge library: one node, its memory
// broker, WebSocket with JSON.
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
			cb(centrifuge.SubscribeReply{Options: centrifuge.SubscribeOptions{EnableRecovery: strings.HasPrefix(e.Channel, kept)}}, nil)
		})
		c.OnHistory(func(_ centrifuge.HistoryEvent, cb centrifuge.HistoryCallback) { cb(centrifuge.HistoryReply{}, nil) })
		c.OnPublish(func(e centrifuge.PublishEvent, cb centrifuge.PublishCallback) {
			var o centrifuge.PublishOptions
			if strings.HasPrefix(e.Channel, kept) {
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
	return serve(addr, mux)
}

// serve answers /healthz and the routes of mux until SIGTERM.
func serve(addr string, mux *http.ServeMux) error {
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

// centrifugeJSON is the protocol of that server.
type centrifugeJSON struct{}

func (centrifugeJSON) Path() string { return "/connection/websocket" }

func (centrifugeJSON) Hello() []byte { return []byte(`{"id":1,"connect":{}}`) }

func (centrifugeJSON) Watch(session string) ([]byte, bool) {
	return fmt.Appendf(nil, `{"id":2,"subscribe":{"channel":%q}}`, session), true
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

func (centrifugeJSON) Preview(frames []byte, session string, offset int, text []byte) []byte {
	b := fmt.Appendf(nil, `{"id":4,"publish":{"channel":%q,"data":{"block":"b1","offset":%d,"text":"%s"}}}`, session, offset, text)
	return load.AppendFrame(frames, b)
}

func (centrifugeJSON) Answers(msg []byte) (int, error) {
	if bytes.Contains(msg, []byte(`"error"`)) {
		return 0, fmt.Errorf("centrifuge refused: %s", msg)
	}
	return bytes.Count(msg, []byte(`"publish":`)), nil
}

// recovering is the protocol of a reader that reconnects and has no message of the channel.
type recovering struct {
	centrifugeJSON
	epoch string
}

// Watch asks for all messages of the channel. They are in the answer, which the reader counts.
func (r recovering) Watch(channel string) ([]byte, bool) {
	return fmt.Appendf(nil, `{"id":2,"subscribe":{"channel":%q,"recover":true,"epoch":%q,"offset":0}}`, channel, r.epoch), false
}

// fillPeer publishes n messages to a channel and returns the epoch of its
// history, which readers need to recover.
func fillPeer(p *process, channel string, n int) (epoch string, err error) {
	ws, err := load.OpenWS(p.target, centrifugeJSON{})
	if err != nil {
		return "", err
	}
	defer ws.Close()
	for done := 0; done < n; {
		texts := make([]string, min(100, n-done))
		for i := range texts {
			texts[i] = message(done + i)
		}
		frame, wait := centrifugeJSON{}.Append(nil, channel, texts)
		if err := ws.SendFrames(frame); err != nil {
			return "", err
		}
		for wait > 0 {
			msg, err := ws.Receive()
			if err != nil {
				return "", err
			}
			got, err := centrifugeJSON{}.Answers(msg)
			if err != nil {
				return "", err
			}
			wait -= got
		}
		done += len(texts)
	}
	reply, err := askHistory(ws, channel, 1)
	if err != nil {
		return "", err
	}
	_, epoch, _ = strings.Cut(string(reply), `"epoch":"`)
	epoch, _, ok := strings.Cut(epoch, `"`)
	if !ok {
		return "", fmt.Errorf("centrifuge gave no epoch: %s", reply)
	}
	return epoch, nil
}

// askHistory reads the last messages of a channel, without compression.
func askHistory(ws *load.WS, channel string, limit int) ([]byte, error) {
	if err := ws.Send(fmt.Appendf(nil, `{"id":5,"history":{"channel":%q,"limit":%d,"reverse":true}}`, channel, limit)); err != nil {
		return nil, err
	}
	reply, err := ws.Receive()
	if err == nil && bytes.Contains(reply, []byte(`"error"`)) {
		err = fmt.Errorf("centrifuge refused: %s", reply)
	}
	return reply, err
}
