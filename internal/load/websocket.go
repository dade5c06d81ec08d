package load

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
)

// WS reads and writes WebSocket messages.
type WS struct{}

// Handshake asks for a WebSocket at a path.
func (WS) Handshake(c *Conn, path string) error {
	const extra = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
	if _, err := c.Write(c.Target.Request("GET", path, extra, nil)); err != nil {
		return err
	}
	status, _, _, err := c.httpHead()
	if err == nil && status != 101 {
		err = fmt.Errorf("the server answered %d to %s", status, path)
	}
	return err
}

// Receive returns the next text message, which is valid until the next call.
func (WS) Receive(c *Conn) ([]byte, error) {
	for {
		var head [2]byte
		if _, err := io.ReadFull(c.R, head[:]); err != nil {
			return nil, err
		}
		n := uint64(head[1] & 0x7f)
		var long [8]byte
		switch n {
		case 126:
			if _, err := io.ReadFull(c.R, long[:2]); err != nil {
				return nil, err
			}
			n = uint64(binary.BigEndian.Uint16(long[:]))
		case 127:
			if _, err := io.ReadFull(c.R, long[:]); err != nil {
				return nil, err
			}
			n = binary.BigEndian.Uint64(long[:])
		}
		body, err := c.Body(int(n))
		if err != nil {
			return nil, err
		}
		switch head[0] & 0x0f {
		case 1:
			return body, nil
		case 8:
			return nil, fmt.Errorf("the server closed the connection: %q", body)
		}
	}
}

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

// Native is the WebSocket of Parley's own API.
type Native struct {
	WS
	after string // a member of the watch frame: where a reader begins; "" means from now on
}

// Open connects the WebSocket.
func (n Native) Open(c *Conn) error { return n.Handshake(c, "/parley/v1/ws") }

// Subscribe watches a session.
func (n Native) Subscribe(_ Target, session string) Subscription {
	s := Subscription{Request: AppendFrame(nil, fmt.Appendf(nil, `{"op":"watch","id":1,"session_id":%q%s}`, session, n.after)), Answers: 1}
	if n.after != "" {
		s.Answers = 0 // events may be in the same read as the answer
	}
	return s
}

// Resume reads a session from its beginning. The first event says that the session was created.
func (Native) Resume(Target, string) (Subscriber, error) { return Native{after: `,"after":"1"`}, nil }

// Append makes one frame of all texts.
func (Native) Append(_ Target, session string, texts []string) Request {
	b := fmt.Appendf(nil, `{"op":"append","id":1,"session_id":%q,"events":`, session)
	return Request{Bytes: AppendFrame(nil, append(append(b, drafts(texts)...), '}')), Answers: 1}
}

// Piece makes one frame without an id. The server answers it only to refuse it.
func (Native) Piece(requests []byte, session string, offset int, text []byte) []byte {
	b := make([]byte, 0, 256)
	b = append(append(append(b, `{"op":"preview","session_id":"`...), session...), `","preview":{"block":"b1","offset":`...)
	b = strconv.AppendInt(b, int64(offset), 10)
	b = append(append(append(b, `,"text":"`...), text...), `"}}`...)
	return AppendFrame(requests, b)
}

// Answers counts oks.
func (Native) Answers(msg []byte) (int, error) {
	switch {
	case bytes.HasPrefix(msg, []byte(`{"op":"ok"`)):
		return 1, nil
	case bytes.HasPrefix(msg, []byte(`{"op":"error"`)), bytes.HasPrefix(msg, []byte(`{"op":"bye"`)):
		return 0, fmt.Errorf("the server refused: %s", msg)
	}
	return 0, nil
}
