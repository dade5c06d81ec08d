package main

import (
	"fmt"
	"io"
	"time"

	"github.com/parley-hq/parley/internal/terminal"
)

// progress prints the progress of a long operation: on a terminal as one line that is rewritten, else as a line every
// five seconds.
type progress struct {
	w     io.Writer
	live  bool
	every time.Duration
	last  time.Time
	dirty bool // the line on the terminal must be cleared
}

func newProgress(w io.Writer) *progress {
	_, live := terminal.File(w)
	p := &progress{w: w, live: live, every: 5 * time.Second, last: time.Now()}
	if live {
		p.every, p.last = 100*time.Millisecond, time.Time{}
	}
	return p
}

// printf prints the progress, unless the last line is too recent.
func (p *progress) printf(format string, args ...any) {
	now := time.Now()
	if now.Sub(p.last) < p.every {
		return
	}
	p.last = now
	if p.live {
		fmt.Fprintf(p.w, "\r\x1b[K"+format, args...)
		p.dirty = true
		return
	}
	fmt.Fprintf(p.w, format+"\n", args...)
}

// end clears the line.
func (p *progress) end() {
	if p.dirty {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.dirty = false
	}
}
