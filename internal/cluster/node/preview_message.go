package node

import (
	"math"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/fields"
	"github.com/parley-hq/parley/internal/json"
)

// sentPreviews are pieces of unfinished blocks, in sessions of one partition.
type sentPreviews struct {
	partition int
	epoch     uint64
	first     uint64 // the number, or of messages that were joined the first one; it is not sent
	number    uint64 // from 1 in each epoch; of messages that were joined the last one
	pos       cluster.Pos
	sessions  []core.SessionPieces
}

// append appends the encoded message to b.
func (m *sentPreviews) append(b []byte) []byte {
	b = append(b, msgPreviews)
	b = fields.AppendNumber(b, uint64(m.partition))
	b = fields.AppendNumber(b, m.epoch)
	b = fields.AppendNumber(b, m.number)
	b = fields.AppendNumber(b, uint64(m.pos))
	b = fields.AppendNumber(b, uint64(len(m.sessions)))
	for _, s := range m.sessions {
		b = fields.AppendBytes(b, s.Session)
		b = fields.AppendNumber(b, uint64(len(s.Pieces)))
		for i := range s.Pieces {
			p := &s.Pieces[i]
			b = fields.AppendBytes(b, p.Block)
			b = fields.AppendNumber(b, uint64(p.Offset))
			b = fields.AppendBytes(b, p.Text)
			b = fields.AppendBytes(b, p.Kind)
			b = fields.AppendBytes(b, p.Workstream)
			b = fields.AppendBytes(b, p.Turn)
			b = fields.AppendNumber(b, uint64(p.At))
		}
	}
	return b
}

// readPreviews decodes a message without its first byte.
func readPreviews(b []byte) (m *sentPreviews, ok bool) {
	r := fields.NewReader(b)
	text := func() string { return string(r.Bytes(len(b))) }
	number := func() int { return int(r.Number(math.MaxInt)) }
	m = &sentPreviews{partition: number(), epoch: r.Number(math.MaxUint64), number: r.Number(math.MaxUint64), pos: cluster.Pos(r.Number(math.MaxUint64))}
	m.first = m.number
	m.sessions = make([]core.SessionPieces, r.Count())
	for i := range m.sessions {
		s := &m.sessions[i]
		s.Session = chat.SessionID(text())
		s.Pieces = make([]chat.Preview, r.Count())
		for k := range s.Pieces {
			s.Pieces[k] = chat.Preview{
				Block: chat.BlockID(text()), Offset: number(), Text: text(), Kind: chat.BlockKind(text()),
				Workstream: text(), Turn: chat.TurnID(text()), At: chat.At(number()),
			}
			s.Pieces[k].End = s.Pieces[k].Offset + len(s.Pieces[k].Text)
		}
	}
	return m, r.Done() && m.number > 0
}

// maxJoined bounds the messages that are shown together, and their sessions.
const maxJoined = 1024

// join adds the messages that wait in a queue, so that one write to the preview file is enough for all of them. It returns the
// first one that is of another epoch, is not the next one, or follows a position of the log that is not applied yet, nil if there is none.
func (m *sentPreviews) join(queue <-chan *sentPreviews, applied cluster.Pos) (other *sentPreviews) {
	var at map[chat.SessionID]int // in m.sessions
	for n := 0; n < maxJoined && len(m.sessions) < maxJoined; n++ {
		select {
		case other = <-queue:
		default:
			return nil
		}
		if other.epoch != m.epoch || other.number != m.number+1 || other.pos > max(applied, m.pos) {
			return other
		}
		if at == nil {
			at = make(map[chat.SessionID]int, 2*len(m.sessions))
			for i := range m.sessions {
				at[m.sessions[i].Session] = i
			}
		}
		m.number, m.pos = other.number, max(m.pos, other.pos)
		for _, of := range other.sessions {
			if i, ok := at[of.Session]; ok {
				m.sessions[i].Pieces = append(m.sessions[i].Pieces, of.Pieces...)
				continue
			}
			at[of.Session] = len(m.sessions)
			m.sessions = append(m.sessions, of)
		}
	}
	return nil
}

// sentBlock is an unfinished block. Clients that resume by counting rely on its pieces being the same at all nodes.
type sentBlock struct {
	chat.Block
	Ends []chat.End `json:"ends"`
}

func sentBlocks(blocks []chat.Block) []sentBlock {
	out := make([]sentBlock, len(blocks))
	for i, b := range blocks {
		out[i] = sentBlock{b, b.Ends}
	}
	return out
}

// pieces returns the block as the pieces in which it was written.
func (b *sentBlock) pieces() (out []chat.Preview) {
	begin := 0
	for _, end := range b.Ends {
		if end.Bytes > begin && end.Bytes <= len(b.Text) {
			out = append(out, chat.Preview{Block: b.ID, Offset: begin, End: end.Bytes, Text: b.Text[begin:end.Bytes], Kind: b.Kind, Workstream: b.Workstream, Turn: b.Turn, At: end.At})
			begin = end.Bytes
		}
	}
	return out
}

// readBlocks returns the pieces of encoded blocks.
func readBlocks(b []byte) (pieces []chat.Preview, err error) {
	var blocks []sentBlock
	err = json.Unmarshal(b, &blocks)
	for _, b := range blocks {
		pieces = append(pieces, b.pieces()...)
	}
	return pieces, err
}
