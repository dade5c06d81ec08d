package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
)

// recovered is a block that was read from the file.
type recovered struct {
	chat.Block
	after chat.Seq // the session's last event when it began
	text  []byte   // becomes Block.Text at the end: there can be very many pieces
}

// recover reads the file of the previous process. After a crash the file may end
// with an incomplete or unreadable record, which is ignored.
func (p *previews) recover() error {
	mark := p.j.inventory.mark.previews
	defer func() { p.next = max(p.number, mark.generation) + 1 }()
	f, err := p.j.opt.FS.Open(p.path)
	if errors.Is(err, os.ErrNotExist) {
		if mark.generation > 0 {
			p.lost("is missing")
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	found := map[chat.SessionID][]*recovered{}
	r := newPieceReader(f)
	for {
		q, _, torn, err := r.next()
		if err == io.EOF {
			if torn {
				p.j.opt.Logger.Warn("the preview file ends in an unfinished record, which was cut", "file", p.path, "kept", r.good)
			}
			break
		}
		if err != nil {
			return err
		}
		if q.isHeader() {
			p.number = uint64(q.after)
			continue
		}
		found[q.session] = addPiece(found[q.session], &q)
	}
	p.size = r.good
	switch {
	case p.number < mark.generation:
		p.lost("is not the one that was written last")
	case p.number == mark.generation && p.size < mark.size:
		p.lost(fmt.Sprintf("can be read up to byte %d, although %d were written", p.size, mark.size))
	}
	for id, blocks := range found {
		open, err := p.j.unfinished(id, blocks)
		if err != nil {
			return err
		}
		for _, b := range open {
			b.Text = string(b.text)
			p.openAtStart[id] = append(p.openAtStart[id], b.Block)
			if p.open[id] == nil {
				p.open[id] = map[chat.BlockID]chat.TurnID{}
			}
			p.open[id][b.ID] = b.Turn
		}
	}
	return nil
}

// lost reports that the file is shorter or older than the mark in db.synced. The
// start continues, because a power cut has this effect too: the file is not synced.
func (p *previews) lost(what string) {
	name := previewFolder + "/" + previewFile
	p.j.losses = append(p.j.losses, Damage{Kind: "previews", What: name + " " + what + ": the newest part of texts that were being written is lost; finished texts are not affected"})
	p.j.opt.Logger.Error("the preview file "+what+"; the newest part of texts that were being written is lost, as after a power cut; finished texts are not affected", "file", p.path)
}

// addPiece appends a piece to its block. A piece may repeat text; one that leaves a
// gap is ignored.
func addPiece(blocks []*recovered, q *piece) []*recovered {
	i := slices.IndexFunc(blocks, func(b *recovered) bool { return b.ID == q.Block })
	if i >= 0 && q.Offset == 0 && (blocks[i].Turn != q.Turn || !continues(string(blocks[i].text), q.Text)) {
		// A later block with the same id.
		blocks = slices.Delete(blocks, i, i+1)
		i = -1
	}
	if i < 0 {
		blocks = append(blocks, &recovered{Block: chat.Block{ID: q.Block, Kind: q.Kind, Workstream: q.Workstream, Turn: q.Turn}, after: q.after})
		i = len(blocks) - 1
	}
	b := blocks[i]
	if text := q.TextAfter(len(b.text)); text != "" {
		b.text = append(b.text, text...)
		b.Ends = append(b.Ends, chat.End{Bytes: q.End, At: q.At})
	}
	return blocks
}

// continues reports whether one text is the beginning of the other.
func continues(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }

// unfinished returns the blocks that no event of the log finishes.
func (j *Journal) unfinished(id chat.SessionID, blocks []*recovered) ([]*recovered, error) {
	v, err := j.look(id)
	if code := chat.CodeOf(err); code == chat.NotFound || code == chat.Gone {
		return nil, nil
	}
	// The other sessions must be served and verified although one is damaged.
	drop := func(err error) ([]*recovered, error) {
		j.opt.Logger.Error("previews of a damaged session are dropped", "session", id, "err", err.Error())
		return nil, nil
	}
	if err != nil {
		return drop(err)
	}
	blocks = slices.DeleteFunc(blocks, func(b *recovered) bool { return len(b.text) == 0 })
	after := v.seq
	for _, b := range blocks {
		after = min(after, b.after)
	}
	it, err := j.db.NewIter(&pebble.IterOptions{
		LowerBound: seqKey(nil, kEvent, v.number, after+1), UpperBound: seqKey(nil, kEvent, v.number, v.seq+1),
	})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for ok := it.First(); ok && len(blocks) > 0; ok = it.Next() {
		f := chat.Fact{JSON: it.Value()}
		label, err := f.Label()
		if err != nil || !strings.HasPrefix(label.Type, "agent.t") && label.Type != "turn.completed" {
			continue
		}
		e, err := f.Event()
		if err != nil {
			continue // Load and Verify report it
		}
		blocks = slices.DeleteFunc(blocks, func(b *recovered) bool {
			if e.Seq <= b.after {
				return false // it belongs to an earlier block with that id
			}
			if t, ok := e.Body.(chat.TurnCompleted); ok {
				return t.TurnID == b.Turn
			}
			return chat.FinishedBlock(e.Body) == b.ID
		})
	}
	if err := it.Error(); err != nil {
		return drop(err)
	}
	return blocks, nil
}
