package load

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
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

// wait bounds a request, so that the measurement ends when the server does not answer.
const wait = 60 * time.Second

func (t Target) dial() (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", t.Host, 10*time.Second)
	if err != nil || !t.TLS {
		return conn, err
	}
	name, _, err := net.SplitHostPort(t.Host)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return tls.Client(conn, &tls.Config{ServerName: name}), nil
}

// head writes a request head without its last line.
func (t Target) head(method, path string) []byte {
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, t.Host)
	if t.Token != "" {
		b = fmt.Appendf(b, "Authorization: Bearer %s\r\n", t.Token)
	}
	return b
}

// HTTP is a kept-alive connection for requests one after the other.
type HTTP struct {
	target Target
	conn   net.Conn
	r      *bufio.Reader
	out    []byte
	body   []byte
}

// DialHTTP connects.
func DialHTTP(t Target) (*HTTP, error) {
	conn, err := t.dial()
	if err != nil {
		return nil, err
	}
	return &HTTP{target: t, conn: conn, r: bufio.NewReaderSize(conn, 8<<10)}, nil
}

// Close closes the connection.
func (h *HTTP) Close() error { return h.conn.Close() }

// Do sends a request and returns the body of the answer, which is valid until
// the next call. A status of 300 or more is an error. extra is further header
// lines, each with its line end.
func (h *HTTP) Do(method, path, extra string, body []byte) ([]byte, error) {
	b := append(h.out[:0], h.target.head(method, path)...)
	return h.exchange(append(b, extra...), body)
}

// exchange completes a head, sends it with the body and reads the answer.
func (h *HTTP) exchange(head, body []byte) ([]byte, error) {
	b := head
	if body != nil {
		b = append(b, "Content-Type: application/json\r\nContent-Length: "...)
		b = append(strconv.AppendInt(b, int64(len(body)), 10), "\r\n"...)
	}
	b = append(append(b, "\r\n"...), body...)
	h.out = b
	if err := h.conn.SetDeadline(time.Now().Add(wait)); err != nil {
		return nil, err
	}
	if _, err := h.conn.Write(b); err != nil {
		return nil, err
	}
	return h.answer()
}

func (h *HTTP) answer() ([]byte, error) {
	status, length, chunked, err := readHead(h.r)
	if err != nil {
		return nil, err
	}
	h.body = h.body[:0]
	if err := h.readBody(length, chunked); err != nil {
		return nil, err
	}
	if status >= 300 {
		return nil, fmt.Errorf("the server answered %d: %s", status, h.body)
	}
	return h.body, nil
}

// readHead reads the status line and the header of an answer.
func readHead(r *bufio.Reader) (status, length int, chunked bool, err error) {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return 0, 0, false, err
		}
		line = bytes.TrimRight(line, "\r\n")
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

func (h *HTTP) readBody(length int, chunked bool) error {
	for chunked {
		line, err := h.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(line)), 16, 31)
		if err != nil {
			return err
		}
		if err := h.more(int(n)); err != nil {
			return err
		}
		if _, err := h.r.Discard(2); err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
	}
	return h.more(length)
}

func (h *HTTP) more(n int) error {
	at := len(h.body)
	if cap(h.body) < at+n {
		h.body = append(make([]byte, 0, 2*(at+n)), h.body...)
	}
	h.body = h.body[:at+n]
	_, err := io.ReadFull(h.r, h.body[at:])
	return err
}

// WS is a WebSocket connection.
type WS struct {
	conn net.Conn
	r    *bufio.Reader
	out  []byte
	body []byte
}

// DialWS connects and does the handshake.
func DialWS(t Target, path string) (*WS, error) {
	conn, r, err := t.open(path, 101, "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n")
	if err != nil {
		return nil, err
	}
	return &WS{conn: conn, r: r}, nil
}

// open sends a GET request with further header lines and reads the header of the answer.
func (t Target) open(path string, want int, extra string) (net.Conn, *bufio.Reader, error) {
	conn, err := t.dial()
	if err != nil {
		return nil, nil, err
	}
	r := bufio.NewReaderSize(conn, 4<<10)
	if err = conn.SetDeadline(time.Now().Add(wait)); err == nil {
		if _, err = conn.Write(append(append(t.head("GET", path), extra...), "\r\n"...)); err == nil {
			var status int
			if status, _, _, err = readHead(r); err == nil && status != want {
				err = fmt.Errorf("the server answered %d to %s", status, path)
			}
		}
	}
	if err = errors.Join(err, conn.SetDeadline(time.Time{})); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, r, nil
}

// Close closes the connection without a closing handshake.
func (w *WS) Close() error { return w.conn.Close() }

// AppendFrame appends a masked text frame. The mask is zero, which the protocol allows, so that the payload stays as it is.
func AppendFrame(dst, payload []byte) []byte {
	switch n := len(payload); {
	case n < 126:
		dst = append(dst, 0x81, 0x80|byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, 0x81, 0x80|126), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, 0x81, 0x80|127), uint64(n))
	}
	return append(append(dst, 0, 0, 0, 0), payload...)
}

// Send sends one message.
func (w *WS) Send(payload []byte) error {
	w.out = AppendFrame(w.out[:0], payload)
	_, err := w.conn.Write(w.out)
	return err
}

// SendFrames sends frames made by AppendFrame.
func (w *WS) SendFrames(frames []byte) error {
	_, err := w.conn.Write(frames)
	return err
}

// Receive returns the next text message, which is valid until the next call.
func (w *WS) Receive() ([]byte, error) {
	for {
		var head [2]byte
		if _, err := io.ReadFull(w.r, head[:]); err != nil {
			return nil, err
		}
		n := uint64(head[1] & 0x7f)
		var long [8]byte
		switch n {
		case 126:
			if _, err := io.ReadFull(w.r, long[:2]); err != nil {
				return nil, err
			}
			n = uint64(binary.BigEndian.Uint16(long[:]))
		case 127:
			if _, err := io.ReadFull(w.r, long[:]); err != nil {
				return nil, err
			}
			n = binary.BigEndian.Uint64(long[:])
		}
		if uint64(cap(w.body)) < n {
			w.body = make([]byte, n+n/2)
		}
		w.body = w.body[:n]
		if _, err := io.ReadFull(w.r, w.body); err != nil {
			return nil, err
		}
		switch head[0] & 0x0f {
		case 1:
			return w.body, nil
		case 8:
			return nil, fmt.Errorf("the server closed the connection: %q", w.body)
		}
	}
}
