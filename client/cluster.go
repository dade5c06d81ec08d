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
}

// ClusterNode is one server of a cluster.
type ClusterNode struct {
	ID      string `json:"id"`
	URL     string `json:"url"`
	Version string `json:"version"`
	Ready   bool   `json:"ready"`
	Behind  uint64 `json:"behind"` // positions that the node has not applied yet, in all partitions
}

// ClusterPartition is a part of the sessions. One node, its owner, decides their events.
type ClusterPartition struct {
	Partition int    `json:"partition"`
	Owner     string `json:"owner"` // "" while there is none
	Epoch     uint64 `json:"epoch"` // how often the owner has changed
	Position  uint64 `json:"position"`
	Synced    uint64 `json:"synced"` // the position that is on the disk of the server that answers
}

// Cluster returns the state of the cluster; it needs the scope admin. A server that is not a node of a cluster returns
// NotFound.
func (c *Client) Cluster(ctx context.Context) (st Cluster, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/cluster", safe: true}, &st)
	return st, err
}
