package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/internal/load"
)

// natsFlag is the argument that makes this program a NATS server.
const natsFlag = "-serve-nats"

// serveNATS is a NATS server that answers a message of a stream after fsync.
func serveNATS(dir, addr string) error { return runNATS(dir, addr, nil) }

// runNATS runs a server until the process is told to end. change changes its settings.
func runNATS(dir, addr string, change func(o *natsserver.Options) error) error {
	o := &natsserver.Options{
		JetStream: true, StoreDir: dir, SyncAlways: true, NoSigs: true,
		PingInterval: time.Hour, // the readers of a benchmark do not answer
	}
	var err error
	if o.Host, o.Port, err = hostPort(addr); err != nil {
		return err
	}
	if change != nil {
		if err := change(o); err != nil {
			return err
		}
	}
	s, err := natsserver.NewServer(o)
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

func hostPort(addr string) (string, int, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.Atoi(port)
	return host, n, err
}

// replicaFlag is the argument that makes this program one of three NATS servers.
const replicaFlag = "-serve-nats-replica"

// serveReplica is a server of a cluster. The first of routes is its own address for the others.
func serveReplica(dir, routes, addr string) error {
	return runNATS(dir, addr, func(o *natsserver.Options) (err error) {
		all := strings.Split(routes, ",")
		o.ServerName = strings.ReplaceAll(all[0], ":", "-")
		o.Cluster.Name = "bench"
		o.Cluster.Host, o.Cluster.Port, err = hostPort(all[0])
		o.Routes = natsserver.RoutesFromStr("nats://" + strings.Join(all[1:], ",nats://"))
		return err
	})
}

// startReplicas starts three NATS servers and makes a stream that all of them store. The owner is its leader.
func startReplicas(e *env, dir string) (c *clusterProcesses, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	routes, err := addresses(3)
	if err != nil {
		return nil, err
	}
	c = &clusterProcesses{}
	defer func() {
		if err != nil {
			c.stop()
		}
	}()
	for i := range routes {
		peers := append(routes[i:i+1:i+1], slices.Delete(slices.Clone(routes), i, i+1)...)
		p, err := startWire(e, coreNATS{}, self, func(addr string) []string {
			return []string{replicaFlag, filepath.Join(dir, fmt.Sprint("n", i)), strings.Join(peers, ","), addr}
		})
		if err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, p)
	}
	leader, err := makeStream(e, "nats://"+c.nodes[0].target.Host, len(routes))
	if err != nil {
		return nil, err
	}
	for i, p := range c.nodes {
		if strings.ReplaceAll(routes[i], ":", "-") == leader {
			c.owner = p
		}
	}
	if c.owner == nil {
		return nil, fmt.Errorf("the stream has no leader: %q", leader)
	}
	return c, nil
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
	if _, err := makeStream(e, "nats://"+p.target.Host, 1); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// makeStream makes the stream and returns its leader. Servers that have just started need some seconds to elect one.
func makeStream(e *env, url string, replicas int) (leader string, err error) {
	c, err := natsgo.Connect(url)
	if err != nil {
		return "", err
	}
	defer c.Close()
	js, err := jetstream.New(c)
	if err != nil {
		return "", err
	}
	for end := time.Now().Add(time.Minute); ; {
		ctx, cancel := context.WithTimeout(e.ctx, 5*time.Second)
		s, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "bench", Subjects: []string{"log.>"}, Replicas: replicas})
		cancel()
		switch {
		case err == nil && replicas == 1:
			return "", nil
		case err == nil && s.CachedInfo().Cluster.Leader != "":
			return s.CachedInfo().Cluster.Leader, nil
		case time.Now().After(end) || e.ctx.Err() != nil:
			return "", fmt.Errorf("the stream cannot be made: %w", err)
		}
		time.Sleep(200 * time.Millisecond)
	}
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
