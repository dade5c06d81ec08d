package agent

import (
	"context"
	"sync"

	"github.com/parley-hq/parley/chat"
)

// mailbox holds what came in for a turn: answers by the prompt they answer, and
// the fact that somebody spoke.
type mailbox struct {
	mu      sync.Mutex
	answers map[string]chat.Event
	news    chan struct{} // closed and replaced at every arrival
	watch   func(chat.Event)
}

func (m *mailbox) init() {
	m.answers = map[string]chat.Event{}
	m.news = make(chan struct{})
}

func (m *mailbox) put(e chat.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id := chat.AnswerOf(e.Body); id != "" {
		if _, twice := m.answers[id]; twice {
			return
		}
		m.answers[id] = e
	}
	close(m.news)
	m.news = make(chan struct{})
	if m.watch != nil {
		m.watch(e)
	}
}

// wait returns the answer to a prompt, or its closing, when it is there.
func (m *mailbox) wait(ctx context.Context, requestID string) (chat.Event, error) {
	for {
		m.mu.Lock()
		e, ok := m.answers[requestID]
		news := m.news
		m.mu.Unlock()
		if ok {
			return e, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return chat.Event{}, context.Cause(ctx)
		}
	}
}

// follow calls f for every arrival from now on, the answers that are there
// already first. f must not block.
func (m *mailbox) follow(f func(chat.Event)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.answers {
		f(e)
	}
	m.watch = f
}
