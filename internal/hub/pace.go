package hub

import "time"

// With many readers most of the work is write system calls, so entries that are
// published while readers write the last ones should go out in one write. Readers of
// a session with many readers are therefore woken at once after a silence, and again
// only after all have been served and a quarter of that time has passed once more.
// During the pause the requests of writers are handled, which would otherwise wait
// behind a thousand readers.
const (
	// paceFrom is the number of readers from which wake-ups are paced: with fewer,
	// the pause would be shorter than the resolution of timers.
	paceFrom = 64
	// paceLeast is the shortest pause: shorter ones save too few writes.
	paceLeast = 2 * time.Millisecond
	// paceMost is the longest time that an entry is held back.
	paceMost = 20 * time.Millisecond
)

// pace determines when the readers of a topic are woken again.
type pace struct {
	begun   time.Time   // of the last wake-up
	rest    time.Time   // the end of the pause after it
	serving int         // readers woken then that have not come back
	enough  int         // when so few are left, all count as served: some may be slow
	timer   *time.Timer // wakes readers at the end of the pause, when one was armed
	armed   bool
}

// due appends the readers to be woken now. During a pause it returns none and a timer
// wakes them. The caller holds t.mu.
func (t *topic) due(list []*reader) []*reader {
	if len(t.rs) < paceFrom {
		return t.unpark(list)
	}
	p, now := &t.pace, time.Now()
	wait := p.rest.Sub(now)
	if wait <= 0 {
		return t.serve(now)
	}
	if !p.armed {
		p.armed = true
		if p.timer == nil {
			p.timer = time.AfterFunc(wait, t.resume)
		} else {
			p.timer.Reset(wait)
		}
	}
	return nil
}

// serve begins a wake-up. The caller holds t.mu.
func (t *topic) serve(now time.Time) []*reader {
	list := t.unpark(nil)
	if len(list) == 0 {
		return nil // all are writing, and look for new entries afterwards
	}
	for _, r := range list {
		r.woken = true
	}
	t.pace.begun, t.pace.rest = now, now.Add(paceMost)
	t.pace.serving, t.pace.enough = len(list), len(list)/8
	return list
}

// served counts a woken reader that has written what there was. The caller holds
// t.mu.
func (t *topic) served(r *reader) {
	r.woken = false
	p := &t.pace
	if p.serving--; p.serving != p.enough {
		return
	}
	now := time.Now()
	if rest := now.Add(max(now.Sub(p.begun)/4, paceLeast)); rest.Before(p.rest) {
		p.rest = rest
		if p.armed {
			p.timer.Reset(rest.Sub(now))
		}
	}
}

// resume wakes the readers at the end of a pause.
func (t *topic) resume() {
	t.mu.Lock()
	t.pace.armed = false
	list := t.serve(time.Now())
	t.mu.Unlock()
	wake(list)
}
