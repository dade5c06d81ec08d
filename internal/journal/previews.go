package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

const (
	previewLimit  = 16 << 20 // file size at which it is rewritten
	previewQueue  = 8 << 20  // bytes that may wait for a write; then callers wait
	previewFile   = "open.log"
	previewFolder = "previews"
)

// previews is the file of blocks that are being written. Callers that come while
// a write is in progress share the next one.
type previews struct {
	j    *Journal
	path string

	rewriteLock sync.Mutex // held during a rewrite: rewrites use the same temporary file; taken before mu

	mu       sync.Mutex
	changed  sync.Cond // a write or a rewrite ended
	busy     bool      // a goroutine writes or replaces the file
	closed   bool
	file     vfs.File
	size     int64  // bytes of whole records in file
	floor    int64  // size after the last rewrite
	replaced uint64 // how often file was replaced
	number   uint64 // generation of file, see previewMark
	next     uint64 // generation of the next file
	broken   bool   // the bytes behind size are an incomplete record
	queue    *group
	spare    []byte
	open     map[chat.SessionID]map[chat.BlockID]chat.TurnID

	openAtStart map[chat.SessionID][]chat.Block // blocks that were open when the previous process ended; OpenBlocks returns them
}

// group is the pieces of one write.
type group struct {
	bytes  []byte
	pieces int
	done   bool // it is written, or has failed with err
	err    error
}

func openPreviews(j *Journal) (*previews, error) {
	fs := j.opt.FS
	folder := fs.PathJoin(j.dir, previewFolder)
	p := &previews{
		j: j, path: fs.PathJoin(folder, previewFile), queue: &group{},
		open: map[chat.SessionID]map[chat.BlockID]chat.TurnID{}, openAtStart: map[chat.SessionID][]chat.Block{},
	}
	p.changed.L = &p.mu
	if err := p.recover(); err != nil {
		return nil, fmt.Errorf("read the preview file: %w", err)
	}
	if j.readOnly {
		return p, nil
	}
	if err := makeFolder(fs, folder); err != nil {
		return nil, err
	}
	if err := p.rewrite(); err != nil {
		return nil, fmt.Errorf("write the preview file: %w", err)
	}
	return p, nil
}

// WritePreviews writes pieces of open blocks to the preview file with one call and
// without a sync: those without an error survive the end of the process, but not a power
// cut. It may wait for a write in progress.
func (j *Journal) WritePreviews(ctx context.Context, all []core.SessionPieces) {
	var room [64]chat.Seq
	after, write := room[:0], false
	unwritable := j.Writable()
	for i := range all {
		of := &all[i]
		var v view
		if of.Err = unwritable; of.Err == nil {
			v, of.Err = j.look(of.Session)
		}
		for k := 0; k < len(of.Pieces) && of.Err == nil; k++ {
			if p := &of.Pieces[k]; len(p.Text) > chat.MaxBlock || p.Offset < 0 || p.Offset > chat.MaxBlock {
				of.Err = chat.Errorf(chat.TooLarge, "a piece lies outside a block, which has at most %d KiB", chat.MaxBlock>>10)
			}
		}
		after, write = append(after, v.seq), write || of.Err == nil
	}
	if !write {
		return
	}
	err := j.previews.write(ctx, all, after)
	for i := range all {
		of := &all[i]
		if of.Err != nil {
			continue
		}
		if of.Err = err; err == nil {
			if _, err := j.look(of.Session); chat.CodeOf(err) == chat.Gone {
				// The session was erased meanwhile: its text must not stay in the file.
				of.Err = errors.Join(err, j.previews.erase(of.Session))
			}
		}
	}
}

// OpenBlocks returns the blocks that were open when the previous process ended,
// without those that the log finishes. The result does not change later.
func (j *Journal) OpenBlocks() map[chat.SessionID][]chat.Block {
	return maps.Clone(j.previews.openAtStart)
}

// write writes the pieces of the sessions that have no error. after has the last event of
// each session.
func (p *previews) write(ctx context.Context, all []core.SessionPieces, after []chat.Seq) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue.bytes) > previewQueue && !p.closed {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.changed.Wait()
	}
	if p.closed {
		return chat.Errorf(chat.Unavailable, "the server is shutting down; try again in a moment")
	}
	mine := p.queue
	for i := range all {
		if all[i].Err != nil {
			continue
		}
		id, pieces := all[i].Session, all[i].Pieces
		for k := range pieces {
			mine.bytes = appendPiece(mine.bytes, id, after[i], &pieces[k])
			if pieces[k].Offset == 0 { // the other pieces continue a block that is open
				p.opened(id, &pieces[k])
			}
		}
		mine.pieces += len(pieces)
	}
	for !mine.done {
		if p.busy {
			p.changed.Wait()
			continue
		}
		// The first caller that finds the file free writes for all that wait.
		p.busy = true
		p.flush()
		p.busy = false
		p.changed.Broadcast()
	}
	return mine.err
}

// opened adds a block to the open ones.
func (p *previews) opened(id chat.SessionID, first *chat.Preview) {
	blocks := p.open[id]
	if blocks == nil {
		blocks = map[chat.BlockID]chat.TurnID{}
		p.open[id] = blocks
	}
	blocks[first.Block] = first.Turn
}

// flush writes the queue with one call. The caller holds mu and has set busy.
func (p *previews) flush() {
	g := p.queue
	p.queue = &group{bytes: p.spare[:0]}
	p.spare = nil
	var err error
	switch {
	case p.file == nil:
		err = fs.ErrClosed
	case p.broken:
		err = p.replace(p.path+".fix", 0, nil)
	}
	if err == nil {
		file := p.file
		p.mu.Unlock()
		_, err = file.Write(g.bytes)
		p.mu.Lock()
		p.broken = err != nil
	}
	if err == nil {
		p.size += int64(len(g.bytes))
		err = p.j.inventory.setPreviews(previewMark{p.number, p.size})
	}
	if err != nil {
		g.err = chat.Errorf(chat.Unavailable, "the server cannot keep previews at the moment; finished text is not affected").Because(err)
	} else {
		p.j.metrics.previews.Inc()
		p.j.metrics.pieces.Add(float64(g.pieces))
	}
	if cap(g.bytes) <= 1<<20 {
		p.spare = g.bytes[:0]
	}
	g.done = true
}

// committed removes the blocks that a commit finished, and those of turns that it
// ended, from the open ones.
func (p *previews) committed(c *core.Commit) {
	for i := range c.Events {
		switch b := c.Events[i].Body.(type) {
		case chat.AgentText, chat.AgentThinking:
			p.drop(c.Session, func(id chat.BlockID, _ chat.TurnID) bool { return id == chat.FinishedBlock(b) })
		case chat.TurnCompleted:
			p.drop(c.Session, func(_ chat.BlockID, turn chat.TurnID) bool { return turn == b.TurnID })
		}
	}
}

// drop removes blocks of a session from the open ones; the next rewrite leaves out
// their records.
func (p *previews) drop(id chat.SessionID, gone func(chat.BlockID, chat.TurnID) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if blocks := p.open[id]; blocks != nil {
		maps.DeleteFunc(blocks, gone)
		if len(blocks) == 0 {
			delete(p.open, id)
		}
	}
}

// erase removes the text of a session from the file. An empty id means all sessions
// that were erased.
func (p *previews) erase(id chat.SessionID) error {
	ids := []chat.SessionID{id}
	if id == "" {
		p.mu.Lock()
		ids = slices.Collect(maps.Keys(p.open))
		p.mu.Unlock()
		ids = slices.DeleteFunc(ids, func(id chat.SessionID) bool {
			_, err := p.j.look(id)
			return chat.CodeOf(err) != chat.Gone
		})
	}
	for _, id := range ids {
		p.drop(id, func(chat.BlockID, chat.TurnID) bool { return true })
	}
	return p.rewrite()
}

func (p *previews) fileSize() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size
}

func (p *previews) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.changed.Broadcast()
	for p.busy || p.queue.pieces > 0 {
		p.changed.Wait()
	}
	if p.file == nil {
		return nil
	}
	file := p.file
	p.file = nil
	return file.Close()
}
