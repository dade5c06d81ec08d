package chat

import (
	"slices"
	"strconv"
)

// Transcript is what people see of a session: the fold of its log into items,
// and its state.
//
// The cost of an event does not depend on the length of the session. A transcript
// is used by one goroutine at a time. What an Item points to is never changed, only
// replaced, so another goroutine may read a copy of the slices meanwhile.
//
// Items depend on events alone, except that a message is shown as queued while
// State has it in a queue. So a window of the log gives the same items as the
// whole; see Item.Headless for those that it cuts in two.
type Transcript struct {
	State State
	Items []Item // in the order of the events that began them
	Open  []Item // blocks that are being written, in the order in which they were begun

	last   Seq // the last event that was folded
	frozen bool
	index  map[string]int    // item id → index in Items
	calls  map[callKey][]int // running calls → indexes in Items, oldest first
	files  map[string]int    // path → index of its last upload
	turns  map[TurnID]*running
}

// running is a turn that has events in the window, but not its end.
type running struct {
	began bool             // the window has its start
	calls map[callKey]bool // that wait for their outcome
}

// callKey finds the call that a result belongs to. Old publishers give no call
// id; there a result belongs to the oldest running call of its tool.
type callKey struct {
	turn TurnID
	line string
	call string
	tool string // only when there is no call id
}

// FoldWindow folds a part of a log that ends at or before state: the last
// events of a session, or a page further back. The state is the session's own;
// events up to its last one do not change it.
func FoldWindow(state *State, events []Event) *Transcript {
	t := &Transcript{State: *state.Clone()}
	for i := range events {
		t.Apply(&events[i])
	}
	return t
}

// Apply folds one event. Events come in order; one that was folded already is
// passed over.
func (t *Transcript) Apply(e *Event) {
	if e.Seq <= t.last {
		return
	}
	t.last = e.Seq
	if t.index == nil {
		t.reset()
	}
	if e.Seq > t.State.Last {
		t.State.Apply(e)
	}
	t.fold(e)
}

// reset makes the indexes of a transcript without items.
func (t *Transcript) reset() {
	t.index, t.calls = map[string]int{}, map[callKey][]int{}
	t.files, t.turns = map[string]int{}, map[TurnID]*running{}
}

// View returns all items: those of the log, then the open blocks.
func (t *Transcript) View() []Item {
	return append(slices.Clip(slices.Clone(t.Items)), t.Open...)
}

// Freeze makes Apply add no more items, only change those that are there. A page
// of older items is folded, frozen, and then shown later events until it is
// Settled: an answer may come long after its question.
func (t *Transcript) Freeze() { t.frozen = true }

// Settled reports whether no later event is likely to change an item.
func (t *Transcript) Settled() bool {
	if len(t.calls) > 0 {
		return false
	}
	for i := range t.Items {
		it := &t.Items[i]
		switch it.Kind {
		case ItemMessage:
			if s := it.Message.State; s == MessageQueued || s == MessageSent && t.State.Session.Agent != NoAgent {
				return false
			}
		case ItemPrompt:
			if it.Prompt.Status == PromptOpen {
				return false
			}
		case ItemWorkstream:
			if it.Work.EndedAt == 0 {
				return false
			}
		case ItemPlan, ItemStatus:
			if it.Turn != "" && t.turns[it.Turn] != nil {
				return false
			}
		}
	}
	return true
}

// add appends an item that begins with e and returns its index, or -1 when the
// transcript is frozen. An id that is taken gets the sequence behind it.
func (t *Transcript) add(e *Event, kind ItemKind, id string) int {
	if t.frozen {
		return -1
	}
	if _, taken := t.index[id]; taken {
		id += "." + strconv.FormatUint(uint64(e.Seq), 10)
	}
	it := Item{
		ID: id, Kind: kind, Seq: e.Seq, Last: e.Seq, At: e.At, Turn: e.Turn, Workstream: e.Workstream,
	}
	if e.Actor != (Actor{}) {
		actor := e.Actor
		it.Actor = &actor
	}
	t.Items = append(t.Items, it)
	t.index[id] = len(t.Items) - 1
	return len(t.Items) - 1
}

// put adds an item that nothing later refers to by a name of its own.
func (t *Transcript) put(e *Event, kind ItemKind, fill func(*Item)) {
	if i := t.add(e, kind, seqID(e.Seq)); i >= 0 {
		fill(&t.Items[i])
	}
}

// at returns the item with that id, marked as changed by e; nil when it is not
// in the window.
func (t *Transcript) at(e *Event, id string) *Item {
	i, ok := t.index[id]
	if !ok {
		return nil
	}
	t.Items[i].Last = e.Seq
	return &t.Items[i]
}

// turn returns what is noted of a running turn.
func (t *Transcript) turn(id TurnID) *running {
	r := t.turns[id]
	if r == nil {
		r = &running{calls: map[callKey]bool{}}
		t.turns[id] = r
	}
	return r
}

func seqID(s Seq) string { return "i" + strconv.FormatUint(uint64(s), 10) }

// nameID is the id of an item that is about something with a name, inside a
// turn where there is one; "" when it has no name.
func nameID(prefix string, turn TurnID, name string) string {
	if name == "" {
		return ""
	}
	if turn != "" {
		return prefix + string(turn) + "." + name
	}
	return prefix + name
}
