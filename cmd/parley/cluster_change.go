package main

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/cluster/node"
	"github.com/parley-hq/parley/internal/edge"
)

// changeTime is how long a change of the cluster may take.
const changeTime = 30 * time.Second

// clusterChange is the body of a request that changes the cluster.
type clusterChange struct {
	Node  string `json:"node"`
	Old   string `json:"old"`
	New   string `json:"new"`
	From  string `json:"from"`
	Apply bool   `json:"apply"`
}

func readChange(x *edge.HTTP, r *http.Request) (q clusterChange, err error) {
	b, err := x.Body(r)
	if err == nil {
		err = edge.Decode(b, &q)
	}
	return q, err
}

// replaceNode removes a node that is gone for good, so that the logs are stored by the one that has taken its place. It is refused
// unless all nodes of the cluster are there and current without it: removing a server while another one is missing can lose the
// majority.
func (p *parley) replaceNode(ctx context.Context, old, fresh string) error {
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	server := p.natsServer.Load()
	if server == nil || p.cfg.ClusterNATS != "" {
		return chat.Errorf(chat.Unavailable, "the logs are stored by an external NATS cluster: its servers are changed there, and nodes need no replacement")
	}
	if old == "" || fresh == "" || old == fresh {
		return chat.Errorf(chat.Invalid, "name the node that is gone and the one that has taken its place")
	}
	st := p.clusterStatus(ctx)
	if n := slices.IndexFunc(st.Nodes, func(n client.ClusterNode) bool { return n.ID == old }); n >= 0 && !lostNode(p, old) {
		return chat.Errorf(chat.Conflict, "node %s is still there: stop it first, and never start it again with its old data folder", old)
	}
	current := 0
	for _, n := range st.Nodes {
		if n.Ready && n.Behind < 1000 {
			current++
		} else if n.ID == fresh {
			return chat.Errorf(chat.Conflict, "node %s is not ready yet; wait until it has copied the store", fresh)
		}
	}
	if !slices.ContainsFunc(st.Nodes, func(n client.ClusterNode) bool { return n.ID == fresh }) {
		return chat.Errorf(chat.NotFound, "node %s is not there", fresh)
	}
	if current < len(p.member.peers) {
		return chat.Errorf(chat.Conflict, "only %d of %d nodes are ready: nodes are replaced when all others are there", current, len(p.member.peers))
	}
	if err := server.RemoveNode(ctx, old); err != nil {
		return chat.Errorf(chat.Unavailable, "node %s could not be removed: %s", old, err)
	}
	p.log.Info("a node was replaced", "old", old, "new", fresh)
	p.node.Forget(ctx, old)
	return nil
}

// lostNode reports whether a node is not heard any more.
func lostNode(p *parley, name string) bool {
	for _, h := range p.member.others() {
		if h.Node == name {
			return false
		}
	}
	for _, st := range p.node.Status() {
		for _, h := range st.Peers {
			if h.Node == name && time.Since(h.Heard) < 2*node.Silence { // longer than for other uses: the node must not come back
				return false
			}
		}
	}
	return true
}

// compareNodes compares the sessions of all nodes.
func (p *parley) compareNodes(ctx context.Context) (client.ClusterCheck, error) {
	res, err := p.node.Compare(ctx)
	if err != nil {
		return client.ClusterCheck{}, chat.Errorf(chat.Unavailable, "the nodes could not be compared: %s", err)
	}
	return client.ClusterCheck{Nodes: res.Nodes, Missing: max(0, len(p.member.peers)-len(res.Nodes)), Problems: append([]string{}, res.Differ...)}, nil
}

// repairCluster begins new logs for the partitions whose logs are too short, or says what it would do.
func (p *parley) repairCluster(ctx context.Context, from string, apply bool) (client.ClusterRepair, error) {
	res := client.ClusterRepair{Partitions: []client.PartitionRepair{}, Missing: max(0, len(p.member.peers)-1-p.node.CountPresent()), Done: apply}
	list, err := p.node.Repair(ctx, len(p.member.peers), from, apply)
	for _, r := range list {
		res.Partitions = append(res.Partitions, client.PartitionRepair{
			Partition: r.Partition, LogEnd: uint64(r.Last), Position: uint64(r.Copy.Pos), Epoch: r.Copy.Epoch, Best: r.Best,
			Same: append([]string{}, r.Same...), Behind: append([]string{}, r.Behind...), Apart: append([]string{}, r.Apart...), Renew: r.Renew,
		})
	}
	return res, err
}
