package agent

import (
	"context"
	"sync"

	"github.com/parley-hq/parley/chat"
)

// mailbox holds what came in for a turn: answers to its prompts, their closing,
// and messages that were taken into it.
type mailbox struct {
	spoke chan struct{} // somebody said something during the turn; room for one

	mu      sync.Mutex
	mail    []chat.Event // in the order in which it came
	answers map[string]chat.Event
	news    chan struct{} // closed and replaced at every arrival
	waits   int           // callers of wait
	away    func()        // ends the turn when it waits; nil while there is time to wait
	watch   func(chat.Event)
}

func (m *mailbox) init() {
	m.answers = map[string]chat.Event{}
	m.news = make(chan struct{})
	m.spoke = make(chan struct{}, 1)
}

// hear notes that somebody spoke; whether it is for this turn is not known.
func (m *mailbox) hear() {
	select {
	case m.spoke <- struct{}{}:
	default:
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
	close(m.news)
	m.news = make(chan struct{})
	if m.watch != nil {
		m.watch(e)
	}
}

// wait returns the answer to a prompt, or its closing, when it is there.
func (m *mailbox) wait(ctx context.Context, requestID string) (chat.Event, error) {
	for waits := false; ; waits = true {
		m.mu.Lock()
		e, ok := m.answers[requestID]
		if !waits && !ok {
			m.waits++
			defer m.done()
		}
		news, away := m.news, m.away
		m.mu.Unlock()
		if ok {
			return e, nil
		}
		if away != nil {
			away()
		}
		select {
		case <-news:
		case <-ctx.Done():
			return chat.Event{}, context.Cause(ctx)
		}
	}
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
