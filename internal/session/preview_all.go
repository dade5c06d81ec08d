package session

import (
	"context"
	"fmt"
	"sync"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// PreviewAll is Preview for pieces of several sessions, in order. They share one write to
// the preview file, and no other goroutine is needed: a piece costs about a third of what
// it costs with PreviewLater. The pieces belong to PreviewAll. A Session with Named set is
// resolved first, see Resolve.
//
// It stops before the first session for which other requests are handled at the moment, or
// that another node owns, and returns how many it has handled. So it never waits for a commit.
func (s *Sessions) PreviewAll(ctx context.Context, c chat.Caller, all []core.SessionPieces) (handled int) {
	b := previewBatches.Get().(*previewBatch)
	defer previewBatches.Put(b)
	stored := context.WithoutCancel(ctx)
	defer b.show(stored, s, c)
	for handled < len(all) {
		one := &all[handled]
		r, err := s.acquirePreview(ctx, c, one)
		if err != nil {
			one.Err = err
			handled++
			continue
		}
		if s.elsewhere(ctx, r.id) {
			r.release()
			break // its owner handles them
		}
		if r.tryLead() {
			h := heldPreview{order: r, of: one}
			if one.Err = s.countWritten(c, costOfPieces(one.Pieces)); one.Err != nil {
				h.end()
			} else {
				b.held = append(b.held, h)
			}
			handled++
			continue
		}
		r.release()
		if !b.has(r) {
			break
		}
		b.show(stored, s, c) // an earlier piece of the same session
	}
	return handled
}

// acquirePreview checks pieces without the session's state, and acquires the sequencer.
func (s *Sessions) acquirePreview(ctx context.Context, c chat.Caller, of *core.SessionPieces) (*sequencer, error) {
	if !c.Has(chat.ScopeAgent) {
		return nil, chat.Errorf(chat.Denied, "sending previews needs the scope agent")
	}
	for i := range of.Pieces {
		if err := of.Pieces[i].Normalize(); err != nil {
			return nil, at(i, len(of.Pieces), err)
		}
	}
	if !of.Named {
		return s.acquireFor(ctx, c, of.Session)
	}
	of.Named = false
	if r := s.acquireCached(of.Session); r != nil {
		if sess := r.session.Load(); sess != nil && createdBy(c, sess) {
			return r, nil // the caller's own session: the name is its id
		}
		r.release()
	}
	id, err := s.Resolve(ctx, c, of.Session)
	if err != nil {
		return nil, err
	}
	of.Session = id
	return s.acquireFor(ctx, c, id)
}

// previewBatch holds the sequencers of several sessions until their pieces are shown. It
// never waits for a sequencer, so two batches cannot block each other.
type previewBatch struct {
	held    []heldPreview
	written []core.SessionPieces // memory for show
}

// previewBatches keeps the memory of batches. They are empty.
var previewBatches = sync.Pool{New: func() any { return new(previewBatch) }}

// heldPreview is a session of a previewBatch.
type heldPreview struct {
	order *sequencer // nil when it has been released
	of    *core.SessionPieces
	new   *previewing // nil if nothing is new
}

func (b *previewBatch) has(r *sequencer) bool {
	for i := range b.held {
		if b.held[i].order == r {
			return true
		}
	}
	return false
}

// show writes and publishes the pieces and releases the sequencers.
func (b *previewBatch) show(ctx context.Context, s *Sessions, c chat.Caller) {
	if len(b.held) == 0 {
		return
	}
	defer func() {
		for i := range b.held {
			b.held[i].end()
		}
		clear(b.held)
		clear(b.written)
		b.held, b.written = b.held[:0], b.written[:0]
	}()
	for i := range b.held {
		h := &b.held[i]
		if h.of.Err = h.collect(ctx, c); h.new != nil {
			b.written = append(b.written, core.SessionPieces{Session: h.order.id, Pieces: h.new.pieces})
		}
	}
	if len(b.written) == 0 {
		return
	}
	s.log.WritePreviews(ctx, b.written)
	next := 0
	for i := range b.held {
		h := &b.held[i]
		if h.new == nil {
			continue
		}
		if err := b.written[next].Err; err != nil {
			h.of.Err = fmt.Errorf("preview in %s: %w", h.order.id, err)
		} else {
			h.new.publish()
		}
		h.end() // the sessions after it may have many readers
		next++
	}
}

// end releases the sequencer.
func (h *heldPreview) end() {
	if h.order != nil {
		h.order.pass()
		h.order.release()
		h.order = nil
	}
}

// collect decides which pieces are new.
func (h *heldPreview) collect(ctx context.Context, c chat.Caller) (err error) {
	r := h.order
	defer func() {
		if p := recover(); p != nil {
			r.state, h.new = nil, nil
			err = r.fault(p)
		}
	}()
	p, err := r.collect(ctx)
	if err != nil {
		return err
	}
	p.pieces = h.of.Pieces[:0] // a piece is read before its place is used
	if err := p.addRequest(c, h.of.Pieces); err != nil || len(p.pieces) == 0 {
		return err
	}
	r.lastAt = p.lastAt // even if the write fails: part of it may be in the file
	h.new = p
	return nil
}
