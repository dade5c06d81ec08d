package nemo

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/wire"
)

// subscription is one conversation on one socket. Its goroutine writes what happens
// in the session; the read loop tells it what has arrived and what was answered.
type subscription struct {
	s           *socket
	caller      chat.Caller
	session     chat.SessionID // "" until it is known
	enc         encoder
	cancel      context.CancelFunc
	ready       chan struct{} // closed when it follows, or will not
	done        chan struct{}
	messaged    chan struct{} // closed when the client has said something
	wakeup      chan struct{} // the session may be there now; room for one
	since       chat.At
	stopWaiting func()

	fold         *fold // this and the next two are its goroutine's
	body         []byte
	lastPosition position // behind the frames that were made last
	key          string
	id           uint64

	mu           sync.Mutex
	firstMessage *chat.Event // what the client said first
	startKnown   bool        // where it begins is settled
	startAfter   chat.Seq    // and that is behind this event
	lastUsed     time.Time
	shown        *openPrompt // the prompt in the client's one window
	last         *openPrompt // the prompt that was there last
	keptPrompt   chat.Seq    // the prompt that the client came back with; 0 when it keeps none
	heldNotices  []item      // notifications that wait until the window is free
	delivery
}

func (t *subscription) isDone() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// wake has a thread look for its session again.
func (t *subscription) wake() {
	select {
	case t.wakeup <- struct{}{}:
	default:
	}
}

func (t *subscription) usedAt() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lastUsed
}

// messageSent tells the thread of a message that the client sent. One that was said
// before is answered again if its answer is over: the client would not repeat it
// if it had it.
func (t *subscription) messageSent(ctx context.Context, e chat.Event, again bool) {
	t.mu.Lock()
	if t.firstMessage == nil {
		t.firstMessage = &e
		close(t.messaged)
	}
	missed := t.startKnown && e.Seq <= t.startAfter // it was answered before the thread began
	t.mu.Unlock()
	select {
	case <-t.ready:
	default:
		again = false // it will begin here, or before
	}
	if again || missed {
		t.s.group.Go(func() { t.resendAnswer(ctx, e) })
	}
}

// fixStart settles where the thread begins: not behind what the client has said, for
// that is to be answered here, however fast it was.
func (t *subscription) fixStart(at position) position {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.firstMessage != nil && t.firstMessage.Seq <= at.Cursor.Seq {
		at = justBefore(*t.firstMessage)
	}
	t.startKnown, t.startAfter = true, at.Cursor.Seq
	return at
}

// resendAnswer sends an old answer once more.
func (t *subscription) resendAnswer(ctx context.Context, e chat.Event) {
	rep, err := t.s.d.report(ctx, t.caller, chat.Session{ID: e.Session}, e.Seq)
	if err != nil {
		t.sendError(ctx, err)
		return
	}
	if rep.run.end == nil || rep.run.end.turn == nil {
		return // it is under way
	}
	var out []byte
	for i := range rep.items {
		out = wire.AppendTextFrame(out, t.enc.appendItem(nil, &rep.items[i], t.s.d.now()))
	}
	_ = t.s.conn.Write(ctx, out)
}

// follow follows the conversation until the socket or the session ends.
func (t *subscription) follow(ctx context.Context) {
	start, err := t.start(ctx)
	close(t.ready)
	if err != nil {
		if code := chat.CodeOf(err); code != chat.NotFound && ctx.Err() == nil {
			t.sendError(ctx, err)
		}
		return
	}
	if t.fold == nil {
		return
	}
	defer func() { t.s.d.points.depart(t, t.finalPosition(ctx), departureReason(ctx)) }()
	if err := t.copyEvents(ctx, start); err != nil && ctx.Err() == nil {
		t.sendError(ctx, err)
	}
}

// sendError tells the client why nothing more comes.
func (t *subscription) sendError(ctx context.Context, err error) {
	if chat.CodeOf(err) == chat.Unavailable {
		return // the server ends; the client comes back
	}
	t.s.sendRefusal(ctx, &clientFrame{Type: typeUser, Conversation: t.enc.conversation}, err)
}

// copyEvents is the write loop.
func (t *subscription) copyEvents(ctx context.Context, start chat.Start) error {
	var out []byte
	var pace textMerger
	for batch, err := range t.s.d.opt.Sessions.Watch(ctx, t.caller, t.session, start, nil) {
		if err != nil {
			return err
		}
		out = out[:0]
		for i := range batch.Entries {
			items, err := t.fold.take(&batch.Entries[i])
			if err != nil {
				return err
			}
			if !t.s.schema.wholeTexts && pace.merge(items) {
				continue
			}
			out = t.flushText(out, &pace)
			out = t.appendUnit(out, items)
		}
		out = t.flushText(out, &pace)
		if batch.Live {
			out = t.appendPrompts(out)
		}
		if err := t.flush(ctx, out); err != nil {
			<-ctx.Done() // pongs that are there already still count
			return nil
		}
		if t.s.isBrowser && len(out) > 0 {
			pace.rest(ctx)
		}
		if cap(out) > 64<<10 {
			out = nil
		}
	}
	return nil
}

// flushText appends the text that was put together, if there is any.
func (t *subscription) flushText(out []byte, p *textMerger) []byte {
	if p.text == nil {
		return out
	}
	out = t.appendUnit(out, []item{*p.text})
	p.text = nil
	return out
}

// appendFrame appends one item, unless it has to wait.
func (t *subscription) appendFrame(out []byte, it *item) []byte {
	if it.kind == itemNotice && t.promptOpen() {
		t.mu.Lock()
		t.heldNotices = append(t.heldNotices, *it)
		t.mu.Unlock()
		return out
	}
	if body := t.enc.appendItem(nil, it, t.s.d.now()); len(body) > 0 {
		out = wire.AppendTextFrame(out, body)
	}
	return out
}

// promptOpen reports whether the client's one window is taken.
func (t *subscription) promptOpen() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shown != nil
}

// positionAt is where the client stands, with the notifications that wait.
func (t *subscription) positionAt(at position) position {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.heldNotices) > 0 {
		at.Held = t.heldNotices[0].notice.Seq
		at.Base = min(at.Base, at.Held)
	}
	if t.shown != nil {
		at.Shown = t.shown.Seq
	}
	return at
}

// appendPrompts shows the next prompt when the client has none. Clients have room for
// one: prompts that are open at the same time come one after the other, and
// notifications wait until none is open.
func (t *subscription) appendPrompts(out []byte) []byte {
	now := t.s.d.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shown != nil && !slices.Contains(t.fold.prompts, t.shown) {
		t.shown = nil
	}
	if t.shown == nil && len(t.fold.prompts) > 0 {
		t.shown = t.fold.prompts[0]
		t.last = t.shown
		if t.shown.Seq == t.keptPrompt {
			return out
		}
		return wire.AppendTextFrame(out, t.enc.appendPrompt(nil, t.shown, now))
	}
	if t.shown == nil {
		for i := range t.heldNotices {
			out = wire.AppendTextFrame(out, t.enc.appendItem(nil, &t.heldNotices[i], now))
		}
		t.heldNotices = nil
	}
	return out
}
