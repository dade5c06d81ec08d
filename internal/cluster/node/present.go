package node

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/parley-hq/parley/internal/cluster"
)

// Silence is how long a node may be silent and still be present.
const Silence = 5 * time.Second

// Present reports whether the node that sent a heartbeat is present.
func (n *Node) Present(h *cluster.Heartbeat) bool {
	return time.Since(h.Heard) < max(n.opt.Takeover, Silence)
}

// certain reports whether this node, which owns a partition, is certainly still its owner: it has heard a majority within the time that other
// nodes wait before they claim the partition, and none of them knows a later owner.
func (n *Node) certain(p *part) bool {
	st, heard := p.status(), 1
	for _, h := range p.get().Peers() {
		if h.Epoch > st.Copy.Epoch {
			return false
		}
		if time.Since(h.Heard) < n.opt.Takeover {
			heard++
		}
	}
	return st.Owns && heard > n.opt.Trim.Nodes/2
}

// CountPresent returns how many other nodes are present.
func (n *Node) CountPresent() int { return len(n.present()) }

// present returns the other nodes that are present, in random order.
func (n *Node) present() (names []string) {
	for _, st := range n.Status() {
		for _, h := range st.Peers {
			if n.Present(&h) && !slices.Contains(names, h.Node) {
				names = append(names, h.Node)
			}
		}
	}
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}
