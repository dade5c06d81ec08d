package load

import (
	"fmt"
	"strconv"
)

// HTTP is plain HTTP: one message is the body of one answer.
type HTTP struct{}

// Open does nothing.
func (HTTP) Open(*Conn) error { return nil }

// Receive returns the body of the next answer. A status of 300 or more is an error.
func (HTTP) Receive(c *Conn) ([]byte, error) {
	status, length, chunked, err := c.httpHead()
	if err != nil {
		return nil, err
	}
	c.body = c.body[:0]
	for n := 1; chunked && n > 0; {
		line, err := c.Line()
		if err != nil {
			return nil, err
		}
		size, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil {
			return nil, err
		}
		n = int(size)
		if err := c.more(n); err != nil {
			return nil, err
		}
		if _, err := c.R.Discard(2); err != nil {
			return nil, err
		}
	}
	if err := c.more(length); err != nil {
		return nil, err
	}
	if status >= 300 {
		return nil, fmt.Errorf("the server answered %d: %s", status, c.body)
	}
	return c.body, nil
}

// Answers is 1.
func (HTTP) Answers([]byte) (int, error) { return 1, nil }

// NativeHTTP appends to Parley with one HTTP request each, and reads history.
type NativeHTTP struct{ HTTP }

// Append is a POST of all texts.
func (NativeHTTP) Append(t Target, session string, texts []string) Request {
	return Request{Bytes: t.Request("POST", "/parley/v1/sessions/"+session+"/events", "", drafts(texts)), Answers: 1}
}

// Last reads the last n events in one compressed answer.
func (NativeHTTP) Last(t Target, session string, n int) Request {
	path := fmt.Sprintf("/parley/v1/sessions/%s/events?limit=%d&order=desc", session, n)
	return Request{Bytes: t.Request("GET", path, "Accept-Encoding: gzip\r\n", nil), Answers: 1}
}

// SSE reads an event stream. One message is the header of an answer; the rest of the connection is the stream.
type SSE struct {
	Path func(session string) string // nil means Parley's native stream from now on
}

// Open does nothing.
func (SSE) Open(*Conn) error { return nil }

// Receive reads the header.
func (SSE) Receive(c *Conn) ([]byte, error) {
	status, _, _, err := c.httpHead()
	if err == nil && status != 200 {
		err = fmt.Errorf("the server answered %d", status)
	}
	return nil, err
}

// Answers is 1.
func (SSE) Answers([]byte) (int, error) { return 1, nil }

// Subscribe is a GET.
func (s SSE) Subscribe(t Target, session string) Subscription {
	path := "/parley/v1/sessions/" + session + "/stream"
	if s.Path != nil {
		path = s.Path(session)
	}
	return Subscription{Request: t.Request("GET", path, "", nil), Answers: 1}
}

// Resume reads the native stream from its beginning. The first event says that the session was created.
func (SSE) Resume(Target, string) (Subscriber, error) {
	return SSE{Path: func(id string) string { return "/parley/v1/sessions/" + id + "/stream?after=1" }}, nil
}
