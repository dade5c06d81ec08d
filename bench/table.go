package main

import (
	"fmt"
	"slices"
	"time"
)

const header = "| # | what | Parley | peer | ratio | must | aim | verdict |\n|---|---|---|---|---|---|---|---|"

// line is one line of the table.
type line struct {
	what  string
	ours  string
	peer  string // "" when there is none
	ratio float64
	must  string
	aim   string
	value float64 // compared with the bounds
	floor bool    // more is better
	need  float64 // the bound for must; 0 means none
	want  float64 // the bound for aim; 0 means none
	flaw  string  // another condition that is not met; "" for none
}

func (l line) verdict() string {
	ok := func(bound float64) bool {
		if l.floor {
			return l.value >= bound
		}
		return l.value <= bound
	}
	switch {
	case l.need == 0:
		return ""
	case l.flaw != "" && ok(l.need):
		return "**" + l.flaw + "**"
	case l.want != 0 && ok(l.want):
		return "aim"
	case ok(l.need):
		return "must"
	}
	return "**below**"
}

func (l line) markdown(number int) string {
	peer, ratio := l.peer, ""
	if peer == "" {
		peer = "–"
	}
	if l.ratio != 0 {
		ratio = fmt.Sprintf("%.2f", l.ratio)
	}
	return fmt.Sprintf("| %d | %s | %s | %s | %s | %s | %s | %s |", number, l.what, l.ours, peer, ratio, l.must, l.aim, l.verdict())
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

func ms(d time.Duration) string {
	switch v := inMS(d); {
	case v < 10:
		return fmt.Sprintf("%.2f ms", v)
	case v < 100:
		return fmt.Sprintf("%.1f ms", v)
	default:
		return fmt.Sprintf("%.0f ms", v)
	}
}

func inMS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mb(bytes int64) string { return fmt.Sprintf("%.0f MB", float64(bytes)/1e6) }
