package cluster

import (
	"slices"
	"time"
)

// MaxClockOffset is how far the clock of an owner may be from the median of all clocks: it stamps the events.
const MaxClockOffset = time.Second

// Clocks estimates the clocks of the other nodes by their heartbeats. It is not safe for concurrent use.
type Clocks struct{ nodes map[string]*clock }

type clock struct {
	offsets [8]time.Duration // of the last heartbeats; a late one makes its clock look slow
	n       int
	heard   time.Time
}

// Heard takes the time that a node has sent, and when it arrived.
func (c *Clocks) Heard(node string, sent, now time.Time) {
	if c.nodes == nil {
		c.nodes = map[string]*clock{}
	}
	k := c.nodes[node]
	if k == nil || now.Sub(k.heard) > 10*time.Second {
		k = &clock{}
		c.nodes[node] = k
	}
	k.offsets[k.n%len(k.offsets)] = sent.Sub(now)
	k.n++
	k.heard = now
}

// Offset returns by how much the clock of a node is ahead of this one's, if it was heard lately.
func (c *Clocks) Offset(node string, now time.Time) (ahead time.Duration, known bool) {
	k := c.nodes[node]
	if k == nil || k.n < len(k.offsets)/2 || now.Sub(k.heard) > 10*time.Second {
		return 0, false
	}
	return slices.Max(k.offsets[:min(k.n, len(k.offsets))]), true
}

// Own returns by how much this clock is ahead of the median of all clocks. It is 0 if fewer than three are known: two clocks do
// not tell which one is wrong.
func (c *Clocks) Own(now time.Time) time.Duration {
	all := []time.Duration{0}
	for name := range c.nodes {
		if ahead, known := c.Offset(name, now); known {
			all = append(all, ahead)
		}
	}
	if len(all) < 3 {
		return 0
	}
	slices.Sort(all)
	return -all[len(all)/2]
}
