package hub

import (
	"fmt"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// These types are declared in chat, because dialects and sessions use them without
// importing the hub.
type (
	Entry    = core.Entry
	Encoding = core.Encoding
	Packer   = core.Packer
	Pack     = core.Pack
	Start    = core.Start
	Batch    = core.Batch
)

// entryOf returns the entry of a fact from the log. It decodes only the fields that it
// needs.
func entryOf(f chat.Fact) (Entry, error) {
	label, at, err := f.Header()
	e := Entry{At: at, Fact: f, Label: label, Cursor: chat.Cursor{Seq: f.Seq}}
	if label.Type == "agent.text" || label.Type == "agent.thinking" {
		var ev chat.Event
		ev, err = f.Event()
		e.Block = chat.FinishedBlock(ev.Body)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("event %d: %w", f.Seq, err)
	}
	return e, nil
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
