package native

import (
	"bytes"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// readFrame reads the two frequent frames, append and preview, without reflection. ok is
// false for everything unusual; then encoding by reflection reads the frame. The drafts
// of an append are not decoded.
func readFrame(msg []byte) (c clientFrame, ok bool) {
	f := chat.Fields{Rest: msg}
	for f.Next() {
		switch string(f.Key) {
		case "op":
			f.Text(&c.Op)
		case "id":
			var text string
			var number int
			if f.Value[0] == '"' {
				f.Text(&text)
			} else {
				f.Int(&number)
			}
			c.ID = json.RawMessage(f.Value)
		case "session_id":
			f.Text((*string)(&c.Session))
		case "events":
			if c.Events != nil {
				f.Stop()
			}
			c.Events = json.RawMessage(f.Value)
		case "preview":
			p, ok := readPreview(f.Value)
			if !ok || c.Preview != nil {
				f.Stop()
			}
			c.Preview = p
		default:
			f.Stop()
		}
	}
	if !f.Done() || c.Op == "append" && c.Preview != nil || c.Op == "preview" && c.Events != nil || c.Op != "append" && c.Op != "preview" {
		return clientFrame{}, false
	}
	// The memory of the frame is reused; these are needed longer.
	c.ID, c.Events = bytes.Clone(c.ID), bytes.Clone(c.Events)
	return c, true
}

func readPreview(b []byte) (*previewBody, bool) {
	p := &previewBody{}
	f := chat.Fields{Rest: b}
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
	return p, f.Done()
}
