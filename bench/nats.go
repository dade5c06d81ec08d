package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/internal/load"
)

// natsFlag is the argument that makes this program a NATS server.
const natsFlag = "-serve-nats"

// serveNATS is a NATS server that answers a message of a stream after fsync.
func serveNATS(dir, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	s, err := natsserver.NewServer(&natsserver.Options{
		Host: host, Port: number, JetStream: true, StoreDir: dir, SyncAlways: true, NoSigs: true,
		PingInterval: time.Hour, // the readers of a benchmark do not answer
	})
	if err != nil {
		return err
	}
	over := terminated()
	s.Start()
	<-over
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

// startNATS starts the server and makes one stream for the messages of all sessions.
func startNATS(e *env, dir string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := startWire(e, coreNATS{}, self, func(addr string) []string { return []string{natsFlag, dir, addr} })
	if err != nil {
		return nil, err
	}
	if err := makeStream(e, "nats://"+p.target.Host); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func makeStream(e *env, url string) error {
	c, err := natsgo.Connect(url)
	if err != nil {
		return err
	}
	defer c.Close()
	js, err := jetstream.New(c)
	if err != nil {
		return err
	}
	_, err = js.CreateStream(e.ctx, jetstream.StreamConfig{Name: "bench", Subjects: []string{"log.>"}})
	return err
}

// coreNATS sends messages that are not stored. A session is a subject.
type coreNATS struct{}

func (n coreNATS) Open(c *load.Conn) error {
	if _, err := c.Line(); err != nil { // INFO
		return err
	}
	msg, err := ask(c, n, []byte(`CONNECT {"verbose":false,"pedantic":false}`+"\r\nPING\r\n"))
	if err == nil && string(msg) != "PONG" {
		err = fmt.Errorf("NATS answered %q", msg)
	}
	return err
}

// Receive returns a line, or the payload of a message.
func (coreNATS) Receive(c *load.Conn) ([]byte, error) {
	line, err := c.Line()
	if err != nil || !bytes.HasPrefix(line, []byte("MSG ")) {
		return line, err
	}
	n, err := strconv.Atoi(string(line[bytes.LastIndexByte(line, ' ')+1:]))
	if err != nil {
		return nil, err
	}
	msg, err := c.Body(n)
	_, skip := c.R.Discard(2)
	return msg, errors.Join(err, skip)
}

// Answers counts pongs: NATS handles the commands of a connection in order.
func (coreNATS) Answers(msg []byte) (int, error) {
	switch {
	case bytes.HasPrefix(msg, []byte("-ERR")):
		return 0, fmt.Errorf("NATS refused: %s", msg)
	case bytes.Equal(msg, []byte("PONG")):
		return 1, nil
	}
	return 0, nil
}

func (coreNATS) Piece(requests []byte, session string, offset int, text []byte) []byte {
	return publish(requests, session, fmt.Appendf(nil, `{"block":"b1","offset":%d,"text":"%s"}`, offset, text))
}

func publish(dst []byte, subject string, payload []byte) []byte {
	return fmt.Appendf(dst, "PUB %s %d\r\n%s\r\n", subject, len(payload), payload)
}

// Append sends the messages and a PING, as a client's flush does.
func (coreNATS) Append(_ load.Target, session string, texts []string) load.Request {
	r := load.Request{Answers: 1}
	for _, t := range texts {
		r.Bytes = publish(r.Bytes, session, []byte(`{"text":"`+t+`"}`))
	}
	r.Bytes = append(r.Bytes, "PING\r\n"...)
	return r
}

func (coreNATS) Subscribe(_ load.Target, session string) load.Subscription {
	return load.Subscription{Request: []byte("SUB " + session + " 1\r\nPING\r\n"), Answers: 1}
}

// jetStream sends messages to a stream and waits until they are stored.
type jetStream struct{ coreNATS }

func (jetStream) Append(_ load.Target, session string, texts []string) load.Request {
	r := load.Request{First: []byte("SUB stored." + session + " 1\r\n"), Answers: len(texts)}
	for _, t := range texts {
		r.Bytes = publish(r.Bytes, "log."+session+" stored."+session, []byte(`{"text":"`+t+`"}`))
	}
	return r
}

func (jetStream) Answers(msg []byte) (int, error) {
	switch {
	case bytes.HasPrefix(msg, []byte(`{"stream":`)):
		return 1, nil
	case bytes.Equal(msg, []byte("PING")): // the server measures the round trip
		return 0, nil
	}
	return 0, fmt.Errorf("JetStream refused: %s", msg)
}
