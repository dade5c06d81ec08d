package main

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// kill kills a node.
func (x *cell) kill(n *server) {
	x.count(n)
	x.counts.kills++
	n.Kill()
}

// stop stops a node in order.
func (x *cell) stop(n *server) error {
	x.count(n)
	x.counts.stops++
	return n.Stop()
}

// count adds what the process of a node has counted, before it ends.
func (x *cell) count(n *server) {
	n.voids += x.metric(n, "parley_cluster_void_frames_total")
	n.takeovers += x.metric(n, "parley_cluster_takeovers_total")
}

// metric returns a counter of a node without labels, 0 if the node does not answer or has no such counter.
func (x *cell) metric(n *server, name string) int {
	res, err := http.Get(n.url() + "/metrics")
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			f, _ := strconv.ParseFloat(value, 64) // 0 if it is not a number
			return int(f)
		}
	}
	return 0
}

// printCounts prints what the load and the nodes have counted. Every node counts the void frames and takeovers that it reads, so
// the largest count is that of the node that was away least.
func (x *cell) printCounts() {
	voids, takeovers := 0, 0
	for _, n := range x.nodes {
		voids, takeovers = max(voids, n.voids), max(takeovers, n.takeovers)
	}
	fmt.Printf("faults %d  probes %d  unknown outcomes %d  takeovers %d  void frames %d  copies compared %d\n",
		len(x.faults), x.tries.Load(), x.unknown.Load(), takeovers, voids, x.copies)
}
