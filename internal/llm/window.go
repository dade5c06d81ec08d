package llm

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// window is a part of a log that can be extended in both directions.
type window struct {
	log    Log
	line   string
	last   chat.Seq   // the last event of the log
	busy   bool       // a turn runs at the end of the log
	queue  []chat.Seq // sequences of the messages that wait for a turn
	tail   []placed   // the messages of queue; nil until they are read
	lo, hi chat.Seq   // events contains all events from lo to hi
	events []chat.Event
}

// placed is a message and the sequence of the event that added it.
type placed struct {
	*Message
	at chat.Seq
}

// extendBack extends the window by up to n events before it.
func (w *window) extendBack(ctx context.Context, n int) error {
	older, err := w.read(ctx, chat.Range{Before: w.lo, Limit: n, Desc: true})
	if err != nil {
		return err
	}
	slices.Reverse(older)
	w.events = append(older, w.events...)
	w.lo = 1
	if len(older) > 0 {
		w.lo = older[0].Seq
	}
	return nil
}

// extendForward extends the window by up to n events after it.
func (w *window) extendForward(ctx context.Context, n int) error {
	newer, err := w.read(ctx, chat.Range{After: w.hi, Limit: n})
	if err != nil {
		return err
	}
	w.events = append(w.events, newer...)
	if len(newer) == 0 {
		w.hi = w.last
	} else {
		w.hi = newer[len(newer)-1].Seq
	}
	return nil
}

func (w *window) read(ctx context.Context, r chat.Range) ([]chat.Event, error) {
	facts, _, err := w.log.Read(ctx, r)
	if err != nil {
		return nil, err
	}
	events := make([]chat.Event, 0, len(facts))
	for _, f := range facts {
		if f.Seq > w.last {
			continue // it was added after List read the state
		}
		e, err := f.Event()
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

// fold returns the messages of the largest part of the window that begins and ends
// between turns, so that no turn is cut off. start and end are the indexes of that
// part's events, -1 if the window has no such position.
func (w *window) fold(ctx context.Context, opt Options) (list []placed, start, end int, err error) {
	idle := w.idle()
	start, end = w.start(idle), w.end(idle)
	if start < 0 || end < 0 {
		return nil, start, end, nil
	}
	f := NewFold(opt)
	f.messages, f.places = make([]Message, 0, max(0, end-start)), make([]chat.Seq, 0, max(0, end-start))
	f.waiting = w.waiting(idle, start)
	for i := start; i < end; i++ {
		f.Apply(&w.events[i])
	}
	list = make([]placed, 0, len(f.messages)+len(w.queue))
	for i := range f.messages {
		list = append(list, placed{&f.messages[i], f.places[i]})
	}
	if w.hi >= w.last {
		err = w.wait(ctx, f)
		list = append(list, w.tail...)
	}
	return list, start, end, err
}

// time returns the time of an event in the window. For waiting messages it returns the
// maximum, so that they sort last.
func (w *window) time(seq chat.Seq) chat.At {
	if seq < w.lo || seq > w.hi {
		return math.MaxInt64
	}
	return w.events[seq-w.lo].At
}

// wait reads the messages that wait for a turn. They may be before the window.
func (w *window) wait(ctx context.Context, f *Fold) error {
	if len(w.tail) > 0 {
		return nil
	}
	for _, seq := range w.queue {
		events, err := w.read(ctx, chat.Range{After: seq - 1, Limit: 1})
		if err != nil {
			return err
		}
		for i := range events {
			if m, ok := f.fromPerson(&events[i]); ok && events[i].Seq == seq {
				w.tail = append(w.tail, placed{&m, chat.MaxSeq})
			}
		}
	}
	return nil
}

// idle returns for each event whether no turn ran just before it; the last element is
// for the end of the window. An unknown state counts as running.
func (w *window) idle() []bool {
	const unknown, no, yes = 0, 1, 2 // whether a turn runs
	n := len(w.events)
	runs := make([]byte, n+1)
	if w.lo <= 1 {
		runs[0] = no
	}
	if w.hi >= w.last {
		if runs[n] = no; w.busy {
			runs[n] = yes
		}
	}
	for i := range w.events { // what an event implies about the state before and after it
		e := &w.events[i]
		if e.Workstream != w.line {
			continue
		}
		switch e.Body.(type) {
		case chat.TurnStarted:
			runs[i], runs[i+1] = no, yes
		case chat.TurnCompleted:
			runs[i], runs[i+1] = yes, no
		default:
			// The server assigns agent events to the running turn.
			if strings.HasPrefix(e.Type, "agent.") {
				if runs[i], runs[i+1] = no, no; e.Turn != "" {
					runs[i], runs[i+1] = yes, yes
				}
			}
		}
	}
	for i := 1; i <= n; i++ { // other events do not change the state
		if runs[i] == unknown {
			runs[i] = runs[i-1]
		}
	}
	for i := n - 1; i >= 0; i-- {
		if runs[i] == unknown {
			runs[i] = runs[i+1]
		}
	}
	idle := make([]bool, n+1)
	for i := range runs {
		idle[i] = runs[i] == no
	}
	return idle
}

// start returns the first event at which a Fold can begin: no turn runs, and the
// window contains the triggers of all later turns.
func (w *window) start(idle []bool) int {
	if w.lo <= 1 {
		return 0
	}
	start := -1
	for i := len(w.events) - 1; i >= 0; i-- {
		e := &w.events[i]
		if b, ok := e.Body.(chat.TurnStarted); ok && e.Workstream == w.line && b.Trigger < w.lo {
			return start
		}
		if idle[i] && resetsFold(e, w.line) {
			start = i
		}
	}
	return start
}

// end returns the last position between turns. Later events do not change the messages
// before it.
func (w *window) end(idle []bool) int {
	if w.hi >= w.last {
		return len(w.events)
	}
	for i := len(w.events); i >= 0; i-- {
		if !idle[i] {
			continue
		}
		if i < len(w.events) && isInput(&w.events[i], w.line) || i > 0 && w.endsTurn(i-1) {
			return i
		}
	}
	return -1
}

// resetsFold reports whether a Fold clears its state at this event.
func resetsFold(e *chat.Event, line string) bool {
	_, began := e.Body.(chat.TurnStarted)
	return began && e.Workstream == line || isInput(e, line)
}

// endsTurn reports whether an event ends a turn of the workstream.
func (w *window) endsTurn(i int) bool {
	_, ok := w.events[i].Body.(chat.TurnCompleted)
	return ok && w.events[i].Workstream == w.line
}

// waiting returns the messages that wait for a turn at start.
func (w *window) waiting(idle []bool, start int) []chat.Event {
	var list []chat.Event
	drop := func(seqs ...chat.Seq) {
		list = slices.DeleteFunc(list, func(e chat.Event) bool { return slices.Contains(seqs, e.Seq) })
	}
	for i := range start {
		e := &w.events[i]
		if isInput(e, w.line) && !idle[i] {
			list = append(list, *e)
		}
		if e.Workstream != w.line {
			continue
		}
		switch b := e.Body.(type) {
		case chat.UserMessageWithdrawn:
			drop(b.Sequence)
		case chat.TurnStarted:
			drop(b.Trigger)
		case chat.TurnInput:
			drop(b.Sequences...)
		}
	}
	return list
}
