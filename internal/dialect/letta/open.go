package letta

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/parley-hq/parley/chat"
)

// open reads the book for the first time in this process, and goes on with what
// earlier ones left undone.
func (b *book) open(ctx context.Context) error {
	b.opening.Lock()
	defer b.opening.Unlock()
	if b.ready.Load() {
		return nil
	}
	left, err := b.load(ctx)
	if err != nil {
		return err
	}
	for _, p := range left {
		// Nobody sees it any more; that it could not be erased is no reason to
		// refuse all others.
		if err := b.remove(ctx, p.id); err != nil {
			b.d.log.ErrorContext(ctx, "what is left of a deleted thing could not be erased; the next start tries again", "kind", p.kind, "id", p.id, "err", err)
		}
	}
	for _, r := range b.of(kindCallback) { // that an earlier process did not get to
		if r.Fields["sent_at"] == nil {
			b.d.enqueue(b.workspace, r.ID)
		}
	}
	b.ready.Store(true)
	return nil
}

// openAll opens the books of all workspaces that are known to have one.
func (d *Dialect) openAll(ctx context.Context) error {
	b, err := d.bookIn(ctx, chat.DefaultWorkspace)
	if err != nil {
		return err
	}
	b.mu.Lock()
	shelves := slices.Clone(b.shelves)
	b.mu.Unlock()
	for _, workspace := range shelves {
		if _, err := d.bookIn(ctx, workspace); err != nil {
			return err
		}
	}
	return nil
}

// Erased is told of every session that was erased, by whomever. It does not block.
func (d *Dialect) Erased(id chat.SessionID) {
	select {
	case d.erased <- id:
	default: // the next start looks at all pages
	}
}

// follows removes the page of a conversation that was erased by other means.
func (d *Dialect) follows(ctx context.Context, id chat.SessionID) {
	d.mu.Lock()
	books := slices.Collect(maps.Values(d.books))
	d.mu.Unlock()
	for _, b := range books {
		b.mu.Lock()
		p := b.pages[string(id)]
		left := p != nil && !p.going
		b.mu.Unlock()
		if !left {
			continue
		}
		if err := b.remove(ctx, string(id)); err != nil {
			d.log.ErrorContext(ctx, "the page of an erased conversation could not be erased; the next start tries again", "id", id, "err", err)
		}
	}
}

func (b *book) load(ctx context.Context) ([]*page, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.catchUp(ctx); err != nil {
		return nil, err
	}
	return b.leftovers(ctx)
}

// leftovers are the pages that are to be removed before the book is used: those
// of things that were going or never came to be, and those whose conversation was
// erased by other means. The session of one that never came to be goes along: it
// was begun for it a moment before, and nobody was told its id. (Calls that wait on
// a session of somebody else's stand on a page of their own kind, which takes no
// session along.)
func (b *book) leftovers(ctx context.Context) ([]*page, error) {
	var out []*page
	for _, p := range b.pages {
		left := p.going
		if !left && p.last <= 1 { // nothing was written on it; be sure of that
			sess, err := b.d.opt.Sessions.Get(ctx, b.caller(), pageSession(p.id))
			if err != nil && !absent(err) {
				return nil, err
			}
			left = err != nil || sess.Last <= 1
		}
		if !left && p.kind != kindIdentity && p.kind != kindGroup {
			_, err := b.d.opt.Sessions.Get(ctx, b.caller(), chat.SessionID(p.id))
			if err != nil && !absent(err) {
				return nil, err
			}
			left = chat.CodeOf(err) == chat.Gone
		}
		if left {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(x, y *page) int { return cmp.Compare(x.id, y.id) })
	return out, nil
}
