package main

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// readCounts adds what the process of a node has counted, before it ends.
func (n *node) readCounts() {
	n.voids += n.metric("parley_cluster_void_frames_total")
	n.takeovers += n.metric("parley_cluster_takeovers_total")
}

// metric returns a counter of a node without labels, 0 if the node does not answer or has no such counter.
func (n *node) metric(name string) int {
	cl := http.Client{Timeout: 5 * time.Second}
	res, err := cl.Get(n.url() + "/metrics")
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
func (x *clusterRun) printCounts(faults int) {
	voids, takeovers := 0, 0
	for _, n := range x.nodes {
		voids, takeovers = max(voids, n.voids), max(takeovers, n.takeovers)
	}
	fmt.Printf("faults %d  probes %d  unknown outcomes %d  takeovers %d  void frames %d  copies compared %d\n",
		faults, x.tries.Load(), x.unknown.Load(), takeovers, voids, x.copies)
}
