package hub

import (
	"bytes"
	"fmt"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// These types are declared in chat, because dialects and sessions use them without
// importing the hub.
type (
	Entry    = chat.Entry
	Encoding = chat.Encoding
	Packer   = chat.Packer
	Pack     = chat.Pack
	Start    = chat.Start
	Batch    = chat.Batch
)

// EntryOf returns the entry of a fact from the log. It decodes only the fields that it
// needs.
func EntryOf(f chat.Fact) (Entry, error) {
	label, err := f.Label()
	if err != nil {
		return Entry{}, fmt.Errorf("event %d: %w", f.Seq, err)
	}
	e := Entry{Fact: f, Label: label, Cursor: chat.Cursor{Seq: f.Seq}}
	head, payload, ok := bytes.Cut(f.JSON, []byte(`,"payload":`))
	stamp, stamped := quotedAfter(head, `,"timestamp":`)
	if !ok || !stamped {
		// The fields are not in the order in which Parley writes them: decode all.
		ev, err := f.Event()
		if err != nil {
			return Entry{}, fmt.Errorf("event %d: %w", f.Seq, err)
		}
		e.At, e.Block = ev.At, chat.FinishedBlock(ev.Body)
		return e, nil
	}
	if err := e.At.UnmarshalJSON(stamp); err != nil {
		return Entry{}, fmt.Errorf("event %d: %w", f.Seq, err)
	}
	if label.Type == "agent.text" || label.Type == "agent.thinking" {
		var finished struct {
			Block chat.BlockID `json:"block"`
		}
		if err := json.Unmarshal(payload[:len(payload)-1], &finished); err != nil {
			return Entry{}, fmt.Errorf("event %d: %w", f.Seq, err)
		}
		e.Block = finished.Block
	}
	return e, nil
}

// quotedAfter returns the JSON string, with its quotes, that follows key.
func quotedAfter(b []byte, key string) ([]byte, bool) {
	i := bytes.Index(b, []byte(key))
	if i < 0 {
		return nil, false
	}
	b = b[i+len(key):]
	if len(b) == 0 || b[0] != '"' {
		return nil, false
	}
	j := bytes.IndexByte(b[1:], '"')
	if j < 0 {
		return nil, false
	}
	return b[:j+2], true
}

// entryCost is about the memory of an entry without its text.
const entryCost = 160

func cost(e *Entry) int {
	n := entryCost + len(e.Fact.JSON)
	if e.Piece != nil {
		n += len(e.Piece.Text)
	}
	return n
}
