package journal

import (
	"errors"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parley-hq/parley/chat"
)

// compactWhenLarge rewrites the file when it has grown by previewLimit.
func (p *previews) compactWhenLarge() error {
	p.mu.Lock()
	due := p.size > p.floor+previewLimit && !p.closed
	p.mu.Unlock()
	if !due {
		return nil
	}
	return p.rewrite()
}

// rewrite replaces the file by one that has only the open blocks. Writes continue
// while most of it is copied and wait for the rest.
func (p *previews) rewrite() error {
	p.rewriteLock.Lock()
	defer p.rewriteLock.Unlock()
	p.mu.Lock()
	upto, replaced := p.size, p.replaced
	p.mu.Unlock()
	temp := p.path + ".new"
	to, err := p.begin(temp, 0, upto, nil)

	p.mu.Lock()
	defer p.mu.Unlock()
	for p.busy {
		p.changed.Wait()
	}
	p.busy = true
	defer func() {
		p.busy = false
		p.changed.Broadcast()
	}()
	if p.closed {
		return errors.Join(err, to.closeIf())
	}
	if err != nil || replaced != p.replaced {
		// The file was replaced while it was copied: copy all of it again, while
		// writes wait.
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

// replace makes a rewritten file the current one. to contains the part of the old
// file before from. The caller holds mu and has set busy.
func (p *previews) replace(temp string, from int64, to *newPreviews) error {
	upto := p.size
	p.mu.Unlock()
	to, err := p.begin(temp, from, upto, to)
	var size int64
	if err == nil {
		err = to.Sync() // the bytes must be on disk before the rename
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
	p.replaced++
	return p.j.inventory.setPreviews(previewMark{p.number, p.size})
}

// begin copies the records of open blocks between two offsets to a file. It creates
// the file when to is nil.
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

// create creates a file and writes its header.
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
