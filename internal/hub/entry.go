package hub

import (
	"bytes"
	"fmt"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// What readers get and how it is encoded is part of the vocabulary, because
// dialects and the rules speak of it without knowing the hub.
type (
	Entry    = chat.Entry
	Encoding = chat.Encoding
	Packer   = chat.Packer
	Pack     = chat.Pack
	Start    = chat.Start
	Batch    = chat.Batch
)

// EntryOf describes a fact that came out of the log. It reads no more of the
// stored bytes than it needs.
func EntryOf(f chat.Fact) (Entry, error) {
	label, err := f.Label()
	if err != nil {
		return Entry{}, fmt.Errorf("event %d: %w", f.Seq, err)
	}
	e := Entry{Fact: f, Label: label, Cursor: chat.Cursor{Seq: f.Seq}}
	head, payload, ok := bytes.Cut(f.JSON, []byte(`,"payload":`))
	stamp, stamped := quotedAfter(head, `,"timestamp":`)
	if !ok || !stamped {
		// Not in the order in which Parley writes: read it the slow way.
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
		if e.Block, err = blockIn(payload[:len(payload)-1]); err != nil {
			return Entry{}, fmt.Errorf("event %d: %w", f.Seq, err)
		}
	}
	return e, nil
}

// blockIn reads the block id of a payload. It is usually the first field, and
// then the text, which can be long, is not decoded.
func blockIn(payload []byte) (chat.BlockID, error) {
	if id, ok := quotedAfter(payload, `{"block":`); ok && bytes.HasPrefix(payload, []byte(`{"block":"`)) &&
		bytes.Count(payload, []byte(`"block"`)) == 1 && bytes.IndexByte(id, '\\') < 0 {
		return chat.BlockID(id[1 : len(id)-1]), nil
	}
	var p struct {
		Block chat.BlockID `json:"block"`
	}
	err := json.Unmarshal(payload, &p)
	return p.Block, err
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

// entryCost is what an entry costs beside its text.
const entryCost = 160

func cost(e *Entry) int {
	n := entryCost + len(e.Fact.JSON)
	if e.Piece != nil {
		n += len(e.Piece.Text)
	}
	return n
}
