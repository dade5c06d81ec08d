package load

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Protocol is the WebSocket protocol of a server. Its methods have no state and may be called at the same time.
type Protocol interface {
	// Path is the path of the WebSocket.
	Path() string
	// Hello is the first message on a connection, nil for none. The server answers it.
	Hello() []byte
	// Watch is the message that watches a session, and whether to wait until Watching reports that the watch has begun.
	Watch(session string) (msg []byte, wait bool)
	// Watching reports whether a message says that the watch has begun.
	Watching(msg []byte) (bool, error)
	// Append appends frames with messages for the session, as one request if the server can do that. It returns the number
	// of answers to expect.
	Append(frames []byte, session string, texts []string) ([]byte, int)
	// Preview appends a frame with the next part of a text.
	Preview(frames []byte, session string, offset int, text []byte) []byte
	// Answers returns how many requests a message answers. It fails if the message is a refusal.
	Answers(msg []byte) (int, error)
}

// Native is the protocol of Parley's own API.
type Native struct{}

// Path is the path of the WebSocket.
func (Native) Path() string { return "/parley/v1/ws" }

// Hello is nil.
func (Native) Hello() []byte { return nil }

// Watch watches from now on.
func (Native) Watch(session string) ([]byte, bool) {
	return fmt.Appendf(nil, `{"op":"watch","id":1,"session_id":%q}`, session), true
}

// Watching reports whether the message is the answer ok.
func (n Native) Watching(msg []byte) (bool, error) {
	answers, err := n.Answers(msg)
	return answers > 0, err
}

// Append makes one frame of all texts.
func (Native) Append(frames []byte, session string, texts []string) ([]byte, int) {
	b := fmt.Appendf(nil, `{"op":"append","id":1,"session_id":%q,"events":`, session)
	return AppendFrame(frames, append(append(b, drafts(texts)...), '}')), 1
}

// drafts is one draft, or an array of them.
func drafts(texts []string) []byte {
	var b []byte
	for i, t := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, `{"type":"user.message","payload":{"text":"`...), t...), `"}}`...)
	}
	if len(texts) > 1 {
		b = append(append([]byte{'['}, b...), ']')
	}
	return b
}

// Preview makes one frame without an id. The server answers it only to refuse it.
func (Native) Preview(frames []byte, session string, offset int, text []byte) []byte {
	b := make([]byte, 0, 256)
	b = append(append(append(b, `{"op":"preview","session_id":"`...), session...), `","preview":{"block":"b1","offset":`...)
	b = strconv.AppendInt(b, int64(offset), 10)
	b = append(append(append(b, `,"text":"`...), text...), `"}}`...)
	return AppendFrame(frames, b)
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

// textSize makes a payload {"text":"…"} of 300 bytes.
const textSize = 300 - len(`{"text":""}`)

// texts returns n messages; their stamps are set later.
func texts(n int) []string {
	all := make([]string, n)
	stamp := string(AppendStamp(nil, time.UnixMicro(0)))
	for i := range all {
		all[i] = stamp + " " + strings.Repeat("lorem ipsum ", 30)[:textSize-stampSize-1]
	}
	return all
}

// request is a prepared request. Its stamps are set each time it is sent.
type request struct {
	bytes  []byte
	stamps []int
}

func newRequest(b []byte) *request {
	s := &request{bytes: b}
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], mark)
		if i < 0 {
			return s
		}
		s.stamps = append(s.stamps, at+i)
		at += i + stampSize
	}
}

// now sets the stamps and returns the bytes.
func (s *request) now() []byte {
	now := time.Now()
	for _, at := range s.stamps {
		AppendStamp(s.bytes[:at], now)
	}
	return s.bytes
}
