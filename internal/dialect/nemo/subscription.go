package nemo

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/sleep"
	"github.com/parley-hq/parley/internal/wire"
)

// subscription is one conversation on one socket. Its goroutine finds the session, decides where to start and writes
// what happens; the read loop of the socket reports messages and pongs to it.
type subscription struct {
	s           *socket
	caller      chat.Caller
	session     chat.SessionID // "" until it is known
	enc         encoder
	cancel      context.CancelFunc
	ready       chan struct{} // closed when it follows the session, or will not
	done        chan struct{}
	messaged    chan struct{} // closed when the client has sent a message
	wakeup      chan struct{} // the session may exist now; room for one
	since       chat.At
	stopWaiting func() // for the start of the conversation
	point       *resumePoint
	saved       position // what the resume point has of it; belongs to resumePoints

	fold         *fold // this and the next two belong to its goroutine
	body         []byte
	lastPosition position // after the last frame

	mu           sync.Mutex
	firstMessage *chat.Event // of the client
	startKnown   bool
	startAfter   chat.Seq // it starts after this event, when startKnown
	lastUsed     time.Time
	shown        *openPrompt // the prompt that the client shows; it has room for one
	last         *openPrompt // the prompt that it showed last
	keptPrompt   chat.Seq    // the prompt that the client still showed when it returned; 0 for none
	heldNotices  []item      // notifications that wait until no prompt is shown
	delivery
}

func (sub *subscription) isDone() bool {
	select {
	case <-sub.done:
		return true
	default:
		return false
	}
}

// wake makes the subscription look for its session again.
func (sub *subscription) wake() {
	select {
	case sub.wakeup <- struct{}{}:
	default:
	}
}

func (sub *subscription) usedAt() time.Time {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return sub.lastUsed
}

// follow writes the conversation until the socket or the session ends.
func (sub *subscription) follow(ctx context.Context) {
	start, err := sub.start(ctx)
	close(sub.ready)
	if err != nil {
		if chat.CodeOf(err) != chat.NotFound && ctx.Err() == nil {
			sub.sendError(ctx, err)
		}
		return
	}
	defer func() {
		state := departureState(ctx)
		sub.s.d.points.depart(sub, sub.finalPosition(ctx, state), state)
	}()
	if err := sub.copyEvents(ctx, start); err != nil && ctx.Err() == nil {
		sub.sendError(ctx, err)
	}
}

// sendError tells the client why nothing more comes.
func (sub *subscription) sendError(ctx context.Context, err error) {
	if chat.CodeOf(err) == chat.Unavailable {
		return // the server shuts down; the client reconnects
	}
	sub.s.sendRefusal(ctx, &clientFrame{Type: typeUser, Conversation: sub.enc.conversation}, err)
}

// start finds the session and where to start in it.
func (sub *subscription) start(ctx context.Context) (core.Start, error) {
	at, known, st, err := sub.findSession(ctx)
	if err != nil {
		return core.Start{}, err
	}
	if known {
		if st, err = sub.state(ctx, at.Cursor.Seq); err != nil {
			sub.s.d.points.depart(sub, at, connectionLost)
			return core.Start{}, err
		}
	}
	line := st.Line("")
	if !known || at.Cursor.Seq > st.Last { // a new client, or the log lost its end in a power cut: start with the running turn
		at = justBefore(st.Last + 1)
		if line.Turn != nil {
			at = justBefore(line.Turn.Trigger)
		}
	}
	at = sub.fixStart(at)
	base := min(at.Base, at.Cursor.Seq+1)
	if line.Turn != nil {
		base = min(base, line.Turn.Trigger)
	}
	for _, seq := range line.Queue {
		base = min(base, seq)
	}
	for _, p := range st.Prompts {
		base = min(base, p.Seq) // open prompts are shown again
	}
	at.Base = max(base, 1)
	sub.fold = newFold(sub.session, at.Cursor)
	sub.fold.historyEnd, sub.fold.wholeTexts, sub.fold.noticesFrom = st.Last, sub.s.schema.wholeTexts, at.Held
	if line.Turn != nil {
		sub.fold.runningTurn = line.Turn.ID
	}
	sub.mu.Lock()
	if sub.s.schema.wholeTexts {
		sub.keptPrompt = at.Shown // the AI-Q UI keeps prompts itself and would show a second one
	}
	sub.written, sub.acknowledged, sub.acks = at, at, []ack{{at: at}}
	sub.mu.Unlock()
	sub.lastPosition = at
	sub.s.d.points.save(sub, at)
	return core.Start{Cursor: &chat.Cursor{Seq: at.Base - 1}}, nil
}

// findSession finds the session, or waits until it exists, and returns the position of the client in it. For a client without one
// it returns the state of the session when the client connected, because what happens later belongs to this client.
func (sub *subscription) findSession(ctx context.Context) (at position, known bool, st *chat.State, err error) {
	defer sub.stopWaiting()
	points, waited := sub.s.d.points, false
	for sub.session == "" {
		var sess chat.Session
		err := whileUnavailable(ctx, func() (err error) {
			sess, err = sub.s.d.opt.Sessions.Own(ctx, sub.caller, sub.enc.conversation)
			return err
		})
		if err == nil {
			sub.session = sess.ID
			if waited { // the client has nothing of it, so it must not take over the position of another one
				points.add(sub.resumeKey(), sub)
				return position{Base: 1}, true, nil, nil
			}
			if st, err = sub.state(ctx, 0); err != nil {
				return at, false, nil, err
			}
			if at, known, err = points.resume(ctx, sub.resumeKey(), sub); err != nil {
				return at, false, nil, err
			}
			if !known && sess.CreatedAt >= sub.since {
				at, known = position{Base: 1}, true // the session started after the client connected
			}
			return at, known, st, nil
		}
		if chat.CodeOf(err) != chat.NotFound {
			return at, false, nil, err
		}
		waited = true // a message from here or from another tab may start it
		select {
		case <-sub.messaged:
			sub.session = sub.firstMessage.Session
		case <-sub.wakeup:
		case <-ctx.Done():
			return at, false, nil, context.Cause(ctx)
		}
	}
	<-sub.messaged // who names the session reports the message
	points.addSender(sub.resumeKey(), sub)
	return justBefore(sub.firstMessage.Seq), true, nil, nil
}

// state returns the session's state. A node of a cluster that is behind waits until it has the event with a sequence.
func (sub *subscription) state(ctx context.Context, seq chat.Seq) (st *chat.State, err error) {
	err = whileUnavailable(ctx, func() error {
		if _, err := sub.s.d.opt.Sessions.GetAt(ctx, sub.caller, sub.session, seq); err != nil {
			return err
		}
		st, err = sub.s.d.opt.Sessions.State(ctx, sub.caller, sub.session)
		return err
	})
	return st, err
}

// retryPause is the time until something is tried again that this node could not do.
const retryPause = 250 * time.Millisecond

// whileUnavailable calls f until it does not fail with the code unavailable. A node of a cluster fails so while it is behind the others or cut off;
// the client cannot know that it should connect again. A server that shuts down ends ctx.
func whileUnavailable(ctx context.Context, f func() error) error {
	for {
		err := f()
		if chat.CodeOf(err) != chat.Unavailable || sleep.For(ctx, retryPause) != nil {
			return err
		}
	}
}

// resumeKey binds a resume point to the identity, the browser and the session.
func (sub *subscription) resumeKey() string { return sub.s.resumeKey(sub.caller, sub.session) }

// fixStart decides where the subscription starts: at the latest before the client's first message, whose answer belongs
// here however fast it came.
func (sub *subscription) fixStart(at position) position {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.firstMessage != nil && sub.firstMessage.Seq <= at.Cursor.Seq {
		at = justBefore(sub.firstMessage.Seq)
	}
	sub.startKnown, sub.startAfter = true, at.Cursor.Seq
	return at
}

// messageSent reports a message that the client sent. repeated means that the same message was stored before: its answer
// is sent again when it is complete, because the client repeats only what it has no answer to.
func (sub *subscription) messageSent(e chat.Event, repeated bool) {
	sub.mu.Lock()
	if sub.firstMessage == nil {
		sub.firstMessage = &e
		close(sub.messaged)
	}
	missed := e.Seq <= sub.startAfter // it may have been answered before the subscription started
	sent := max(sub.startAfter, sub.writing)
	again := sub.startKnown && (repeated || missed) // else the subscription will start before the message
	sub.mu.Unlock()
	if again {
		sub.s.guarded(func() { sub.resendAnswer(sub.s.ctx, e, sent) })
	}
}

// resendAnswer sends a complete answer again, unless its end is after the event that was sent last.
func (sub *subscription) resendAnswer(ctx context.Context, e chat.Event, sent chat.Seq) {
	rep, err := sub.s.d.report(ctx, sub.caller, chat.Session{ID: e.Session}, e.Seq)
	if err != nil {
		sub.sendError(ctx, err)
		return
	}
	if end := rep.answer.end; end == nil || end.turn == nil || end.pos.Cursor.Seq > sent {
		return // the subscription sends it
	}
	var out []byte
	for i := range rep.items {
		out = wire.AppendTextFrame(out, sub.enc.appendItem(nil, &rep.items[i], sub.s.d.now()))
	}
	_ = sub.s.conn.Write(ctx, out)
}

// browserFrameInterval is the least time between two writes to a browser: its UI redraws the answer after each frame.
const browserFrameInterval = 40 * time.Millisecond

// copyEvents writes the events and previews of the session as frames.
func (sub *subscription) copyEvents(ctx context.Context, start core.Start) error {
	return whileUnavailable(ctx, func() error { return sub.copyFrom(ctx, start.Cursor) })
}

// copyFrom is copyEvents until the first error. It moves the cursor.
func (sub *subscription) copyFrom(ctx context.Context, cursor *chat.Cursor) error {
	start := core.Start{Cursor: &chat.Cursor{Seq: cursor.Seq, Blocks: slices.Clone(cursor.Blocks)}}
	for batch, err := range sub.s.d.opt.Sessions.Watch(ctx, sub.caller, sub.session, start, nil) {
		if err != nil {
			return err
		}
		var units [][]item
		for i := range batch.Entries {
			items, err := sub.fold.take(&batch.Entries[i])
			if err != nil {
				return err
			}
			units = sub.addUnit(units, items)
		}
		var out []byte
		for _, items := range units {
			out = sub.appendUnit(out, items)
		}
		if batch.Live {
			out = sub.appendPrompts(out)
		}
		if err := sub.flush(ctx, out); err != nil {
			<-ctx.Done() // pongs that arrived before still count
			return nil
		}
		if sub.s.isBrowser && len(out) > 0 {
			_ = sleep.For(ctx, browserFrameInterval) // the loop ends with ctx
		}
		cursor.Seq, cursor.Blocks = batch.Cursor.Seq, append(cursor.Blocks[:0], batch.Cursor.Blocks...)
	}
	return nil
}

// maxText is the size up to which pieces of a text are merged into one frame.
const maxText = 16 << 10

// addUnit adds the items of one entry. Pieces of a text that can be sent at once become one frame.
func (sub *subscription) addUnit(units [][]item, items []item) [][]item {
	if len(items) == 0 {
		return units
	}
	if n := len(units); n > 0 && len(units[n-1]) == 1 && len(items) == 1 && !sub.s.schema.wholeTexts {
		last, it := &units[n-1][0], &items[0]
		if last.kind == itemText && it.kind == itemText && last.turn == it.turn && len(last.text)+len(it.text) <= maxText {
			last.text += it.text
			last.at, last.pos = it.at, it.pos
			return units
		}
	}
	return append(units, slices.Clone(items))
}

// appendFrame appends one item. Notifications wait while a prompt is shown.
func (sub *subscription) appendFrame(out []byte, it *item) []byte {
	sub.mu.Lock()
	wait := it.kind == itemNotice && sub.shown != nil
	if wait {
		sub.heldNotices = append(sub.heldNotices, *it)
	}
	sub.mu.Unlock()
	if wait {
		return out
	}
	if body := sub.enc.appendItem(nil, it, sub.s.d.now()); len(body) > 0 {
		out = wire.AppendTextFrame(out, body)
	}
	return out
}

// positionAt adds the held notifications and the shown prompt to a position of the fold.
func (sub *subscription) positionAt(at position) position {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if len(sub.heldNotices) > 0 {
		at.Held = sub.heldNotices[0].notice.Seq
		at.Base = min(at.Base, at.Held)
	}
	if sub.shown != nil {
		at.Shown = sub.shown.Seq
	}
	return at
}

// appendPrompts appends the next prompt when the client shows none. Clients have room for one: open prompts come one
// after the other, and notifications when none is open.
func (sub *subscription) appendPrompts(out []byte) []byte {
	now := sub.s.d.now()
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.shown != nil && !slices.Contains(sub.fold.prompts, sub.shown) {
		sub.shown = nil
	}
	if sub.shown == nil && len(sub.fold.prompts) > 0 {
		sub.shown = sub.fold.prompts[0]
		sub.last = sub.shown
		if sub.shown.Seq == sub.keptPrompt {
			return out
		}
		return wire.AppendTextFrame(out, sub.enc.appendPrompt(nil, sub.shown, now))
	}
	if sub.shown == nil {
		for i := range sub.heldNotices {
			out = wire.AppendTextFrame(out, sub.enc.appendItem(nil, &sub.heldNotices[i], now))
		}
		sub.heldNotices = nil
	}
	return out
}
