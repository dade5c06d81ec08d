package chat

import (
	"strconv"
	"unicode/utf8"

	"github.com/parley-hq/parley/internal/json"
)

// BlockKind says what a block holds.
type BlockKind string

// The kinds of block.
const (
	TextBlock     BlockKind = "text"
	ThinkingBlock BlockKind = "thinking"
)

// Preview is a piece of a block that is being written. It takes no number. The
// finished block is an AgentText or AgentThinking that replaces it. Offsets
// count bytes of UTF-8 and make pieces idempotent.
type Preview struct {
	Block      BlockID   `json:"block"`
	Offset     int       `json:"offset"`
	End        int       `json:"end"`
	Text       string    `json:"text"`
	Kind       BlockKind `json:"kind"`
	Workstream string    `json:"workstream_id,omitempty"`
	Turn       TurnID    `json:"turn_id,omitempty"`
	Attempt    int       `json:"-"`
	AtEnd      bool      `json:"-"` // Offset is where the block ends now; set by dialects whose clients send no offsets
	At         At        `json:"-"`
}

// MaxBlock is the size at which a block must be closed and continued in a new one.
const MaxBlock = 512 << 10

// Normalize checks a piece of a client and fills in the fields that follow from
// others.
func (p *Preview) Normalize() error {
	if err := p.Block.Validate(); err != nil {
		return err
	}
	switch p.Kind {
	case "":
		p.Kind = TextBlock
	case TextBlock, ThinkingBlock:
	default:
		return Errorf(Invalid, "kind %q is not one of text, thinking", string(p.Kind))
	}
	if p.Text == "" {
		return Errorf(Invalid, "a preview needs text")
	}
	if !utf8.ValidString(p.Text) {
		return Errorf(Invalid, "the text of a preview is not valid UTF-8; a piece must not split a character")
	}
	if p.Offset < 0 || p.Offset > MaxBlock {
		return Errorf(Invalid, "offset %d is outside a block", p.Offset)
	}
	if p.Workstream == "main" {
		p.Workstream = ""
	}
	if p.Workstream != "" {
		if err := CheckWorkstream(p.Workstream); err != nil {
			return err
		}
	}
	p.End = p.Offset + len(p.Text)
	if p.End > MaxBlock {
		return Errorf(TooLarge, "a block has at most %d KiB: finish it with agent.text and continue in a new one", MaxBlock>>10)
	}
	return nil
}

// TextAfter returns the text of the piece behind the first have bytes of its block. It is
// empty if the piece has nothing behind them, or begins later, so that bytes are missing.
func (p *Preview) TextAfter(have int) string {
	if p.Offset > have || p.Offset+len(p.Text) <= have {
		return ""
	}
	return p.Text[have-p.Offset:]
}

// AppendJSON appends the piece as it goes out to native readers.
func (p *Preview) AppendJSON(b []byte) []byte {
	b = append(b, `{"block":"`...)
	b = append(b, p.Block...)
	b = append(b, `","offset":`...)
	b = strconv.AppendInt(b, int64(p.Offset), 10)
	b = append(b, `,"end":`...)
	b = strconv.AppendInt(b, int64(p.End), 10)
	b = append(b, `,"text":`...)
	b = json.AppendString(b, p.Text)
	b = append(b, `,"kind":"`...)
	b = append(b, p.Kind...)
	b = append(b, '"')
	b = appendField(b, "workstream_id", p.Workstream)
	b = appendField(b, "turn_id", string(p.Turn))
	return append(b, '}')
}

// Block is a block that is being written, with its text so far.
type Block struct {
	ID         BlockID   `json:"block"`
	Kind       BlockKind `json:"kind"`
	Text       string    `json:"text"`
	Workstream string    `json:"workstream_id,omitempty"`
	Turn       TurnID    `json:"turn_id,omitempty"`
	Ends       []End     `json:"-"` // where its pieces ended
}

// End is the end of a piece and its position. It is stored with the block, so that
// a dialect that resumes by position cuts the text as it was sent first.
type End struct {
	Bytes int
	At    At
}

// FinishedBlock returns the block that a body finishes, or "".
func FinishedBlock(b Body) BlockID {
	switch b := b.(type) {
	case AgentText:
		return b.Block
	case AgentThinking:
		return b.Block
	}
	return ""
}
