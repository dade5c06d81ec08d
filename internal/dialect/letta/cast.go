package letta

import (
	"context"
	"sync"

	"github.com/parley-hq/parley/chat"
)

// cast is the stream of a run for all who follow it from its beginning in the same
// form: what one of them has folded and encoded, all send. Who comes back to the
// middle of a run follows it alone, because what it has of a text differs.
type cast struct {
	key     castKey
	readers int // under Dialect.mu

	mu    sync.Mutex // held over folding and encoding, so that one does it for all
	feed  *feed
	seq   chat.Seq // the events up to it are in
	enc   frames
	bytes []byte // the frames so far; only appended to
	full  bool   // there are too many of them: everybody goes on alone
}

// castKey says which streams are the same.
type castKey struct {
	turn   chat.TurnID
	tokens bool
	form   form
}

// maxCast bounds the bytes that are kept for those who join later.
const maxCast = 1 << 20

// joinCast returns the cast of a run, begun if there is none.
func (d *Dialect) joinCast(key castKey) *cast {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.casts[key]
	if c == nil {
		c = &cast{key: key}
		d.casts[key] = c
	}
	c.readers++
	return c
}

func (d *Dialect) leaveCast(c *cast) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.readers--; c.readers == 0 {
		d.closeCast(c)
	}
}

// closeCast lets nobody join any more. It is called with d.mu held.
func (d *Dialect) closeCast(c *cast) {
	if d.casts[c.key] == c {
		delete(d.casts, c.key)
	}
}

// follow writes the run to a client that has nothing of it, together with all
// others of its kind. ok is false when there is too much to share: the client has
// all up to f.told.last then.
func (c *cast) follow(ctx context.Context, f *follower, write func([]byte) error, idle func() error) (ok bool, err error) {
	from, fresh, err := f.newFeed(ctx)
	if err != nil {
		return false, err
	}
	had := 0
	for batch, err := range f.d.opt.Sessions.Watch(ctx, f.caller, f.place.session, f.start(from), nil) {
		if err != nil {
			return false, err
		}
		if batch.Idle {
			if err := idle(); err != nil {
				return false, err
			}
		}
		b, now, full, err := c.take(ctx, f, fresh, batch.Entries, had)
		if err != nil || full {
			return false, err
		}
		had += len(b)
		if len(b) > 0 {
			if err := write(b); err != nil {
				return false, err
			}
		}
		if f.told = now; now.end != nil {
			return true, nil
		}
	}
	return false, context.Cause(ctx)
}

// take folds what is new in the entries and returns the frames that a reader
// lacks, with where they leave it.
func (c *cast) take(ctx context.Context, f *follower, fresh *feed, entries []chat.Entry, had int) (b []byte, now progress, full bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.feed == nil {
		c.feed = fresh
	}
	if c.full {
		return nil, now, true, nil
	}
	// Where pieces ended is read by whoever comes first to a block that was
	// finished before anybody followed; the others would only wait to read the same.
	f.equip(ctx, c.feed)
	for i := range entries {
		e := &entries[i]
		if c.feed.end != nil {
			break
		}
		if e.Piece == nil {
			if e.Fact.Seq <= c.seq {
				continue // somebody else came to it first
			}
			c.seq = e.Fact.Seq
		}
		items, err := c.feed.take(e)
		if err != nil {
			return nil, now, false, err
		}
		if len(items) > 0 {
			c.bytes = append(c.bytes, c.enc.encode(items)...)
		}
	}
	if b = c.bytes[had:len(c.bytes):len(c.bytes)]; len(c.bytes) > maxCast {
		c.full = true
	}
	if now = c.feed.told(); c.full && now.end == nil || now.end != nil {
		f.d.mu.Lock()
		f.d.closeCast(c)
		f.d.mu.Unlock()
	}
	return b, now, false, nil
}
