package load

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"time"
)

// Target is the address of a server and the token for it.
type Target struct {
	Host  string // host:port
	TLS   bool
	Token string // "" for none
}

// ParseTarget reads the address of a server.
func ParseTarget(address, token string) (Target, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return Target{}, fmt.Errorf("%q is not the address of a server; it looks like http://127.0.0.1:8000", address)
	}
	t := Target{Host: u.Host, TLS: u.Scheme == "https", Token: token}
	if u.Port() == "" {
		t.Host += map[bool]string{false: ":80", true: ":443"}[t.TLS]
	}
	return t, nil
}

// Request returns the bytes of an HTTP request. extra is further header lines, each with its line end.
func (t Target) Request(method, path, extra string, body []byte) []byte {
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, t.Host)
	if t.Token != "" {
		b = fmt.Appendf(b, "Authorization: Bearer %s\r\n", t.Token)
	}
	if body != nil {
		b = fmt.Appendf(b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	return append(append(append(b, extra...), "\r\n"...), body...)
}

// wait bounds a request, so that the measurement ends when the server does not answer.
const wait = 60 * time.Second

// Conn is a raw connection to a server. It belongs to one goroutine.
type Conn struct {
	net.Conn
	Target Target
	R      *bufio.Reader // of what the server sends
	body   []byte
}

// Dial connects and lets the wire prepare the connection.
func Dial(t Target, w Wire) (*Conn, error) {
	conn, err := net.DialTimeout("tcp", t.Host, 10*time.Second)
	if err != nil {
		return nil, err
	}
	if t.TLS {
		name, _, err := net.SplitHostPort(t.Host)
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		conn = tls.Client(conn, &tls.Config{ServerName: name})
	}
	c := &Conn{Conn: conn, Target: t, R: bufio.NewReaderSize(conn, 8<<10)}
	if err := errors.Join(c.SetDeadline(time.Now().Add(wait)), w.Open(c)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Do sends an HTTP request and returns the body of the answer, which is valid until the next call. A status of 300 or more
// is an error.
func (c *Conn) Do(method, path, extra string, body []byte) ([]byte, error) {
	if err := c.SetDeadline(time.Now().Add(wait)); err != nil {
		return nil, err
	}
	if _, err := c.Write(c.Target.Request(method, path, extra, body)); err != nil {
		return nil, err
	}
	return HTTP{}.Receive(c)
}

// Line reads a line and returns it without its line end. It is valid until the next read.
func (c *Conn) Line() ([]byte, error) {
	line, err := c.R.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), err
}

// Body reads n bytes, which are valid until the next call.
func (c *Conn) Body(n int) ([]byte, error) {
	c.body = c.body[:0]
	err := c.more(n)
	return c.body, err
}

// more appends n bytes to the body.
func (c *Conn) more(n int) error {
	at := len(c.body)
	if cap(c.body) < at+n {
		c.body = append(make([]byte, 0, 2*(at+n)), c.body...)
	}
	c.body = c.body[:at+n]
	_, err := io.ReadFull(c.R, c.body[at:])
	return err
}

// httpHead reads the status line and the header of an answer.
func (c *Conn) httpHead() (status, length int, chunked bool, err error) {
	for {
		line, err := c.Line()
		if err != nil {
			return 0, 0, false, err
		}
		if len(line) == 0 {
			return status, length, chunked, nil
		}
		if status == 0 {
			if len(line) < 12 {
				return 0, 0, false, fmt.Errorf("not an HTTP answer: %q", line)
			}
			if status, err = strconv.Atoi(string(line[9:12])); err != nil {
				return 0, 0, false, err
			}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, 0, false, err
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = true
		}
	}
}
