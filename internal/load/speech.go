package load

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Speech is how one talks to a server over WebSocket. Its methods have no state
// and may be called by several goroutines at once.
type Speech interface {
	// Path is where the server listens.
	Path() string
	// Greet is the first message on a connection, nil for none; it is answered.
	Greet() []byte
	// Watch is the message that follows a session from now on.
	Watch(session string) []byte
	// Watching reports whether a message says that the watch has begun.
	Watching(msg []byte) (bool, error)
	// Append appends frames that add messages with these texts to the session,
	// as one unit where the server has such a thing, and how many answers that
	// gives.
	Append(frames []byte, session string, texts []string) ([]byte, int)
	// Piece appends a frame that shows the next piece of a text being written.
	Piece(frames []byte, session string, offset int, text []byte) []byte
	// Answers is how many requests a message answers; an error is an answer
	// that refuses.
	Answers(msg []byte) (int, error)
}

// Native speaks Parley's own dialect.
type Native struct{}

// Path is where sockets are opened.
func (Native) Path() string { return "/parley/v1/ws" }

// Greet is nothing: the server listens at once.
func (Native) Greet() []byte { return nil }

// Watch follows from now on.
func (Native) Watch(session string) []byte {
	return fmt.Appendf(nil, `{"op":"watch","id":1,"session_id":%q}`, session)
}

// Watching waits for the ok.
func (n Native) Watching(msg []byte) (bool, error) {
	acks, err := n.Answers(msg)
	return acks > 0, err
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

// Piece makes one frame without an id, which is answered only when refused.
func (Native) Piece(frames []byte, session string, offset int, text []byte) []byte {
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

// texts are n messages with stamps that are still to be set.
func texts(n int) []string {
	all := make([]string, n)
	stamp := string(AppendStamp(nil, time.UnixMicro(0)))
	for i := range all {
		all[i] = stamp + " " + strings.Repeat("lorem ipsum ", 30)[:textSize-stampSize-1]
	}
	return all
}

// shot is a prepared request whose stamps are set anew each time it is sent.
type shot struct {
	bytes  []byte
	stamps []int
}

func newShot(b []byte) *shot {
	s := &shot{bytes: b}
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
func (s *shot) now() []byte {
	now := time.Now()
	for _, at := range s.stamps {
		AppendStamp(s.bytes[:at], now)
	}
	return s.bytes
}
