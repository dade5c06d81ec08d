package workstream

import (
	"math"
	"time"

	"github.com/parley-hq/parley/chat"
)

// Grace is how long a workstream may take to end after the request.
const Grace = 60 * time.Second

// The shares of the deadline after which an event is due.
const (
	firstWarning = 0.75
	wrapUp       = 0.80
	lastWarning  = 0.90
)

// budget is the deadline as a length of time.
func budget(w *chat.Workstream) time.Duration {
	return time.Duration(w.DeadlineSeconds * float64(time.Second))
}

// elapsed is how much of the deadline has passed, on the workstream's clock.
func elapsed(w *chat.Workstream, now chat.At) time.Duration {
	if w.Ended() {
		now = w.EndedAt
	}
	if w.Interactive {
		d := time.Duration(w.Worked) * time.Millisecond
		if w.Since != 0 {
			d += time.Duration(max(0, now-w.Since)) * time.Microsecond
		}
		return d
	}
	return time.Duration(max(0, now-w.LaunchedAt)) * time.Microsecond
}

// Share is the part of the deadline that has passed, from 0 to 1.
func Share(w *chat.Workstream, now chat.At) float64 {
	total := budget(w)
	if total <= 0 {
		return 0
	}
	return min(1, math.Round(float64(elapsed(w, now))/float64(total)*1000)/1000)
}

// runs reports whether the clock of the workstream runs.
func runs(w *chat.Workstream) bool {
	return !w.Ended() && w.DeadlineSeconds > 0 && (!w.Interactive || w.Since != 0)
}

// at is when a share of the deadline will have passed, if the clock does not stop.
func at(w *chat.Workstream, share float64) chat.At {
	left := chat.At(share * w.DeadlineSeconds * 1e6)
	if w.Interactive {
		return w.Since + left - chat.At(w.Worked)*1000
	}
	return w.LaunchedAt + left
}

// deadlineAt is when the workstream reaches its deadline, 0 while its clock is stopped.
func deadlineAt(w *chat.Workstream) chat.At {
	if !runs(w) {
		return 0
	}
	return at(w, 1)
}

// nextDue is when the next event is due for the workstream, 0 for never.
func nextDue(w *chat.Workstream) chat.At {
	if w.Ended() {
		return 0
	}
	var next chat.At
	sooner := func(t chat.At) {
		if next == 0 || t < next {
			next = max(t, 1)
		}
	}
	if w.State == chat.WorkCanceling && w.CancelBy != 0 {
		sooner(w.CancelBy)
	}
	if runs(w) {
		sooner(at(w, 1))
		if w.State == chat.WorkRunning {
			if w.Warned < firstWarning {
				sooner(at(w, firstWarning))
			}
			if !w.WrappingUp {
				sooner(at(w, wrapUp))
			}
			if w.Warned < lastWarning {
				sooner(at(w, lastWarning))
			}
		}
	}
	return next
}

// First is when the next event is due for any of the workstreams, 0 for never.
func First(st *chat.State) chat.At {
	var next chat.At
	for _, w := range st.Workstreams {
		if t := nextDue(w); t != 0 && (next == 0 || t < next) {
			next = t
		}
	}
	return next
}

// Due returns the events that are due for the workstream now, in order. An event that ends it (WorkstreamTimeout,
// WorkstreamCanceled) is the only one.
func Due(w *chat.Workstream, now chat.At) []chat.Body {
	if w.Ended() {
		return nil
	}
	if w.State == chat.WorkCanceling && w.CancelBy != 0 && now >= w.CancelBy {
		return []chat.Body{chat.WorkstreamCanceled{ID: w.ID, Reason: w.Reason}}
	}
	if !runs(w) {
		return nil
	}
	if now >= at(w, 1) {
		if w.State == chat.WorkCanceling {
			return []chat.Body{chat.WorkstreamCanceled{ID: w.ID, Reason: w.Reason}}
		}
		return []chat.Body{chat.WorkstreamTimeout{ID: w.ID}}
	}
	if w.State == chat.WorkCanceling {
		return nil
	}
	var out []chat.Body
	warn := 0.0
	for _, share := range []float64{firstWarning, lastWarning} {
		// When both are overdue, only the last one is sent.
		if w.Warned < share && now >= at(w, share) {
			warn = share
		}
	}
	if warn > 0 {
		left := time.Duration(at(w, 1)-now) * time.Microsecond
		out = append(out, chat.WorkstreamWarning{ID: w.ID, Share: warn, Message: "It has " + left.Round(time.Second).String() + " left."})
	}
	if !w.WrappingUp && now >= at(w, wrapUp) {
		out = append(out, chat.WorkstreamSteered{ID: w.ID, Command: chat.SteerWrapUp, Text: wrapUpText})
	}
	return out
}

// wrapUpText is the message to a child when most of its time has passed.
const wrapUpText = "Most of your time has passed. Wrap up: finish what you are doing and give your result now."
