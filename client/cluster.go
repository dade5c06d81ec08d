package client

import (
	"context"
	"net/http"
)

// Cluster is what a server knows of the cluster that it is a node of.
type Cluster struct {
	Node       string             `json:"node"` // the server that answers
	Nodes      []ClusterNode      `json:"nodes"`
	Partitions []ClusterPartition `json:"partitions"`

	// Sync says when a majority has a write on disk: always before it is acknowledged, later ("interval", "never"), or unknown, if the
	// nodes use an external NATS server.
	Sync string `json:"sync"`
}

// ClusterNode is one server of a cluster.
type ClusterNode struct {
	ID      string `json:"id"`
	URL     string `json:"url"`
	Version string `json:"version"`
	Ready   bool   `json:"ready"`
	Behind  uint64 `json:"behind"` // positions that the node has not applied yet, in all partitions

	LagMS    int64  `json:"lag_ms"`          // for how long the node lacks what it is behind
	ClockMS  int64  `json:"clock_ms"`        // by how much its clock is ahead of that of the server that answers
	DiskFree int64  `json:"disk_free"`       // bytes; 0 if it is not known
	State    string `json:"state,omitempty"` // why the node is not ready or owns nothing, if it says so
}

// ClusterPartition is a part of the sessions. One node, its owner, decides their events.
type ClusterPartition struct {
	Partition int    `json:"partition"`
	Owner     string `json:"owner"` // "" while there is none
	Epoch     uint64 `json:"epoch"` // how often the owner has changed
	Position  uint64 `json:"position"`
	Synced    uint64 `json:"synced"`          // the position that is on the disk of the server that answers
	Leader    string `json:"leader"`          // the server that leads the log in JetStream; "" if it is not known
	Stored    int    `json:"stored"`          // servers that store the log and are current
	Bytes     int64  `json:"bytes"`           // of the log
	State     string `json:"state,omitempty"` // why the server that answers accepts no writes of these sessions
}

// Cluster returns the state of the cluster; it needs the scope admin. A server that is not a node of a cluster returns
// NotFound.
func (c *Client) Cluster(ctx context.Context) (st Cluster, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/cluster", safe: true}, &st)
	return st, err
}

// DrainNode gives the partitions of a node to others; it takes none until it is restarted. "" is the server that answers.
func (c *Client) DrainNode(ctx context.Context, node string) error {
	return c.do(ctx, call{method: http.MethodPost, path: "/cluster/drain", in: map[string]string{"node": node}, safe: true}, nil)
}

// ReplaceNode removes a node that is gone for good from the cluster, after another one has taken its place.
func (c *Client) ReplaceNode(ctx context.Context, old, fresh string) error {
	return c.do(ctx, call{method: http.MethodPost, path: "/cluster/replace", in: map[string]string{"old": old, "new": fresh}}, nil)
}

// ClusterCheck is the result of VerifyCluster.
type ClusterCheck struct {
	Nodes    []string `json:"nodes"`    // that were compared
	Missing  int      `json:"missing"`  // nodes that are not there
	Problems []string `json:"problems"` // one for each session that is not the same on all nodes
}

// ClusterRepair is what RepairCluster does, or would do.
type ClusterRepair struct {
	Partitions []PartitionRepair `json:"partitions"` // whose logs are shorter than what nodes have stored
	Missing    int               `json:"missing"`    // nodes that are not there
	Done       bool              `json:"done"`
}

// PartitionRepair is the repair of one partition.
type PartitionRepair struct {
	Partition int      `json:"partition"`
	LogEnd    uint64   `json:"log_end"`  // position at which the log ends
	Position  uint64   `json:"position"` // of the most advanced copy; the new log begins after it
	Epoch     uint64   `json:"epoch"`
	Best      string   `json:"best"`   // the node with that copy
	Same      []string `json:"same"`   // nodes with the same copy
	Behind    []string `json:"behind"` // nodes that copy the store of another one
	Apart     []string `json:"apart"`  // those of them that have stored something else, which is lost
	Renew     bool     `json:"renew"`  // false if the log is long enough again
}

// RepairCluster begins new logs for partitions whose logs have lost what was stored, after the most advanced copy, or after that of
// the node from if it is not "". Without apply it only says what it would do.
func (c *Client) RepairCluster(ctx context.Context, from string, apply bool) (r ClusterRepair, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/cluster/repair", in: map[string]any{"from": from, "apply": apply}}, &r)
	return r, err
}

// VerifyCluster compares the sessions of all nodes. It may take minutes if there are many.
func (c *Client) VerifyCluster(ctx context.Context) (check ClusterCheck, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/cluster/verify", safe: true}, &check)
	return check, err
}
