package nemo

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/wire"
)

// small is the size up to which a frame counts as arrived when the ping in front
// of it was answered: both travel in one segment and are read together.
const small = 1200

// maxMarks bounds the pings whose answers are waited for.
const maxMarks = 512

// thread is one conversation on one socket. Its goroutine writes what happens
// in the session; the read loop tells it what has arrived and what was answered.
type thread struct {
	s       *socket
	caller  chat.Caller
	session chat.SessionID // "" until it is known
	voice   voice
	cancel  context.CancelFunc
	begun   chan struct{} // closed when it follows, or will not
	ended   chan struct{}
	spoken  chan struct{} // closed when the client has said something
	poke    chan struct{} // the session may be there now; room for one

	feed *feed // its goroutine's
	key  string
	no   uint64

	mu      sync.Mutex
	first   *chat.Event // what the client said first
	fixed   bool        // where it begins is settled
	from    chat.Seq    // and that is behind this event
	used    time.Time
	shown   *asked // the prompt in the client's one window
	last    *asked // the prompt that was there last
	held    []item // notifications that wait until the window is free
	marks   []mark // pings under way, in order
	written place  // what was sent
	arrive  place  // what is known to have arrived
	acks    []ack  // what arrived lately, oldest first
	older   place  // where it stood before them
}

// mark is a position that counts as arrived when a ping is answered.
type mark struct {
	ping uint64
	at   place
	sent time.Time
}

func (t *thread) over() bool {
	select {
	case <-t.ended:
		return true
	default:
		return false
	}
}

func (t *thread) lastUse() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used
}

// said tells the thread of a message that the client sent. One that was said
// before is answered again if its answer is over: the client would not repeat it
// if it had it.
func (t *thread) said(ctx context.Context, e chat.Event, again bool) {
	t.mu.Lock()
	if t.first == nil {
		t.first = &e
		close(t.spoken)
	}
	missed := t.fixed && e.Seq <= t.from // it was answered before the thread began
	t.mu.Unlock()
	select {
	case <-t.begun:
	default:
		again = false // it will begin here, or before
	}
	if again || missed {
		t.s.group.Go(func() { t.repeat(ctx, e) })
	}
}

// fix settles where the thread begins: not behind what the client has said, for
// that is to be answered here, however fast it was.
func (t *thread) fix(at place) place {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first != nil && t.first.Seq <= at.Cursor.Seq {
		at = place{Cursor: chat.Cursor{Seq: t.first.Seq - 1}, Base: t.first.Seq}
	}
	t.fixed, t.from = true, at.Cursor.Seq
	return at
}

// repeat sends an old answer once more.
func (t *thread) repeat(ctx context.Context, e chat.Event) {
	rep, err := t.s.d.report(ctx, t.caller, chat.Session{ID: e.Session}, e.Seq)
	if err != nil {
		t.fail(ctx, err)
		return
	}
	if rep.run.end == nil || rep.run.end.turn == nil {
		return // it is under way
	}
	var out []byte
	for i := range rep.items {
		out = wire.AppendTextFrame(out, t.voice.appendItem(nil, &rep.items[i], t.s.d.now()))
	}
	_ = t.s.conn.Write(ctx, out)
}

// run follows the conversation until the socket or the session ends.
func (t *thread) run(ctx context.Context) {
	start, err := t.begin(ctx)
	close(t.begun)
	if err != nil {
		if code := chat.CodeOf(err); code != chat.NotFound && ctx.Err() == nil {
			t.fail(ctx, err)
		}
		return
	}
	if t.feed == nil {
		return
	}
	defer func() { t.s.d.desk.leave(t, t.final(ctx), parted(ctx)) }()
	if err := t.pump(ctx, start); err != nil && ctx.Err() == nil {
		t.fail(ctx, err)
	}
}

// fail tells the client why nothing more comes.
func (t *thread) fail(ctx context.Context, err error) {
	if chat.CodeOf(err) == chat.Unavailable {
		return // the server ends; the client comes back
	}
	t.s.refuse(ctx, &clientFrame{Type: typeUser, Conversation: t.voice.conversation}, err)
}

// pump is the write loop.
func (t *thread) pump(ctx context.Context, start chat.Start) error {
	var out []byte
	var pace pace
	for batch, err := range t.s.d.opt.Sessions.Watch(ctx, t.caller, t.session, start, nil) {
		if err != nil {
			return err
		}
		out = out[:0]
		for i := range batch.Entries {
			items, err := t.feed.take(&batch.Entries[i])
			if err != nil {
				return err
			}
			for j := range items {
				if t.s.page && pace.merge(&items[j]) {
					continue
				}
				out = t.pending(out, &pace)
				out = t.frame(out, &items[j])
			}
		}
		out = t.pending(out, &pace)
		if batch.Live {
			out = t.window(out)
		}
		if err := t.flush(ctx, out); err != nil {
			<-ctx.Done() // pongs that are there already still count
			return nil
		}
		if t.s.page && len(out) > 0 {
			pace.rest(ctx)
		}
		if cap(out) > 64<<10 {
			out = nil
		}
	}
	return nil
}

// pending appends the text that was put together, if there is any.
func (t *thread) pending(out []byte, p *pace) []byte {
	if p.text == nil {
		return out
	}
	out = t.frame(out, p.text)
	p.text = nil
	return out
}

// frame appends one item, with a ping in front of it whose answer tells that it
// has arrived.
func (t *thread) frame(out []byte, it *item) []byte {
	if it.kind == itemNotice && t.isBusy() {
		t.mu.Lock()
		t.held = append(t.held, *it)
		t.mu.Unlock()
		return out
	}
	body := t.voice.appendItem(nil, it, t.s.d.now())
	if len(body) == 0 {
		return out
	}
	if len(body) <= small {
		out = t.ping(out, t.place(it.pos))
	}
	return wire.AppendTextFrame(out, body)
}

// isBusy reports whether the client's one window is taken.
func (t *thread) isBusy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shown != nil
}

func (t *thread) place(pos chat.Cursor) place {
	return place{Cursor: pos, Base: min(t.feed.base(), pos.Seq+1)}
}

func (t *thread) ping(out []byte, at place) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.marks) >= maxMarks {
		if t.s.ponged.Load() {
			return out // a later one will do
		}
		t.marks = t.marks[:0] // nobody answers
	}
	n := t.s.pings.Add(1)
	t.marks = append(t.marks, mark{n, at, t.s.d.opt.Now()})
	return wire.AppendPingFrame(out, binary.BigEndian.AppendUint64(nil, n))
}

// window shows the next prompt when the client has none. Clients have room for
// one: prompts that are open at the same time come one after the other, and
// notifications wait until none is open.
func (t *thread) window(out []byte) []byte {
	now := t.s.d.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shown != nil && !slices.Contains(t.feed.prompts, t.shown) {
		t.shown = nil
	}
	if t.shown == nil && len(t.feed.prompts) > 0 {
		t.shown = t.feed.prompts[0]
		t.last = t.shown
		return wire.AppendTextFrame(out, t.voice.appendPrompt(nil, t.shown, now))
	}
	if t.shown == nil {
		for i := range t.held {
			out = wire.AppendTextFrame(out, t.voice.appendItem(nil, &t.held[i], now))
		}
		t.held = nil
	}
	return out
}

// flush sends what there is, and a ping behind it.
func (t *thread) flush(ctx context.Context, out []byte) error {
	at := t.place(t.feed.mark())
	if len(out) == 0 {
		t.mu.Lock()
		t.written = at
		if len(t.marks) == 0 {
			t.arrive = at
		}
		t.mu.Unlock()
		return nil
	}
	out = t.ping(out, at)
	if err := t.s.conn.Write(ctx, out); err != nil {
		return err
	}
	t.mu.Lock()
	t.written, t.used = at, t.s.d.opt.Now()
	t.mu.Unlock()
	t.s.d.desk.note(t, at)
	return nil
}

// arrived is called when a ping was answered.
func (t *thread) arrived(ping uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for n < len(t.marks) && t.marks[n].ping <= ping {
		n++
	}
	if n > 0 {
		last := t.marks[n-1]
		t.arrive = last.at
		if t.s.page {
			t.acked(last, t.s.d.opt.Now())
		}
		t.marks = slices.Delete(t.marks, 0, n)
	}
}

// final is where the client stands when its socket has ended. What was sent
// before an orderly end of the server arrives; otherwise what was answered
// counts, if the client answers at all.
func (t *thread) final(ctx context.Context) place {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.s.ponged.Load() || errors.Is(context.Cause(ctx), wire.ErrShutdown) {
		return t.written
	}
	if !t.s.page || !parted(ctx) {
		// Whoever answered is still there, and has all that it answered for.
		return t.arrive
	}
	<-t.s.silent // the read loop has met its end, and tells when
	return t.settled(t.s.left)
}
