package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

const (
	maxNotes      = 100 // lines of a client
	maxSavedTalks = 50
)

// notes are the latest lines of what a client has noted.
type notes struct {
	mu    sync.Mutex
	lines []note
}

// note is a line, and how many times it came one after the other.
type note struct {
	first, last time.Time
	times       int
	text        string
}

// add notes a line.
func (n *notes) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	text, now := fmt.Sprintf(format, args...), time.Now()
	if i := len(n.lines) - 1; i >= 0 && n.lines[i].text == text {
		n.lines[i].last = now
		n.lines[i].times++
		return
	}
	if len(n.lines) == maxNotes {
		n.lines = n.lines[1:]
	}
	n.lines = append(n.lines, note{now, now, 1, text})
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var b strings.Builder
	for _, l := range n.lines {
		fmt.Fprintf(&b, "  %s %s", l.first.Format(noteTime), l.text)
		if l.times > 1 {
			fmt.Fprintf(&b, " (%d times, until %s)", l.times, l.last.Format(noteTime))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

const noteTime = "15:04:05.000"

// save writes what explains the failure of a conversation to a file: what its clients have noted, and the events since the last
// round that was checked.
func (k *talk) save(ctx context.Context, failure error) error {
	k.mu.Lock()
	k.saved++
	enough := k.saved > maxSavedTalks
	k.mu.Unlock()
	if enough {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v\n", time.Now().Format(noteTime), failure)
	for _, c := range k.clients {
		fmt.Fprintf(&b, "client of %s\n%s", c.dialect, &c.notes)
	}
	fmt.Fprintf(&b, "events after %d\n", k.last)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	count := 0
	for e, err := range k.log.Events(ctx, k.id, client.EventQuery{After: k.last}) {
		if err != nil || count == maxNotes {
			fmt.Fprintf(&b, "  the others are left out: %v\n", err)
			break
		}
		count++
		fmt.Fprintf(&b, "  %s %s via %s: %s\n", e.At.Time().Local().Format(noteTime), e.Turn, e.Via, summary([]chat.Event{e}))
	}
	return os.WriteFile(filepath.Join(k.dir, string(k.id)+".txt"), []byte(b.String()), 0o600)
}
