package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/terminal"
)

// describe adds to a heartbeat what other nodes show of this one.
func (p *parley) describe(h *cluster.Heartbeat) {
	h.Version, h.Ready = version, p.nodesReady() == nil
	h.Free, _ = journal.Free(p.cfg.Data) // some file systems do not report it
	if url := p.url.Load(); url != nil {
		h.URL = *url
	}
}

// silentNode is how long a silent node stays in the list.
const silentNode = time.Hour

// clusterStatus returns what this node knows of the cluster.
func (p *parley) clusterStatus(ctx context.Context) client.Cluster {
	res := client.Cluster{Node: p.node.Name()}
	if res.Sync = p.cfg.Sync; p.cfg.ClusterNATS != "" {
		res.Sync = "unknown"
	}
	own := cluster.Heartbeat{Node: p.node.Name(), Heard: time.Now()}
	p.node.About(&own)
	for _, st := range p.node.Status() {
		c := st.Copy
		part := client.ClusterPartition{Partition: st.Partition, Owner: c.Claim.Node, Epoch: c.Epoch, Position: uint64(c.Pos), Synced: uint64(st.Synced)}
		if st.Halted != nil {
			part.State = st.Halted.Error()
		}
		p.addLogStatus(ctx, &part)
		res.Partitions = append(res.Partitions, part)
		own.Pos = c.Pos
		all := append(slices.Clone(st.Peers), own)
		furthest := cluster.Pos(0)
		for _, h := range all {
			furthest = max(furthest, h.Pos)
		}
		for _, h := range all {
			if time.Since(h.Heard) > silentNode {
				continue
			}
			i := slices.IndexFunc(res.Nodes, func(n client.ClusterNode) bool { return n.ID == h.Node })
			if i < 0 {
				i = len(res.Nodes)
				res.Nodes = append(res.Nodes, p.nodeStatus(h))
			}
			res.Nodes[i].Behind += uint64(furthest - h.Pos)
			if h.Pos < furthest {
				res.Nodes[i].LagMS = max(res.Nodes[i].LagMS, p.node.Lag(st.Partition, h.Pos).Milliseconds())
			}
		}
	}
	for _, h := range p.member.others() { // nodes that do not follow the log yet send no heartbeats
		if !slices.ContainsFunc(res.Nodes, func(n client.ClusterNode) bool { return n.ID == h.Node }) {
			res.Nodes = append(res.Nodes, client.ClusterNode{ID: h.Node, State: h.State})
		}
	}
	sortNodes(&res)
	return res
}

// nodeStatus returns what a heartbeat says of a node.
func (p *parley) nodeStatus(h cluster.Heartbeat) client.ClusterNode {
	n := client.ClusterNode{ID: h.Node, URL: h.URL, Version: h.Version, Ready: h.Ready, DiskFree: int64(h.Free), ClockMS: p.node.ClockOf(h.Node).Milliseconds()}
	switch {
	case !p.node.Present(&h):
		n.Ready, n.State = false, "no heartbeat for "+time.Since(h.Heard).Round(time.Second).String()
	case h.Barred != "":
		n.State = "it owns no partitions: " + h.Barred
	}
	return n
}

// addLogStatus adds what JetStream says of the log of a partition, if it answers.
func (p *parley) addLogStatus(ctx context.Context, part *client.ClusterPartition) {
	log := p.clusterLog.Load()
	if log == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	st, err := log.Status(ctx, part.Partition)
	if err != nil {
		return
	}
	part.Leader, part.Bytes, part.Stored = st.Leader, int64(st.Bytes), len(st.Followers)
	if st.Leader != "" {
		part.Stored++
	}
}

func sortNodes(c *client.Cluster) {
	slices.SortFunc(c.Nodes, func(a, b client.ClusterNode) int { return strings.Compare(a.ID, b.ID) })
}

// ClusterStatusCmd shows the state of a cluster.
type ClusterStatusCmd struct {
	serverFlags `embed:""`
	JSON        bool `help:"The answer of the server as JSON."`
}

// Run prints two tables, or JSON.
func (c *ClusterStatusCmd) Run(ctx context.Context, std *stdio) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	st, err := cl.Cluster(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		b, err := json.Marshal(st)
		if err == nil {
			_, err = fmt.Fprintf(std.out, "%s\n", b)
		}
		return err
	}
	table := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tREADY\tBEHIND\tLAG\tCLOCK\tDISK FREE\tVERSION\tURL")
	for _, n := range st.Nodes {
		ready := map[bool]string{true: "yes", false: "no"}[n.Ready]
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%+d ms\t%s\t%s\t%s\n", terminal.Sanitize(n.ID), ready, n.Behind, time.Duration(n.LagMS)*time.Millisecond, n.ClockMS, terminal.Size(n.DiskFree), terminal.Sanitize(n.Version), terminal.Sanitize(n.URL))
	}
	for _, n := range st.Nodes {
		if n.State != "" {
			fmt.Fprintf(table, "%s: %s\n", terminal.Sanitize(n.ID), terminal.Sanitize(n.State))
		}
	}
	if st.Sync != "always" {
		fmt.Fprintln(table, map[bool]string{
			true:  "\nIt is not known whether acknowledged writes are on the disks of a majority.",
			false: "\nAcknowledged writes are not yet on the disks of a majority.",
		}[st.Sync == "unknown"])
	}
	fmt.Fprintln(table, "\nPARTITION\tOWNER\tEPOCH\tPOSITION\tSYNCED\tLEADER OF THE LOG\tSTORED BY\tBYTES")
	for _, p := range st.Partitions {
		fmt.Fprintf(table, "%d\t%s\t%d\t%d\t%d\t%s\t%d\t%s\n", p.Partition, terminal.Sanitize(p.Owner), p.Epoch, p.Position, p.Synced, terminal.Sanitize(p.Leader), p.Stored, terminal.Size(p.Bytes))
	}
	for _, p := range st.Partitions {
		if p.State != "" {
			fmt.Fprintf(table, "partition %d accepts no writes: %s; see parley cluster repair\n", p.Partition, terminal.Sanitize(p.State))
		}
	}
	return table.Flush()
}
