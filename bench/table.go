package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const header = "| # | work | system | rate | p50 | p99 | CPU each | more | verdict |\n|---|---|---|---|---|---|---|---|---|"

// result is what a row measured of one work, with a line for each side.
type result struct {
	what   string
	sides  []*side
	checks []check
	more   func(s *side) string // of the column more; nil for none
}

// metric is a value of a trial that is compared with bounds.
type metric struct {
	name  string
	of    func(t *trial) float64
	show  func(v float64) string
	floor bool // more is better
}

var (
	rate   = metric{"rate", func(t *trial) float64 { return t.rate }, perSecond, true}
	cpu    = metric{"CPU", func(t *trial) float64 { return t.cost }, micros, false}
	p50    = metric{"p50", func(t *trial) float64 { return inMS(t.latency.Quantile(.5)) }, millis, false}
	p99    = metric{"p99", func(t *trial) float64 { return inMS(t.latency.Quantile(.99)) }, millis, false}
	took   = metric{"time", func(t *trial) float64 { return t.took.Seconds() }, seconds, false}
	memory = metric{"memory", func(t *trial) float64 { return float64(t.memory) / 1e6 }, func(v float64) string { return fmt.Sprintf("%.0f MB", v) }, false}
	each   = metric{"each reader", func(t *trial) float64 { return t.perReader / 1e3 }, func(v float64) string { return fmt.Sprintf("%.1f KB", v) }, false}
)

// bound is a number, or so many times the value of another side.
type bound struct {
	times float64
	of    string // the name of the side; "" for none
}

// check compares a metric of Parley's sides with two bounds.
type check struct {
	metric
	must, aim bound
}

// value is the median of a metric.
func (s *side) value(m metric) float64 {
	return medianOf(s, m.of)
}

// holds reports whether a side keeps within a bound, and describes the bound. A bound relative to another side is the median
// of the ratios of the turns, because other load on the machine differs from turn to turn.
func (r *result) holds(m metric, s *side, b bound) (ok bool, text string, known bool) {
	v, limit := s.value(m), b.times
	text = m.show(limit)
	if b.of != "" {
		i := slices.IndexFunc(r.sides, func(o *side) bool { return o.name == b.of })
		if i < 0 {
			return false, fmt.Sprintf("%.2g of %s, which was not measured", b.times, b.of), false
		}
		ratios := make([]float64, len(s.trials))
		for t := range ratios {
			ratios[t] = m.of(&s.trials[t]) / m.of(&r.sides[i].trials[t])
		}
		v = median(ratios)
		text = fmt.Sprintf("%.2g of %s, is %.2f", b.times, b.of, v)
	}
	if m.floor {
		return v >= limit, text, true
	}
	return v <= limit, text, true
}

// verdict is the outcome of all checks of a side.
func (r *result) verdict(s *side) string {
	if !s.ours {
		return ""
	}
	var all []string
	for _, c := range r.checks {
		must, mustText, known := r.holds(c.metric, s, c.must)
		aim, aimText, _ := r.holds(c.metric, s, c.aim)
		word := "**below must**"
		switch {
		case !known:
			word = "unknown"
		case must && aim:
			word = "aim reached"
		case must:
			word = "must reached"
		}
		all = append(all, fmt.Sprintf("%s: %s (must: %s; aim: %s)", c.name, word, mustText, aimText))
	}
	return strings.Join(all, ". ")
}

// markdown returns the lines of the table.
func (r *result) markdown(number int) string {
	var b strings.Builder
	for _, s := range r.sides {
		more := ""
		if r.more != nil {
			more = r.more(s)
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s | %s | %s |\n", number, r.what, s.name, s.cell(rate), s.cell(p50), s.cell(p99), s.cell(cpu), more, r.verdict(s))
	}
	return b.String()
}

// cell is a column of the table; a metric that the row does not have is a dash.
func (s *side) cell(m metric) string {
	v := s.value(m)
	if v == 0 {
		return "–"
	}
	return m.show(v)
}

func median[T int | int64 | float64 | time.Duration](all []T) T {
	s := slices.Sorted(slices.Values(all))
	return s[len(s)/2]
}

func perSecond(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.2f M/s", n/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f k/s", n/1e3)
	}
	return fmt.Sprintf("%.0f /s", n)
}

func seconds(v float64) string {
	if v < 1 {
		return millis(1000 * v)
	}
	return fmt.Sprintf("%.2f s", v)
}

// micros formats microseconds.
func micros(us float64) string {
	if us >= 1000 {
		return millis(us / 1000)
	}
	return fmt.Sprintf("%.1f µs", us)
}

// millis formats milliseconds.
func millis(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f ms", v)
	case v < 100:
		return fmt.Sprintf("%.1f ms", v)
	}
	return fmt.Sprintf("%.0f ms", v)
}

func inMS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
