package node

import (
	"time"

	"github.com/parley-hq/parley/internal/cluster"
)

// ClockOffset returns by how much the clock of this node is ahead of the median of all clocks.
func (n *Node) ClockOffset() time.Duration {
	n.clockMu.Lock()
	defer n.clockMu.Unlock()
	return n.clocks.Own(n.now())
}

// heardClock takes the time of a heartbeat.
func (n *Node) heardClock(h *cluster.Heartbeat) {
	if h.Partition == 0 && !h.Sent.IsZero() {
		n.clockMu.Lock()
		defer n.clockMu.Unlock()
		n.clocks.Heard(h.Node, h.Sent, n.now())
	}
}

func (n *Node) now() time.Time {
	if n.opt.Now != nil {
		return n.opt.Now()
	}
	return time.Now()
}

// ClockOf returns by how much the clock of a node is ahead of this one's, 0 if it is not known.
func (n *Node) ClockOf(name string) time.Duration {
	n.clockMu.Lock()
	defer n.clockMu.Unlock()
	ahead, _ := n.clocks.Offset(name, n.now())
	return ahead
}
