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

// OthersOfMajority returns how many other nodes are a majority with this one.
func (n *Node) OthersOfMajority() int { return n.opt.Trim.Nodes / 2 }

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

// Lag returns how long ago this node applied what follows a position of a partition.
func (n *Node) Lag(partition int, pos cluster.Pos) time.Duration {
	if when, known := n.parts[partition].reachedAt(pos); known {
		return time.Since(when)
	}
	return 0
}
