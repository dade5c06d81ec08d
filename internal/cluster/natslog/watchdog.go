package natslog

import (
	"context"
	"sync"
	"time"
)

// watchdog steps the leader of a stream down when appends fail for a while although the leader answers other requests. JetStream
// has been seen in such a state.
type watchdog struct {
	patience time.Duration // how long appends must fail
	rest     time.Duration // between two attempts

	mu    sync.Mutex
	since []time.Time // by partition: when appends began to fail; zero if the last one succeeded
	acted []time.Time // by partition: the last attempt
}

func newWatchdog(parts int) *watchdog {
	return &watchdog{patience: 15 * time.Second, rest: time.Minute, since: make([]time.Time, parts), acted: make([]time.Time, parts)}
}

// appended takes the result of an append and reports whether it is time to act.
func (w *watchdog) appended(part int, ok bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	switch {
	case ok:
		w.since[part] = time.Time{}
		return false
	case w.since[part].IsZero():
		w.since[part] = now
		return false
	case now.Sub(w.since[part]) < w.patience || now.Sub(w.acted[part]) < w.rest:
		return false
	}
	w.acted[part] = now
	return true
}

// revive steps the leader of a partition's stream down, if there is one that answers and another server could lead.
func (l *Log) revive(part int) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*attempt)
	defer cancel()
	s, err := l.Status(ctx, part)
	if err != nil || s.Leader == "" || len(s.Followers) == 0 {
		return // it is not the leader that is stuck
	}
	l.log.Warn("the log accepts no frames although it has a leader; another leader is elected", "stream", l.Stream(part), "leader", s.Leader)
	if err := l.StepDown(ctx, part, s.Followers[0]); err != nil {
		l.log.Warn("the leader of the log cannot be changed", "stream", l.Stream(part), "err", err)
	}
}
