package wire

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

// Close codes of RFC 6455 that callers use.
const (
	CloseNormal      = int(ws.StatusNormalClosure)           // 1000
	CloseGoingAway   = int(ws.StatusGoingAway)               // 1001: come back
	CloseProtocol    = int(ws.StatusProtocolError)           // 1002
	CloseUnsupported = int(ws.StatusUnsupportedData)         // 1003
	CloseNoStatus    = int(ws.StatusNoStatusRcvd)            // 1005: the peer gave none
	CloseBadText     = int(ws.StatusInvalidFramePayloadData) // 1007
	ClosePolicy      = int(ws.StatusPolicyViolation)         // 1008
	CloseTooBig      = int(ws.StatusMessageTooBig)           // 1009
	CloseInternal    = int(ws.StatusInternalServerError)     // 1011
	CloseTryLater    = 1013
)

// CloseError is a close frame that ended a WebSocket connection: the peer's, or the
// one that this side sent because of a fault of the peer.
type CloseError struct {
	Code   int
	Reason string
	Ours   bool // this side refused to go on
}

func (e *CloseError) Error() string {
	who := "the peer closed the connection"
	if e.Ours {
		who = "the connection was closed on a fault of the peer"
	}
	return fmt.Sprintf("%s: %d %s", who, e.Code, e.Reason)
}

// maxControl is the most a control frame may carry.
const maxControl = ws.MaxControlFramePayloadSize

// AppendTextFrame appends payload as one whole, unmasked server frame of text.
// The bytes are the same for every reader and may be shared; several frames may
// stand behind each other and be sent by one [Conn.Write].
func AppendTextFrame(dst, payload []byte) []byte {
	return append(appendFrameHead(dst, ws.OpText, len(payload)), payload...)
}

// BeginTextFrame appends the head of a text frame whose payload is appended to the
// result; EndTextFrame then completes it. So a frame is written where it belongs, without
// another buffer. begin is for EndTextFrame.
func BeginTextFrame(dst []byte) (_ []byte, begin int) {
	return append(dst, 0, 0, 0, 0), len(dst) // the head of most frames has four bytes
}

// EndTextFrame completes the frame that began at begin.
func EndTextFrame(b []byte, begin int) []byte {
	const room = 4
	payload := b[begin+room:]
	var head [10]byte
	h := appendFrameHead(head[:0], ws.OpText, len(payload))
	switch {
	case len(h) < room:
		copy(b[begin+len(h):], payload)
		b = b[:len(b)-room+len(h)]
	case len(h) > room:
		b = append(b, head[:len(h)-room]...) // any bytes: they are overwritten
		copy(b[begin+len(h):], b[begin+room:])
	}
	copy(b[begin:], h)
	return b
}

// AppendPingFrame appends a ping that carries payload, at most 125 bytes (the
// rest is dropped). After a batch in the same write, its pong means that the batch has
// arrived; see [Conn.OnPong].
func AppendPingFrame(dst, payload []byte) []byte {
	return appendControl(dst, ws.OpPing, payload)
}

func appendControl(dst []byte, op ws.OpCode, payload []byte) []byte {
	payload = payload[:min(len(payload), maxControl)]
	return append(appendFrameHead(dst, op, len(payload)), payload...)
}

// appendCloseFrame leaves the code out when there is none to give.
func appendCloseFrame(dst []byte, code int, reason string) []byte {
	if code == 0 || code == CloseNoStatus {
		return appendControl(dst, ws.OpClose, nil)
	}
	for len(reason) > maxControl-2 || !utf8.ValidString(reason) {
		reason = reason[:min(len(reason)-1, maxControl-2)] // the text must stay UTF-8 where it is cut
	}
	dst = appendFrameHead(dst, ws.OpClose, 2+len(reason))
	return append(binary.BigEndian.AppendUint16(dst, uint16(code)), reason...)
}

// appendFrameHead does what ws.WriteHeader does, into a slice.
func appendFrameHead(dst []byte, op ws.OpCode, n int) []byte {
	dst = append(dst, 0x80|byte(op)) // always final: the payload is whole
	switch {
	case n < 126:
		return append(dst, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, 126), uint16(n))
	default:
		return binary.BigEndian.AppendUint64(append(dst, 127), uint64(n))
	}
}
