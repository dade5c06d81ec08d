package session

import (
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
)

// eventsPerItem is the estimated number of events per item. window doubles the number of
// events it reads if the estimate was too low.
const eventsPerItem = 6

// maxWindow and windowBytes bound the events that are read for one page of items. A page
// that reaches a bound has fewer items than requested, and more is true. The bound in
// bytes is needed because folding events takes several times their size in memory. Tests
// lower the bounds.
var (
	maxWindow   = 50_000
	windowBytes = 16 << 20
)

// Snapshot returns a consistent view of the session with its last items.
func (s *Sessions) Snapshot(ctx context.Context, c chat.Caller, id chat.SessionID, items int) (chat.Snapshot, error) {
	r, err := s.acquireFor(ctx, c, id)
	if err != nil {
		return chat.Snapshot{}, err
	}
	defer r.release()
	var st *chat.State
	var blocks []chat.Block
	err = r.do(ctx, &request{look: func(state *chat.State) error {
		st, blocks = state.Clone(), s.live.Blocks(r.id)
		return c.May(&st.Session, chat.Viewer)
	}})
	if err != nil {
		return chat.Snapshot{}, err
	}
	t, _, more, err := s.window(ctx, r.id, st, st.Last+1, items)
	if err != nil {
		return chat.Snapshot{}, err
	}
	snap := chat.Snapshot{Session: st.Session, State: st.View(), Items: t.Items, More: more, Cursor: chat.Cursor{Seq: st.Last}, ServerNow: s.now(), Caller: c.Actor}
	for _, b := range blocks {
		t.Begin(&b)
		snap.Cursor.PassPiece(b.ID, len(b.Text))
	}
	snap.Open = t.Open
	if snap.Items == nil {
		snap.Items = []chat.Item{}
	}
	if snap.Open == nil {
		snap.Open = []chat.Item{}
	}
	return snap, nil
}

// Items returns a page of items that begin before an event; 0 means the last page.
func (s *Sessions) Items(ctx context.Context, c chat.Caller, id chat.SessionID, before chat.Seq, limit int) (chat.ItemPage, error) {
	st, err := s.State(ctx, c, id)
	if err != nil {
		return chat.ItemPage{}, err
	}
	if before == 0 || before > st.Last+1 {
		before = st.Last + 1
	}
	t, from, more, err := s.window(ctx, st.Session.ID, st, before, limit)
	if err != nil {
		return chat.ItemPage{}, err
	}
	page := chat.ItemPage{Items: t.Items, More: more}
	if page.Items == nil {
		page.Items = []chat.Item{}
	}
	if more {
		page.Before = from
	}
	return page, nil
}

// window folds events into the last items that begin before an event, and applies later
// events that change those items. from is the first event of the window; the next page
// ends before it.
func (s *Sessions) window(ctx context.Context, id chat.SessionID, st *chat.State, before chat.Seq, items int) (t *chat.Transcript, from chat.Seq, more bool, err error) {
	for n := max(64, items*eventsPerItem); ; n *= 2 {
		n = min(n, maxWindow)
		facts, older, err := s.log.Read(ctx, id, chat.Range{Before: before, Limit: n, MaxBytes: windowBytes, Desc: true})
		if err != nil {
			return nil, 0, false, err
		}
		slices.Reverse(facts)
		events, err := parse(facts)
		if err != nil {
			return nil, 0, false, err
		}
		t = chat.FoldWindow(st, events)
		if len(t.Items) < items && older && len(facts) == n && n < maxWindow {
			continue
		}
		if err := s.applyLater(ctx, id, t, before, st.Last); err != nil {
			return nil, 0, false, err
		}
		if len(events) > 0 {
			from = events[0].Seq
		}
		if extra := len(t.Items) - items; extra > 0 {
			t.Items, older = t.Items[extra:], true
		}
		if len(t.Items) > 0 {
			from = t.Items[0].Seq
		}
		return t, from, older, nil
	}
}

// applyLater applies later events to a page of older items.
func (s *Sessions) applyLater(ctx context.Context, id chat.SessionID, t *chat.Transcript, from, last chat.Seq) error {
	t.Freeze()
	most := chat.Range{After: from - 1, Limit: maxWindow}
	for e, err := range chat.Events(s.stored(ctx, id, most)) {
		if err != nil {
			return err
		}
		if t.Settled() || e.Seq > last {
			return nil
		}
		t.Apply(&e)
	}
	return nil
}

func parse(facts []chat.Fact) ([]chat.Event, error) {
	events := make([]chat.Event, len(facts))
	for i, f := range facts {
		e, err := f.Event()
		if err != nil {
			return nil, err
		}
		events[i] = e
	}
	return events, nil
}
