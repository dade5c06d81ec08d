package stream

import (
	"cmp"

	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/llm"
)

// call shows one tool call. With tokens each call is an item, as a delta; otherwise the calls of a message are one item.
func (f *Feed) call(c []llm.ToolCall, base Item) {
	f.running[c[0].ID] = true
	it := base
	it.Kind, it.calls = KindToolCall, c
	it.otid = otidOf(it.ID, f.unit(it.ID, it.Kind, true))
	if !f.tokens {
		f.hold(it, true)
		return
	}
	it.Delta = true
	f.flush()
	f.show(it)
}

// returned takes the new returns of a tool message. They are shown as one item when all calls have returned, or when
// another message begins.
func (f *Feed) returned(m *llm.Message, base Item) {
	expected := false
	for ; f.returns < len(m.ToolReturns); f.returns++ {
		r := m.ToolReturns[f.returns : f.returns+1 : f.returns+1]
		expected = expected || f.running[r[0].ToolCallID]
		delete(f.running, r[0].ToolCallID)
		it := base
		it.Kind, it.otid, it.returns = KindToolReturn, otidOf(m.ID, 0), r
		f.hold(it, true)
	}
	if expected && len(f.running) == 0 {
		f.flush()
	}
}

// request shows an approval request: with tokens as one item per call, otherwise as one item.
func (f *Feed) request(m *llm.Message, it Item) {
	it.Kind, it.otid, it.calls = KindApprovalRequest, cmp.Or(m.OTID, m.ID), m.ToolCalls
	for i := range m.ToolCalls {
		f.running[m.ToolCalls[i].ID] = true
	}
	if !f.tokens || len(m.ToolCalls) > core.AtStep-4 {
		f.show(it)
		return
	}
	it.Delta = true
	for i := range m.ToolCalls {
		it.calls = m.ToolCalls[i : i+1 : i+1]
		f.show(it)
	}
}

// hold keeps an item until the next part, which is joined to it when it has the same kind and message.
func (f *Feed) hold(it Item, merges bool) {
	if h := f.held; merges && h != nil && h.ID == it.ID && h.Kind == it.Kind {
		h.join(&it)
		return
	}
	f.flush()
	if !merges {
		f.show(it)
		return
	}
	f.held = &it
}

// flush shows the held item, at the position of the present entry.
func (f *Feed) flush() {
	if it := f.held; it != nil {
		f.held = nil
		f.show(*it)
	}
}
