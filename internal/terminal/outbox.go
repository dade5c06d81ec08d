package terminal

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

// notSent marks a message that is not stored yet.
const notSent = "not sent yet"

// outgoing is a message that is not stored yet.
type outgoing struct {
	text     string
	clientID string
}

// send adds the message to the outbox.
func (m *screen) send() tea.Cmd {
	text := strings.TrimSpace(m.input.Value())
	if text == "" {
		return nil
	}
	m.input.Reset()
	m.scroll, m.away = 0, false
	m.outbox = append(m.outbox, outgoing{text: text, clientID: client.NewClientID()})
	return m.flush()
}

// flush sends the oldest message of the outbox. Messages are sent one at a time, so that they are stored in order.
func (m *screen) flush() tea.Cmd {
	if m.sending || len(m.outbox) == 0 {
		return nil
	}
	m.sending = true
	o, id := m.outbox[0], m.session.ID
	return func() tea.Msg {
		_, err := m.cl.Send(m.ctx, id, chat.UserMessage{Text: o.text}, o.clientID)
		return sentMsg{o.clientID, err}
	}
}

func (m *screen) sent(msg sentMsg) tea.Cmd {
	m.sending = false
	if msg.err != nil {
		switch chat.CodeOf(msg.err) {
		case chat.Unavailable, chat.SlowDown:
			return nil // it stays in the outbox and is sent again at the next tick
		}
		m.notice = m.explain(msg.err)
	}
	m.outbox = slices.DeleteFunc(m.outbox, func(o outgoing) bool { return o.clientID == msg.clientID })
	return m.flush()
}

// lastQueued is the last message of this person that waits for its turn.
func (m *screen) lastQueued() (*chat.Item, bool) {
	for _, i := range slices.Backward(m.conversation.waiting) {
		if it := &m.conversation.Items[i]; m.conversation.busy() && m.conversation.own(it.Actor) && len(it.Message.Content) == 0 {
			return it, true
		}
	}
	return nil, false
}

// withdraw takes a queued message back, so that it can be edited.
func (m *screen) withdraw(it *chat.Item) tea.Cmd {
	id, seq, text := m.session.ID, it.Seq, it.Message.Text
	return func() tea.Msg { return withdrawnMsg{text, m.cl.Withdraw(m.ctx, id, seq)} }
}

func (m *screen) withdrawn(msg withdrawnMsg) {
	switch {
	case msg.err != nil:
		m.notice = m.explain(msg.err)
	case m.input.Value() == "":
		m.input.SetValue(msg.text)
	}
}
