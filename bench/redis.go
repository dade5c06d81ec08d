package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/parley-hq/parley/internal/load"
)

const redisProgram = "redis-server"

// startRedis starts Redis so that it answers a write after fsync, like Parley.
func startRedis(e *env, dir string) (*process, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return startWire(e, resp{}, redisProgram, func(addr string) []string {
		host, port, _ := net.SplitHostPort(addr) // addr is from freeport
		return []string{"--bind", host, "--port", port, "--dir", dir, "--appendonly", "yes", "--appendfsync", "always",
			"--save", "", "--auto-aof-rewrite-percentage", "0", "--maxclients", "20000", "--loglevel", "warning"}
	})
}

// resp is the protocol of Redis. A session is a stream, a message one entry with one field.
type resp struct{}

func command(dst []byte, args ...string) []byte {
	dst = fmt.Appendf(dst, "*%d\r\n", len(args))
	for _, a := range args {
		dst = fmt.Appendf(dst, "$%d\r\n%s\r\n", len(a), a)
	}
	return dst
}

func (r resp) Open(c *load.Conn) error {
	msg, err := ask(c, r, command(nil, "PING"))
	if err == nil && string(msg) != "+PONG" {
		err = fmt.Errorf("redis answered %q", msg)
	}
	return err
}

// Receive reads a reply and returns its first line.
func (resp) Receive(c *load.Conn) ([]byte, error) {
	var first []byte
	for open := 1; open > 0; open-- {
		line, err := c.Line()
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			return nil, errors.New("redis sent an empty line")
		}
		if first == nil {
			first = bytes.Clone(line)
		}
		if line[0] != '*' && line[0] != '$' {
			continue
		}
		n, err := strconv.Atoi(string(line[1:]))
		if err != nil {
			return nil, err
		}
		if line[0] == '*' {
			open += max(n, 0)
		} else if n >= 0 {
			if _, err := c.R.Discard(n + 2); err != nil {
				return nil, err
			}
		}
	}
	return first, nil
}

func (resp) Answers(msg []byte) (int, error) {
	if msg[0] == '-' {
		return 0, fmt.Errorf("redis refused: %s", msg)
	}
	return 1, nil
}

// Append sends all commands in one write. Each has its answer.
func (resp) Append(_ load.Target, session string, texts []string) load.Request {
	r := load.Request{Answers: len(texts)}
	for _, t := range texts {
		r.Bytes = command(r.Bytes, "XADD", session, "*", "d", `{"text":"`+t+`"}`)
	}
	return r
}

func (resp) Last(_ load.Target, session string, n int) load.Request {
	return load.Request{Bytes: command(nil, "XREVRANGE", session, "+", "-", "COUNT", strconv.Itoa(n)), Answers: 1}
}

// Subscribe waits for entries, and after each reply for those that follow. The stream is empty when its readers begin.
func (resp) Subscribe(_ load.Target, session string) load.Subscription {
	f := &follower{session: session}
	return load.Subscription{Request: f.after("0"), Next: f.next}
}

// Resume reads a stream from its beginning.
func (resp) Resume(load.Target, string) (load.Subscriber, error) { return respAll{}, nil }

// respAll reads a stream once.
type respAll struct{ resp }

// Subscribe has no next request: the trial ends with the reply, which would have to be kept to find the last id.
func (respAll) Subscribe(_ load.Target, session string) load.Subscription {
	return load.Subscription{Request: (&follower{session: session}).after("0")}
}

// follower reads a stream with XREAD, which returns once there is something.
type follower struct {
	session string
	part    []byte // the beginning of a reply
}

func (f *follower) after(id string) []byte {
	return command(nil, "XREAD", "BLOCK", "0", "STREAMS", f.session, id)
}

// next returns the request that follows when the reply is complete.
func (f *follower) next(received []byte) []byte {
	if len(f.part) > 0 {
		f.part = append(f.part, received...)
		received = f.part
	}
	id, ok := lastID(received)
	if !ok {
		if len(f.part) == 0 {
			f.part = append(f.part, received...)
		}
		return nil
	}
	f.part = f.part[:0]
	return f.after(id)
}

// lastID returns the id of the last entry of a reply to XREAD, and whether the reply is complete. The reply is an array of
// one stream, which is its name and an array of entries; an entry is its id and an array of a field and a value.
func lastID(reply []byte) (id string, ok bool) {
	line := func() (n int, ok bool) {
		l, rest, ok := bytes.Cut(reply, []byte("\r\n"))
		if !ok || len(l) < 2 {
			return 0, false
		}
		reply = rest
		n, err := strconv.Atoi(string(l[1:]))
		return n, err == nil
	}
	word := func() (w []byte, ok bool) {
		n, ok := line()
		if !ok || len(reply) < n+2 {
			return nil, false
		}
		w, reply = reply[:n], reply[n+2:]
		return w, true
	}
	for range 2 { // the array of streams, and the stream
		if _, ok := line(); !ok {
			return "", false
		}
	}
	if _, ok := word(); !ok {
		return "", false
	}
	entries, ok := line()
	if !ok {
		return "", false
	}
	for range entries {
		if _, ok := line(); !ok {
			return "", false
		}
		w, ok := word()
		if !ok {
			return "", false
		}
		id = string(w)
		fields, ok := line()
		if !ok {
			return "", false
		}
		for range fields {
			if _, ok := word(); !ok {
				return "", false
			}
		}
	}
	return id, entries > 0
}
