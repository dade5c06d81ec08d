package agent

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-hq/parley/chat"
)

// mailbox holds what came in for a turn: answers to its prompts, their closing,
// and messages that were taken into it.
type mailbox struct {
	spoke  chan struct{} // somebody said something during the turn; room for one
	over   chan struct{} // closed when the turn has ended in the log
	shut   chan struct{} // closed when the runner does nothing more about the turn
	left   chan struct{} // closed when the runner waits no longer for who answers
	stopBy atomic.Int64  // as chat.At: until when it may take to stop; 0 means a moment

	mu      sync.Mutex
	mail    []chat.Event // in the order in which it came
	answers map[string]chat.Event
	news    chan struct{} // closed and replaced at every arrival
	waits   int           // callers of wait
	away    func()        // ends the turn when it waits; nil while there is time to wait
	watch   func(chat.Event)
	paused  bool // the line was told to pause
}

func (m *mailbox) init() {
	m.answers = map[string]chat.Event{}
	m.news = make(chan struct{})
	m.spoke = make(chan struct{}, 1)
	m.over = make(chan struct{})
	m.shut = make(chan struct{})
	m.left = make(chan struct{})
}

// patience is how long who answers may take to obey a stop, at least so long.
func (m *mailbox) patience(least time.Duration) time.Duration {
	if by := m.stopBy.Load(); by != 0 {
		return max(least, time.Until(chat.At(by).Time()))
	}
	return least
}

// ending waits until the turn has ended in the log.
func (m *mailbox) ending(ctx context.Context) error {
	select {
	case <-m.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-m.shut:
	}
	select {
	case <-m.over:
		return nil
	default:
		return chat.Errorf(chat.Unavailable, "the end of the turn is not stored, because the server is shutting down; say it again when it is back")
	}
}

// hear notes that something was said or happened; whether it is for this turn is
// not known.
func (m *mailbox) hear() {
	m.mu.Lock()
	m.stir()
	m.mu.Unlock()
	select {
	case m.spoke <- struct{}{}:
	default:
	}
}

// stir wakes who waits for news. The caller holds mu.
func (m *mailbox) stir() {
	close(m.news)
	m.news = make(chan struct{})
}

// steer notes a directive to the line of the turn.
func (m *mailbox) steer(command string) {
	m.mu.Lock()
	m.paused = command == chat.SteerPause || m.paused && command != chat.SteerResume
	m.mu.Unlock()
	m.hear()
}

// pause says that the line was paused before the turn was begun.
func (m *mailbox) pause() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused = true
}

func (m *mailbox) isPaused() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.paused
}

// gate waits while the line is paused.
func (m *mailbox) gate(ctx context.Context) error {
	return m.until(ctx, func() bool { return !m.paused })
}

// next returns what is closed at the next arrival.
func (m *mailbox) next() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.news
}

// after waits until something arrived behind what next returned.
func (m *mailbox) after(ctx context.Context, news <-chan struct{}) error {
	return m.until(ctx, func() bool {
		select {
		case <-news:
			return true
		default:
			return false
		}
	})
}

// until waits for ok, which is asked again at every arrival. It is called with
// mu held.
func (m *mailbox) until(ctx context.Context, ok func() bool) error {
	for waits := false; ; waits = true {
		m.mu.Lock()
		done := ok()
		if !waits && !done {
			m.waits++
			defer m.done()
		}
		news, away := m.news, m.away
		m.mu.Unlock()
		if done {
			return nil
		}
		if away != nil {
			away()
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// put takes in an event, once.
func (m *mailbox) put(e chat.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.mail {
		if m.mail[i].Seq == e.Seq {
			return
		}
	}
	m.mail = append(m.mail, e)
	if id := chat.AnswerOf(e.Body); id != "" {
		if _, twice := m.answers[id]; !twice {
			m.answers[id] = e
		}
	}
	m.stir()
	if m.watch != nil {
		m.watch(e)
	}
}

// wait returns the answer to a prompt, or its closing, when it is there.
func (m *mailbox) wait(ctx context.Context, requestID string) (e chat.Event, err error) {
	err = m.until(ctx, func() (ok bool) {
		e, ok = m.answers[requestID]
		return ok
	})
	return e, err
}

func (m *mailbox) done() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waits--
}

// leave calls f when the turn waits for a person, now or from now on.
func (m *mailbox) leave(f func()) {
	m.mu.Lock()
	m.away = f
	waits := m.waits > 0
	m.mu.Unlock()
	if waits {
		f()
	}
}

// follow calls f for all that is there and for every arrival from now on; nil
// ends it. f must not block.
func (m *mailbox) follow(f func(chat.Event)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f != nil {
		for _, e := range m.mail {
			f(e)
		}
	}
	m.watch = f
}
