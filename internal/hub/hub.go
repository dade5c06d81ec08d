package hub

import (
	"cmp"
	"container/list"
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/parley-hq/parley/chat"
)

// Log is the part of a journal that the hub needs.
type Log interface {
	// Record returns a session's record: the hub uses its Last, and the error
	// for a session that does not exist or was erased.
	Record(ctx context.Context, id chat.SessionID) (chat.Session, error)
	// Read returns stored events and whether there are more in the range.
	Read(ctx context.Context, id chat.SessionID, r chat.Range) ([]chat.Fact, bool, error)
}

// Options bound what a hub keeps in memory. The zero value works.
type Options struct {
	Tail      int          // events kept per watched session; 0 means 1024
	TailBytes int          // and their bytes; 0 means 1 MiB
	Idle      int          // sessions whose tail is kept without readers; 0 means 256, less than 0 none
	PageBytes int          // most bytes a reader takes from the log at once; 0 means 64 KiB
	Logger    *slog.Logger // nil means none
}

func (o Options) filled() Options {
	o.Tail = cmp.Or(o.Tail, 1024)
	o.TailBytes = cmp.Or(o.TailBytes, 1<<20)
	o.Idle = cmp.Or(o.Idle, 256)
	// A reader that is far behind holds one page while it writes it. Pages are small
	// because there can be thousands of such readers.
	o.PageBytes = cmp.Or(o.PageBytes, 64<<10)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Hub delivers the streams of all sessions of a process to their readers. All
// methods may be called by several goroutines at once, except that calls of
// Publish for one session must not overlap.
type Hub struct {
	journal Log
	opt     Options
	log     *slog.Logger
	count   counters
	first   int       // events that a fill reads
	pool    sync.Pool // *[]byte: buffers of readers that encode for themselves

	mu     sync.Mutex
	topics map[chat.SessionID]*topic
	idle   *list.List // of *topic without readers, the most recent in front
	closed error
}

// New returns a hub that reads old events from l. It starts no goroutine.
func New(l Log, opt Options) *Hub {
	opt = opt.filled()
	return &Hub{
		journal: l, opt: opt, log: opt.Logger, first: firstRead,
		pool:   sync.Pool{New: func() any { return new([]byte) }},
		topics: make(map[chat.SessionID]*topic), idle: list.New(),
	}
}

// Publish gives readers the events that have become durable and the pieces that were
// written to the preview file, in order of position. It never waits for readers or for
// the log. The hub keeps facts and pieces, but not the slice. Entry.Cursor need not be
// set.
func (h *Hub) Publish(id chat.SessionID, entries []Entry) {
	pieces := false
	for i := range entries {
		pieces = pieces || entries[i].Piece != nil
	}
	t := h.lock(id, pieces)
	if t == nil {
		return // no reader, and new readers read it from the log
	}
	h.count.published.Add(uint64(len(entries)))
	t.publish(h, entries)
	var few [fewReaders]*reader
	list, unused := t.due(few[:0]), t.unused()
	t.mu.Unlock()
	wake(list)
	if unused {
		h.mu.Lock()
		t.mu.Lock()
		h.discard(t)
		t.mu.Unlock()
		h.mu.Unlock()
	}
}

// Restore sets the blocks that were open when the last process ended. They have text,
// and the last of their Ends is its end. It is called before the first Publish of the
// session.
func (h *Hub) Restore(id chat.SessionID, open []chat.Block) {
	if len(open) == 0 {
		return
	}
	t := h.lock(id, true)
	defer t.mu.Unlock()
	for _, b := range open {
		own := &block{Block: b, shown: len(b.Text)}
		own.Text, own.Ends = "", slices.Clip(b.Ends)
		own.text.WriteString(b.Text)
		t.open = append(t.open, own)
	}
}

// Blocks returns the open blocks of a session as far as they have come, in the
// order in which they were begun. Text and Ends share memory with the hub and
// must not be changed.
func (h *Hub) Blocks(id chat.SessionID) []chat.Block {
	t := h.lock(id, false)
	if t == nil {
		return nil
	}
	defer t.mu.Unlock()
	return t.open.snapshot()
}

// Unfinished returns the sessions that have open blocks.
func (h *Hub) Unfinished() (ids []chat.SessionID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, t := range h.topics {
		t.mu.Lock()
		if len(t.open) > 0 {
			ids = append(ids, id)
		}
		t.mu.Unlock()
	}
	return ids
}

// Drop removes a session that was erased. Its readers end with err.
func (h *Hub) Drop(id chat.SessionID, err error) {
	if err == nil {
		err = chat.Errorf(chat.Gone, "the session was erased; there is nothing left to read")
	}
	h.mu.Lock()
	t := h.topics[id]
	if t == nil {
		h.mu.Unlock()
		return
	}
	t.mu.Lock()
	h.remove(t)
	t.ended, t.open = err, nil
	list := t.unpark(nil)
	t.mu.Unlock()
	h.mu.Unlock()
	wake(list)
}

// Close ends all readers, now and later, with an Unavailable error that carries the
// cursor to resume from. cause is for the server's log and may be nil. Close does not
// wait for the readers.
func (h *Hub) Close(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed != nil {
		return
	}
	bye := chat.Errorf(chat.Unavailable, "the server is shutting down; resume from your cursor in a moment")
	bye.Err = cause
	h.closed = bye
	for _, t := range h.topics {
		t.mu.Lock()
		t.ended = h.closed
		list := t.unpark(nil)
		t.mu.Unlock()
		wake(list)
	}
}

// lock returns the locked topic. When there is none it creates one or returns nil.
func (h *Hub) lock(id chat.SessionID, create bool) *topic {
	for {
		h.mu.Lock()
		t := h.topics[id]
		if t == nil {
			if !create {
				h.mu.Unlock()
				return nil
			}
			t = h.create(id)
		}
		h.mu.Unlock()
		t.mu.Lock()
		if !t.removed {
			return t
		}
		t.mu.Unlock()
	}
}

// create makes a topic. The caller holds h.mu.
func (h *Hub) create(id chat.SessionID) *topic {
	t := &topic{id: id, ended: h.closed, live: ring{room: minTrim}}
	h.topics[id] = t
	return t
}

// enter registers a reader.
func (h *Hub) enter(id chat.SessionID, r *reader, enc Encoding) (*topic, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed != nil {
		return nil, h.closed
	}
	t := h.topics[id]
	if t == nil {
		t = h.create(id)
	}
	if t.idle != nil {
		h.idle.Remove(t.idle)
		t.idle = nil
	}
	t.mu.Lock()
	t.add(r, enc)
	t.mu.Unlock()
	h.count.readers.Add(1)
	return t, nil
}

// leave removes a reader. The tail of a session without readers is kept for a while,
// because clients that lost their connection reconnect.
func (h *Hub) leave(t *topic, r *reader) {
	h.count.readers.Add(-1)
	h.mu.Lock()
	defer h.mu.Unlock()
	t.mu.Lock()
	t.remove(r)
	if len(t.rs) == 0 && !t.removed {
		if t.fill != nil {
			t.idle = h.idle.PushFront(t)
		}
		h.discard(t)
	}
	t.mu.Unlock()
	for h.idle.Len() > max(h.opt.Idle, 0) {
		old := h.idle.Remove(h.idle.Back()).(*topic)
		old.mu.Lock()
		old.idle = nil
		old.dropTail()
		h.discard(old)
		old.mu.Unlock()
	}
}

// discard removes a topic that keeps nothing. The caller holds both locks.
func (h *Hub) discard(t *topic) {
	if !t.removed && t.unused() {
		h.remove(t)
	}
}

// remove removes a topic from the table. The caller holds both locks.
func (h *Hub) remove(t *topic) {
	t.removed = true
	delete(h.topics, t.id)
	if t.idle != nil {
		h.idle.Remove(t.idle)
		t.idle = nil
	}
}
