package main

import (
	"fmt"
	"io"
	"time"

	"github.com/parley-hq/parley/internal/terminal"
)

// progress tells how far long work has come: on a terminal in one line that is
// rewritten, elsewhere in a plain line now and then.
type progress struct {
	w     io.Writer
	live  bool
	every time.Duration
	last  time.Time
	dirty bool // the line on the terminal is not finished
}

func newProgress(w io.Writer) *progress {
	_, live := terminal.File(w)
	p := &progress{w: w, live: live, every: 5 * time.Second, last: time.Now()}
	if live {
		p.every, p.last = 100*time.Millisecond, time.Time{}
	}
	return p
}

// say shows a state, unless the last one is too fresh.
func (p *progress) say(format string, args ...any) {
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

// end clears the line for what comes next.
func (p *progress) end() {
	if p.dirty {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.dirty = false
	}
}
