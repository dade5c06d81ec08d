package llm

import (
	"context"
	"math"
	"slices"

	"github.com/parley-hq/parley/chat"
)

// window is a part of a log that can be extended in both directions.
type window struct {
	log    Log
	line   string
	last   chat.Seq // the last event of the log
	lo, hi chat.Seq // events contains all events from lo to hi
	events []chat.Event
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

// bounds returns the largest part of the window that begins and ends between turns, as
// indexes of its events; -1 means that there is no such position. Such a position is
// before an event that starts a turn at once: no turn runs and no message waits there.
func (w *window) bounds() (start, end int) {
	start, end = -1, -1
	if w.lo <= 1 {
		start = 0
	}
	prev := -1 // the last event that concerns the workstream
	for i := range w.events {
		e := &w.events[i]
		if b, ok := e.Body.(chat.TurnStarted); ok && e.Workstream == w.line && prev >= 0 && b.Trigger == w.events[prev].Seq {
			if end = prev; start < 0 {
				start = prev
			}
		}
		if e.Workstream == w.line || isInput(e, w.line) {
			prev = i
		}
	}
	if w.hi >= w.last {
		end = len(w.events)
	}
	return start, end
}

// fold folds a part of the window. At the end of the log it adds the messages that wait
// for a turn; they have the highest sequence.
func (w *window) fold(start, end int, opt Options) *Fold {
	f := NewFold(opt)
	if start < 0 || end < start {
		return f
	}
	for i := start; i < end; i++ {
		f.Apply(&w.events[i])
	}
	if w.hi >= w.last {
		for _, m := range f.Waiting() {
			f.messages, f.sequences = append(f.messages, m), append(f.sequences, chat.MaxSeq)
		}
	}
	return f
}

// time returns the time of an event in the window. For waiting messages it returns the
// maximum, so that they sort last.
func (w *window) time(seq chat.Seq) chat.At {
	if seq == chat.MaxSeq {
		return math.MaxInt64
	}
	return w.events[seq-w.lo].At
}
