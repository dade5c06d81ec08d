package native

import (
	"strconv"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// retryable reports whether the same request may succeed later.
func retryable(code chat.Code) bool {
	return code == chat.Unavailable || code == chat.SlowDown || code == chat.Internal
}

// sse encodes entries as frames of an event stream.
type sse struct{}

func (sse) Name() string { return "native/sse" }

func (sse) AppendEvent(dst []byte, e *core.Entry) []byte {
	dst = append(dst, "event: event\nid: "...)
	dst = e.Cursor.Append(dst)
	dst = append(dst, "\ndata: "...)
	dst = append(dst, e.Fact.JSON...) // one line: it is compact JSON
	return append(dst, '\n', '\n')
}

func (sse) AppendPiece(dst []byte, e *core.Entry) []byte {
	dst = append(dst, "event: preview\nid: "...)
	dst = e.Cursor.Append(dst)
	dst = append(dst, "\ndata: "...)
	dst = e.Piece.AppendJSON(dst)
	return append(dst, '\n', '\n')
}

// gzipSSE is sse, compressed once for all readers with gzip.
type gzipSSE struct{ sse }

func (gzipSSE) Name() string { return "native/sse+gzip" }

func (gzipSSE) Pack(dst, plain []byte) ([]byte, core.Pack) {
	b := wire.CompressBlock(dst, plain)
	return b.Data, core.Pack{Size: b.Size, Sum: b.CRC, Extra: b.Shift}
}

// zstdSSE is the same with zstd.
type zstdSSE struct{ sse }

func (zstdSSE) Name() string { return "native/sse+zstd" }

func (zstdSSE) Pack(dst, plain []byte) ([]byte, core.Pack) {
	b := wire.CompressFrame(dst, plain)
	return b.Data, core.Pack{Size: b.Size}
}

// blocks are the units of a packed batch.
func blocks(b core.Batch) []wire.Block {
	out := make([]wire.Block, len(b.Packs))
	from := 0
	for i, p := range b.Packs {
		out[i] = wire.Block{Data: b.Bytes[from : from+p.Len], CRC: p.Sum, Size: p.Size, Shift: p.Extra}
		from += p.Len
	}
	return out
}

// ws encodes entries as WebSocket frames that all readers share.
type ws struct{}

func (ws) Name() string { return "native/ws" }

func (ws) AppendEvent(dst []byte, e *core.Entry) []byte {
	b, begin := wire.BeginTextFrame(dst)
	b = append(b, `{"op":"event","session_id":"`...)
	b = append(b, sessionIn(e.Fact.JSON)...)
	b = append(b, `","cursor":"`...)
	b = e.Cursor.Append(b)
	b = append(b, `","event":`...)
	b = append(b, e.Fact.JSON...)
	b = append(b, '}')
	return wire.EndTextFrame(b, begin)
}

func (ws) AppendPiece(dst []byte, e *core.Entry) []byte {
	b, begin := wire.BeginTextFrame(dst)
	b = append(b, `{"op":"preview","session_id":"`...)
	b = append(b, e.Session...)
	b = append(b, `","cursor":"`...)
	b = e.Cursor.Append(b)
	b = append(b, `","preview":`...)
	b = e.Piece.AppendJSON(b)
	b = append(b, '}')
	return wire.EndTextFrame(b, begin)
}

// sessionIn reads the session id at the start of a stored envelope.
func sessionIn(envelope []byte) []byte {
	const head = `{"session_id":"`
	if len(envelope) > len(head) && string(envelope[:len(head)]) == head {
		rest := envelope[len(head):]
		for i, c := range rest {
			if c == '"' {
				return rest[:i]
			}
		}
	}
	return nil
}

// The frames that every reader gets are written without reflection, which would
// grow the stack of each reader for as long as it is connected.

func (h *helloFrame) append(b []byte) []byte {
	b = json.AppendString(append(b, `{"session_id":`...), string(h.Session))
	b = strconv.AppendUint(append(b, `,"last":`...), uint64(h.Last), 10)
	b = h.Cursor.Append(append(b, `,"cursor":"`...))
	b = append(append(b, `","server_now":"`...), h.ServerNow.String()...)
	return append(b, '"', '}')
}

// appendWatched is the serverFrame that answers a watch.
func appendWatched(b []byte, id json.RawMessage, h helloFrame) []byte {
	b = append(b, `{"op":"ok",`...)
	if len(id) > 0 {
		b = append(append(append(b, `"id":`...), id...), ',')
	}
	return append(b, h.append(nil)[1:]...)
}

func (p *pingFrame) append(b []byte) []byte {
	b = append(append(b, `{"server_now":"`...), p.ServerNow.String()...)
	return append(b, '"', '}')
}

func frameSSE(event, id string, body any) []byte {
	b, err := json.Marshal(body)
	if err != nil {
		panic("native: a frame of our own cannot be written as JSON: " + err.Error())
	}
	return wire.AppendSSE(nil, event, id, b)
}
