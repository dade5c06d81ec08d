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

// ready returns the other nodes that are present and ready.
func (n *Node) ready() []string {
	return n.peersThat(func(h *cluster.Heartbeat) bool { return n.Present(h) && h.Ready })
}

// WaitsFor returns the other nodes that are not ready while this node, whose store is damaged, waits for them; nil when enough
// are ready.
func (n *Node) WaitsFor() []string {
	ready := n.ready()
	if len(ready) >= n.OthersOfMajority() {
		return nil
	}
	names := n.peersThat(func(h *cluster.Heartbeat) bool { return !slices.Contains(ready, h.Node) })
	slices.Sort(names)
	return names
}

// peersThat returns the other nodes of which a heartbeat fits.
func (n *Node) peersThat(fits func(*cluster.Heartbeat) bool) (names []string) {
	for _, st := range n.Status() {
		for _, h := range st.Peers {
			if fits(&h) && !slices.Contains(names, h.Node) {
				names = append(names, h.Node)
			}
		}
	}
	return names
}

// present returns the other nodes that are present, in random order.
func (n *Node) present() []string {
	names := n.peersThat(n.Present)
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
