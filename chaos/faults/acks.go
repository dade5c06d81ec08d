package faults

import (
	"slices"
	"sync"
	"time"
)

// Acks has the times at which the nodes acknowledged writes, for each partition.
type Acks struct {
	begin time.Time

	mu    sync.Mutex
	parts [][]ack // in the order of time
}

type ack struct {
	at   time.Duration // since begin
	node int
}

// NewAcks returns an empty list for so many partitions.
func NewAcks(parts int) *Acks { return &Acks{begin: time.Now(), parts: make([][]ack, parts)} }

// Now returns the time since the beginning.
func (a *Acks) Now() time.Duration { return time.Since(a.begin) }

// Add notes that a write to a partition was acknowledged through a node.
func (a *Acks) Add(part, node int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.parts[part] = append(a.parts[part], ack{a.Now(), node})
}

// longestPause returns the longest time without an acknowledgement of a partition within an interval, through some nodes.
func (a *Acks) longestPause(from, to time.Duration, through [NodeCount]bool) (longest time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, acks := range a.parts {
		last := from
		i, _ := slices.BinarySearchFunc(acks, from, func(a ack, t time.Duration) int { return int(a.at - t) })
		for ; i < len(acks) && acks[i].at < to; i++ {
			if through[acks[i].node] {
				longest = max(longest, acks[i].at-last)
				last = acks[i].at
			}
		}
		longest = max(longest, to-last)
	}
	return longest
}

// since reports whether every node, or one if that is enough, has acknowledged in every partition after a time.
func (a *Acks) since(t time.Duration, oneIsEnough bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, acks := range a.parts {
		var seen [NodeCount]bool
		for i := len(acks) - 1; i >= 0 && acks[i].at > t; i-- {
			seen[acks[i].node] = true
		}
		if oneIsEnough && !slices.Contains(seen[:], true) || !oneIsEnough && slices.Contains(seen[:], false) {
			return false
		}
	}
	return true
}
