package native

import (
	"bytes"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// readFrame reads the frequent frame append without reflection. ok is false for everything
// unusual; then encoding by reflection reads the frame. The drafts are not decoded.
func readFrame(msg []byte) (c clientFrame, ok bool) {
	f := json.Fields{Rest: msg}
	for f.Next() {
		switch string(f.Key) {
		case "op":
			f.Text(&c.Op)
		case "id":
			c.ID = readID(&f)
		case "session_id":
			f.Text((*string)(&c.Session))
		case "events":
			if c.Events != nil {
				f.Stop()
			}
			c.Events = json.RawMessage(f.Value)
		default:
			f.Stop()
		}
	}
	if !f.Done() || c.Op != "append" {
		return clientFrame{}, false
	}
	// The memory of the frame is reused; these are needed longer.
	c.ID, c.Events = bytes.Clone(c.ID), bytes.Clone(c.Events)
	return c, true
}

// pieceFrame is a preview frame with one piece.
type pieceFrame struct {
	id      json.RawMessage
	session chat.SessionID
	turn    chat.TurnID // of a worker's frame
	piece   previewBody
}

var pieceFrameHead = []byte(`{"op":"preview"`)

// readPieceFrame reads the frame that agents send for every few words, as most programs
// write it. All texts are parts of one copy of the frame, so that it takes one allocation
// instead of nine. ok is false for everything unusual; then parseFrame reads the frame.
func readPieceFrame(msg []byte) (p pieceFrame, ok bool) {
	if !bytes.HasPrefix(msg, pieceFrameHead) {
		return p, false
	}
	f := json.Fields{Rest: msg, Source: string(msg)}
	for pieces := 0; f.Next(); {
		switch string(f.Key) {
		case "op":
			if string(f.Value) != `"preview"` {
				f.Stop()
			}
		case "id":
			p.id = readID(&f)
		case "session_id":
			f.Text((*string)(&p.session))
		case "turn_id":
			f.Text((*string)(&p.turn))
		case "preview":
			if pieces++; pieces > 1 || !p.piece.read(f.Value, f.ValueSource()) {
				f.Stop()
			}
		case "previews": // workers send an array with one piece
			n := len(f.Value)
			if pieces++; pieces > 1 || n < 2 || f.Value[0] != '[' || !p.piece.read(f.Value[1:n-1], f.ValueSource()[1:n-1]) {
				f.Stop()
			}
		default:
			f.Stop()
		}
	}
	p.id = bytes.Clone(p.id) // the memory of the frame is reused
	return p, f.Done() && p.piece.Block != "" && len(p.id) <= maxFrameID
}

// readID reads the id of a frame, a text or a number.
func readID(f *json.Fields) json.RawMessage {
	var text string
	var number int
	if f.Value[0] == '"' {
		f.Text(&text)
	} else {
		f.Int(&number)
	}
	return json.RawMessage(f.Value)
}

// read reads a piece without reflection. Texts are parts of source, which is b.
func (p *previewBody) read(b []byte, source string) bool {
	f := json.Fields{Rest: b, Source: source}
	for f.Next() {
		switch string(f.Key) {
		case "block":
			f.Text((*string)(&p.Block))
		case "offset":
			f.Int(&p.Offset)
		case "text":
			f.Text(&p.Text)
		case "kind":
			f.Text((*string)(&p.Kind))
		case "workstream_id":
			f.Text(&p.Workstream)
		case "turn_id":
			f.Text((*string)(&p.Turn))
		case "attempt":
			f.Int(&p.Attempt)
		default:
			f.Stop()
		}
	}
	return f.Done()
}
