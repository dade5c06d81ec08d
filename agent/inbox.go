package agent

import (
	"context"
	"sync"

	"github.com/parley-hq/parley/chat"
)

// Inbox holds the events that arrived for a turn: answers to its prompts, messages, events of workstreams. A transport
// fills it; the calls of the Turn wait on it. All methods may be called from any goroutine.
type Inbox struct {
	mu      sync.Mutex
	events  []chat.Event          // in the order of their arrival
	answers map[string]chat.Event // by request id
	changed chan struct{}         // closed and replaced at every change
	paused  bool                  // the workstream of the turn is paused
	waiting int                   // calls that wait
	onWait  func()
	onPut   func(chat.Event)
}

// NewInbox returns an empty inbox.
func NewInbox() *Inbox {
	return &Inbox{answers: map[string]chat.Event{}, changed: make(chan struct{})}
}

// Put adds an event. It returns false if the inbox has the event already.
func (in *Inbox) Put(e chat.Event) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for i := range in.events {
		if in.events[i].Seq == e.Seq {
			return false
		}
	}
	in.events = append(in.events, e)
	if id := chat.AnswerOf(e.Body); id != "" {
		if _, answered := in.answers[id]; !answered {
			in.answers[id] = e
		}
	}
	in.wake()
	if in.onPut != nil {
		in.onPut(e)
	}
	return true
}

// PutAnswers adds those of the events that answer or close a prompt.
func (in *Inbox) PutAnswers(events []chat.Event) {
	for _, e := range events {
		if chat.AnswerOf(e.Body) != "" {
			in.Put(e)
		}
	}
}

// Follow calls f for all events of the inbox and for every later one, in order; nil ends it. f must not block.
func (in *Inbox) Follow(f func(chat.Event)) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if f != nil {
		for _, e := range in.events {
			f(e)
		}
	}
	in.onPut = f
}

// Wake lets the waiting calls check their condition again.
func (in *Inbox) Wake() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.wake()
}

// wake needs mu.
func (in *Inbox) wake() {
	close(in.changed)
	in.changed = make(chan struct{})
}

// SetPaused sets whether the workstream of the turn is paused. Calls that store or show something wait while it is.
func (in *Inbox) SetPaused(paused bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.paused = paused
	in.wake()
}

// Steer applies a steering command to the workstream of the turn: pause and resume change whether it is paused.
func (in *Inbox) Steer(command string) {
	switch command {
	case chat.SteerPause:
		in.SetPaused(true)
	case chat.SteerResume:
		in.SetPaused(false)
	default:
		in.Wake()
	}
}

// Paused reports whether the workstream of the turn is paused.
func (in *Inbox) Paused() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.paused
}

// OnWait calls f if a call waits, and whenever one begins to wait from now on.
func (in *Inbox) OnWait(f func()) {
	in.mu.Lock()
	in.onWait = f
	waiting := in.waiting > 0
	in.mu.Unlock()
	if waiting {
		f()
	}
}

// wait returns when ok does, which is called with mu held, now and after every change.
func (in *Inbox) wait(ctx context.Context, ok func() bool) error {
	for counted := false; ; counted = true {
		in.mu.Lock()
		done := ok()
		if !done && !counted {
			in.waiting++
			defer func() {
				in.mu.Lock()
				defer in.mu.Unlock()
				in.waiting--
			}()
		}
		changed, onWait := in.changed, in.onWait
		in.mu.Unlock()
		if done {
			return nil
		}
		if onWait != nil {
			onWait()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// unpaused waits while the workstream of the turn is paused.
func (in *Inbox) unpaused(ctx context.Context) error {
	return in.wait(ctx, func() bool { return !in.paused })
}

// nextChange returns a channel that is closed at the next change.
func (in *Inbox) nextChange() <-chan struct{} {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.changed
}

// answer waits for the event that answers or closes a prompt.
func (in *Inbox) answer(ctx context.Context, requestID string) (e chat.Event, err error) {
	err = in.wait(ctx, func() (ok bool) {
		e, ok = in.answers[requestID]
		return ok
	})
	return e, err
}

// event returns an event by its sequence.
func (in *Inbox) event(seq chat.Seq) (chat.Event, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for i := range in.events {
		if in.events[i].Seq == seq {
			return in.events[i], true
		}
	}
	return chat.Event{}, false
}
