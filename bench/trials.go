package main

import (
	"fmt"
	"time"

	"github.com/parley-hq/parley/internal/load"
)

// trial is what one trial measured. A row sets the fields that it prints.
type trial struct {
	rate      float64 // per second
	cost      float64 // processor time of the server for one message, delivery or request, in µs
	latency   load.Histogram
	took      time.Duration
	memory    int64
	perReader float64 // memory of a reader
}

// side is one of the sides that a row compares.
type side struct {
	name   string
	ours   bool // has a verdict
	run    func(i int) (trial, error)
	trials []trial
}

// alternate runs the sides in turns, so that other load on the machine affects all of them.
func alternate(e *env, trials int, all ...*side) error {
	for i := range trials {
		for _, s := range all {
			if err := e.ctx.Err(); err != nil {
				return err
			}
			r, err := s.run(i)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			s.trials = append(s.trials, r)
		}
	}
	return nil
}

// medianOf is the median of a value of the trials.
func medianOf[T int64 | float64 | time.Duration](s *side, value func(r *trial) T) T {
	all := make([]T, len(s.trials))
	for i := range s.trials {
		all[i] = value(&s.trials[i])
	}
	return median(all)
}

// repeat asks once, and then again and again for a while. took is the time of the first request, latency has the others.
func repeat(span time.Duration, ask func() error) (r trial, err error) {
	at := time.Now()
	if err := ask(); err != nil {
		return r, err
	}
	r.took = time.Since(at)
	for begun := time.Now(); time.Since(begun) < span; {
		at = time.Now()
		if err := ask(); err != nil {
			return r, err
		}
		r.latency.Add(time.Since(at))
	}
	return r, nil
}
