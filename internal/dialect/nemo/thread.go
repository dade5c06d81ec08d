package nemo

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/wire"
)

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
	since   chat.At
	unhope  func()

	feed   *feed // this and the next two are its goroutine's
	body   []byte
	before place // behind the frames that were made last
	key    string
	no     uint64

	mu    sync.Mutex
	first *chat.Event // what the client said first
	fixed bool        // where it begins is settled
	from  chat.Seq    // and that is behind this event
	used  time.Time
	shown *asked   // the prompt in the client's one window
	last  *asked   // the prompt that was there last
	kept  chat.Seq // the prompt that the client came back with; 0 when it keeps none
	held  []item   // notifications that wait until the window is free
	delivery
}

func (t *thread) over() bool {
	select {
	case <-t.ended:
		return true
	default:
		return false
	}
}

// wake has a thread look for its session again.
func (t *thread) wake() {
	select {
	case t.poke <- struct{}{}:
	default:
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
		at = ahead(*t.first)
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
	defer func() { t.s.d.desk.leave(t, t.final(ctx), farewell(ctx)) }()
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
			if !t.s.words.bubbles && pace.merge(items) {
				continue
			}
			out = t.pending(out, &pace)
			out = t.unit(out, items)
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
	out = t.unit(out, []item{*p.text})
	p.text = nil
	return out
}

// frame appends one item, unless it has to wait.
func (t *thread) frame(out []byte, it *item) []byte {
	if it.kind == itemNotice && t.isBusy() {
		t.mu.Lock()
		t.held = append(t.held, *it)
		t.mu.Unlock()
		return out
	}
	if body := t.voice.appendItem(nil, it, t.s.d.now()); len(body) > 0 {
		out = wire.AppendTextFrame(out, body)
	}
	return out
}

// isBusy reports whether the client's one window is taken.
func (t *thread) isBusy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shown != nil
}

// place is where the client stands, with the notifications that wait.
func (t *thread) place(at place) place {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.held) > 0 {
		at.Held = t.held[0].notice.Seq
		at.Base = min(at.Base, at.Held)
	}
	if t.shown != nil {
		at.Shown = t.shown.Seq
	}
	return at
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
		if t.shown.Seq == t.kept {
			return out
		}
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
