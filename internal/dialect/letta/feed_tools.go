package letta

import (
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
)

// call shows the next call of a message. A stream of tokens shows each call by
// itself, as a delta; otherwise the calls of a message are one item.
func (f *feed) call(m *llm.Message, it item) {
	c := m.ToolCalls[f.calls : f.calls+1 : f.calls+1]
	f.works[c[0].ID] = true
	it.kind, it.calls, it.delta = kindToolCall, c, f.tokens
	text, speaks := f.form.words(&c[0])
	if speaks {
		it.kind, it.text, it.calls, it.delta = kindAssistant, text, nil, false
	}
	it.otid = otidOf(it.id, f.unit(it.id, it.kind, !speaks))
	if f.tokens {
		f.flush()
		f.show(it)
		return
	}
	f.hold(it, !speaks)
}

// returned takes the new returns of a tool message. The message is shown when
// all calls have returned, or when another message follows it.
func (f *feed) returned(m *llm.Message, base item) {
	expected := false
	for ; f.returns < len(m.ToolReturns); f.returns++ {
		r := m.ToolReturns[f.returns : f.returns+1 : f.returns+1]
		expected = expected || f.works[r[0].ToolCallID]
		delete(f.works, r[0].ToolCallID)
		it := base
		it.kind, it.otid, it.returns = kindToolReturn, otidOf(m.ID, 0), r
		f.hold(it, true)
	}
	if expected && len(f.works) == 0 {
		f.flush()
	}
}

// request shows an approval request: as one message, or in a stream of tokens as
// one piece per call.
func (f *feed) request(m *llm.Message, it item) {
	it.kind, it.otid, it.calls = kindApprovalRequest, first(m.OTID, m.ID), m.ToolCalls
	for i := range m.ToolCalls {
		f.works[m.ToolCalls[i].ID] = true
	}
	if !f.tokens || len(m.ToolCalls) > chat.AtStep-4 {
		f.show(it)
		return
	}
	it.delta = true
	for i := range m.ToolCalls {
		it.calls = m.ToolCalls[i : i+1 : i+1]
		f.show(it)
	}
}

// hold keeps an item back that the next part may be joined to: neighbours of one
// kind in one message are one item.
func (f *feed) hold(it item, merges bool) {
	if h := f.held; merges && h != nil && h.id == it.id && h.kind == it.kind {
		h.text += it.text
		h.signature = first(h.signature, it.signature)
		h.calls = slices.Concat(h.calls, it.calls)
		h.returns = slices.Concat(h.returns, it.returns)
		return
	}
	f.flush()
	if !merges {
		f.show(it)
		return
	}
	f.held = &it
}

// flush shows the item that was held, at the position of the entry that completes it.
func (f *feed) flush() {
	if it := f.held; it != nil {
		f.held = nil
		f.show(*it)
	}
}
