package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parley-hq/parley/chat"
)

// compactWhenLarge rewrites the file when it has grown by a good deal.
func (p *previews) compactWhenLarge() error {
	p.mu.Lock()
	due := p.size > p.floor+previewLimit && !p.closed
	p.mu.Unlock()
	if !due {
		return nil
	}
	return p.rewrite()
}

// rewrite replaces the file by one that has only the blocks that are still
// open. Writes go on while the bulk is copied and wait for the rest.
func (p *previews) rewrite() error {
	p.turns.Lock()
	defer p.turns.Unlock()
	p.mu.Lock()
	upto, swaps := p.size, p.swaps
	p.mu.Unlock()
	temp := p.path + ".new"
	to, err := p.begin(temp, 0, upto, nil)

	p.mu.Lock()
	defer p.mu.Unlock()
	for p.busy {
		p.turned.Wait()
	}
	p.busy = true
	defer func() {
		p.busy = false
		p.turned.Broadcast()
	}()
	if p.closed {
		return errors.Join(err, to.closeIf())
	}
	if err != nil || swaps != p.swaps {
		// A torn file was mended meanwhile, or taken away while it was read:
		// begin again, with everybody waiting.
		_ = to.closeIf()
		return p.replace(temp, 0, nil)
	}
	return p.replace(temp, upto, to)
}

// newPreviews is a preview file that is being written to replace the current one.
type newPreviews struct {
	vfs.File
	number uint64
}

func (f *newPreviews) closeIf() error {
	if f == nil {
		return nil
	}
	return f.Close()
}

// replace makes a rewritten file current. Of the old one everything before from
// is in to already. The caller holds mu and is busy.
func (p *previews) replace(temp string, from int64, to *newPreviews) error {
	upto := p.size
	p.mu.Unlock()
	to, err := p.begin(temp, from, upto, to)
	var size int64
	if err == nil {
		err = to.Sync() // a rename must not reach the disk before the bytes it makes current
	}
	if err == nil {
		var info os.FileInfo
		if info, err = to.Stat(); err == nil {
			size = info.Size()
			err = p.j.opt.FS.Rename(temp, p.path)
		}
	}
	if err == nil {
		err = syncFolder(p.j.opt.FS, p.j.opt.FS.PathDir(p.path))
	}
	p.mu.Lock()
	if err != nil {
		_ = to.closeIf()
		return err
	}
	if p.file != nil {
		_ = p.file.Close()
	}
	p.file, p.size, p.floor, p.broken = to.File, size, size, false
	p.number = to.number
	p.swaps++
	return p.j.inventory.previewed(previewMark{p.number, p.size})
}

// begin copies the records of open blocks between two offsets to a file that it
// creates unless there is one.
func (p *previews) begin(temp string, from, upto int64, to *newPreviews) (_ *newPreviews, err error) {
	if to == nil {
		if to, err = p.create(temp); err != nil {
			return nil, err
		}
	}
	if upto <= from {
		return to, nil
	}
	old, err := p.j.opt.FS.Open(p.path)
	if err != nil {
		to.Close()
		return nil, err
	}
	defer old.Close()
	r := newPieceReader(io.NewSectionReader(old, from, upto-from))
	out := make([]byte, 0, 64<<10)
	for {
		q, raw, _, err := r.next()
		if err == nil && p.isOpen(&q) {
			out = append(out, raw...)
		}
		if len(out) >= 64<<10 || err != nil && len(out) > 0 {
			if _, werr := to.Write(out); werr != nil {
				to.Close()
				return nil, werr
			}
			out = out[:0]
		}
		if err == io.EOF {
			return to, nil
		}
		if err != nil {
			to.Close()
			return nil, err
		}
	}
}

// create begins a file with its header.
func (p *previews) create(temp string) (*newPreviews, error) {
	p.mu.Lock()
	number := p.next
	p.next++
	p.mu.Unlock()
	f, err := p.j.opt.FS.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(appendPiece(nil, "", chat.Seq(number), &chat.Preview{})); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &newPreviews{f, number}, nil
}

func (p *previews) isOpen(q *piece) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.open[q.session][q.Block]
	return ok
}

// makeFolder creates a folder such that a power cut does not take it away: what
// Pebble syncs inside is of no use when the way to it is lost.
func makeFolder(fs vfs.FS, dir string) error {
	var made []string
	for at := dir; ; at = fs.PathDir(at) {
		if _, err := fs.Stat(at); !errors.Is(err, os.ErrNotExist) || at == fs.PathDir(at) {
			break
		}
		made = append(made, fs.PathDir(at))
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, parent := range made {
		if err := syncFolder(fs, parent); err != nil {
			return err
		}
	}
	return nil
}

func syncFolder(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// recovered is a block as the file has it.
type recovered struct {
	chat.Block
	after chat.Seq // the session's last event when it began
	text  []byte   // becomes Block.Text at the end: it comes in very many pieces
}

// recover reads what the process before left. A torn or garbage tail is what a
// crash leaves; it is cut.
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
			p.left[id] = append(p.left[id], b.Block)
			if p.open[id] == nil {
				p.open[id] = map[chat.BlockID]openBlock{}
			}
			p.open[id][b.ID] = openBlock{b.Turn}
		}
	}
	return nil
}

// lost reports that the file is not as it was left. A power cut does this as well
// as damage, because the file is not synced: so it is no reason to refuse a start.
func (p *previews) lost(what string) {
	name := previewFolder + "/" + previewFile
	p.j.losses = append(p.j.losses, Damage{Kind: "previews", What: name + " " + what + ": the newest part of texts that were being written is lost; finished texts are not affected"})
	p.j.opt.Logger.Error("the preview file "+what+"; the newest part of texts that were being written is lost, as after a power cut; finished texts are not affected", "file", p.path)
}

// addPiece joins a piece to its block. Pieces may repeat what is there; one that
// leaves a gap is of no use.
func addPiece(blocks []*recovered, q *piece) []*recovered {
	i := slices.IndexFunc(blocks, func(b *recovered) bool { return b.ID == q.Block })
	if i >= 0 && q.Offset == 0 && (blocks[i].Turn != q.Turn || !continues(string(blocks[i].text), q.Text)) {
		// The id is used again, after the block before was finished.
		blocks = slices.Delete(blocks, i, i+1)
		i = -1
	}
	if i < 0 {
		blocks = append(blocks, &recovered{Block: chat.Block{ID: q.Block, Kind: q.Kind, Workstream: q.Workstream, Turn: q.Turn}, after: q.after})
		i = len(blocks) - 1
	}
	b := blocks[i]
	if have := len(b.text); q.Offset <= have && q.End > have {
		b.text = append(b.text, q.Text[have-q.Offset:]...)
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
	// A damaged session must not keep the others from being served, or verified.
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
			continue // Load and Verify name it
		}
		blocks = slices.DeleteFunc(blocks, func(b *recovered) bool {
			if e.Seq <= b.after {
				return false // of another block with that id
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
