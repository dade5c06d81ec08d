package llm

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// window is a part of a log that can grow in both directions.
type window struct {
	log    Log
	line   string
	last   chat.Seq   // the last event of the log
	busy   bool       // a turn runs there
	queue  []chat.Seq // what waits there for a turn
	tail   []placed   // the messages of queue, once they were read
	lo, hi chat.Seq   // events has all from lo to hi
	events []chat.Event
}

// placed is a message and the event at which it came.
type placed struct {
	*Message
	at chat.Seq
}

// back reads n events more before the window.
func (w *window) back(ctx context.Context, n int) error {
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

// forth reads n events more behind the window.
func (w *window) forth(ctx context.Context, n int) error {
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
			continue // it came after the list was asked for
		}
		e, err := f.Event()
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

// fold makes the messages of the largest part of the window in which nothing is
// cut off: it begins and ends between turns. start and end are its events, -1
// when the window has no such place.
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

// time is that of an event of the window; what waits comes after all.
func (w *window) time(seq chat.Seq) chat.At {
	if seq < w.lo || seq > w.hi {
		return math.MaxInt64
	}
	return w.events[seq-w.lo].At
}

// wait reads what waits at the end of the log, which may lie before the window.
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

// idle says of each event whether no turn ran just before it; the last value is
// for the end of the window. What is not known counts as no.
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
	for i := range w.events { // what an event says of the time before and after it
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
			// The server gives what an agent says to the turn that runs.
			if strings.HasPrefix(e.Type, "agent.") {
				if runs[i], runs[i+1] = no, no; e.Turn != "" {
					runs[i], runs[i+1] = yes, yes
				}
			}
		}
	}
	for i := 1; i <= n; i++ { // nothing else changes it
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

// start finds the first event at which a fold can begin: no turn runs, and what
// later turns answer lies in the window.
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
		if idle[i] && opens(e, w.line) {
			start = i
		}
	}
	return start
}

// end finds the last place between turns; what comes before it changes no more.
func (w *window) end(idle []bool) int {
	if w.hi >= w.last {
		return len(w.events)
	}
	for i := len(w.events); i >= 0; i-- {
		if !idle[i] {
			continue
		}
		if i < len(w.events) && spoken(&w.events[i], w.line) || i > 0 && w.closed(i-1) {
			return i
		}
	}
	return -1
}

// opens reports whether a fold forgets at this event what came before.
func opens(e *chat.Event, line string) bool {
	_, began := e.Body.(chat.TurnStarted)
	return began && e.Workstream == line || spoken(e, line)
}

// closed reports whether an event ends a turn.
func (w *window) closed(i int) bool {
	_, ok := w.events[i].Body.(chat.TurnCompleted)
	return ok && w.events[i].Workstream == w.line
}

// waiting finds the messages that wait for a turn at the start.
func (w *window) waiting(idle []bool, start int) []chat.Event {
	var list []chat.Event
	drop := func(seqs ...chat.Seq) {
		list = slices.DeleteFunc(list, func(e chat.Event) bool { return slices.Contains(seqs, e.Seq) })
	}
	for i := range start {
		e := &w.events[i]
		if spoken(e, w.line) && !idle[i] {
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
