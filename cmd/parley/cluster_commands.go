package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/cluster/datafolder"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/terminal"
)

// ClusterInitCmd converts the data folder of a single server into that of the first node of a cluster.
type ClusterInitCmd struct {
	Data string `required:"" help:"Data folder of a single server that is stopped, or of a restored backup." placeholder:"DIR" type:"path"`
}

// Run converts the folder. If it is killed, the folder still belongs to a single server. Run the command again.
func (c *ClusterInitCmd) Run(ctx context.Context, std *stdio) (err error) {
	if m, there, err := datafolder.New(c.Data).Membership(); err != nil {
		return err
	} else if there {
		return fmt.Errorf("%s belongs to cluster %s already; to convert it to a single server, run: parley cluster leave --data %s", c.Data, m.Cluster, c.Data)
	}
	s, err := openStopped(c.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	files, err := s.nameFiles(ctx)
	if err != nil {
		return fmt.Errorf("store the names of the files: %w", err)
	}
	if err := errors.Join(s.journal.ResetCopies(), s.removeNATS()); err != nil {
		return err
	}
	id := newClusterID()
	if err := s.folder.SetMembership(datafolder.Membership{Cluster: id}); err != nil {
		return err
	}
	fmt.Fprintf(std.err, "%s is the first data folder of cluster %s (%s). Start this node and the others, whose folders must be empty: they copy it. Start it with parley serve --data %s --cluster-listen … --cluster-peers …\n",
		c.Data, id, terminal.Count(files, "file", "files"), c.Data)
	return nil
}

// ClusterLeaveCmd converts the data folder of a node into that of a single server.
type ClusterLeaveCmd struct {
	Data         string `required:"" help:"Data folder of a node that is stopped." placeholder:"DIR" type:"path"`
	WithoutFiles bool   `help:"Go on although bytes of files are on other nodes or in a bucket only. They are lost for this folder."`
}

// Run converts the folder. If it is killed, the folder still belongs to a node and some files may be unreadable. Run the
// command again.
func (c *ClusterLeaveCmd) Run(ctx context.Context, std *stdio) (err error) {
	m, there, err := datafolder.New(c.Data).Membership()
	switch {
	case err != nil:
		return err
	case !there:
		return fmt.Errorf("%s does not belong to a cluster", c.Data)
	case m.Cluster == "" || m.NeedsCopy != "":
		return fmt.Errorf("%s has no complete store: use the folder of another node, or start this node once so that it gets one", c.Data)
	}
	s, err := openStopped(c.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	missing, err := s.missingFiles(ctx)
	if err != nil {
		return err
	}
	if len(missing) > 0 && !c.WithoutFiles {
		for _, name := range missing {
			fmt.Fprintln(std.out, terminal.Sanitize(name))
		}
		if bucket, err := usedBucket(c.Data); err != nil || bucket != "" {
			return errors.Join(err, fmt.Errorf("the bytes of %s are in %s, which a single server does not use: leave them behind with --without-files", terminal.Count(len(missing), "file", "files"), bucket))
		}
		return fmt.Errorf("the bytes of %s are on other nodes only: read them through this node while the cluster runs, or leave them behind with --without-files", terminal.Count(len(missing), "file", "files"))
	}
	files, err := s.ownFiles(ctx)
	if err != nil {
		return fmt.Errorf("the names of the files: %w", err)
	}
	if err := errors.Join(s.journal.ResetCopies(), s.removeNATS(), removeNode(c.Data), os.RemoveAll(bucketFile(c.Data)), s.folder.RemoveMembership()); err != nil {
		return err
	}
	fmt.Fprintf(std.err, "%s is the data folder of a single server now, with %s. The other nodes still have their copies. Start it with parley serve --data %s\n",
		c.Data, terminal.Count(files, "file", "files"), c.Data)
	return nil
}

// ClusterDrainCmd gives the partitions of a node away.
type ClusterDrainCmd struct {
	serverFlags `embed:""`
	Node        string `arg:"" optional:"" help:"Id of the node; without it, the node at --url."`
}

// Run returns when other nodes own the partitions.
func (c *ClusterDrainCmd) Run(ctx context.Context, std *stdio) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := cl.DrainNode(ctx, c.Node); err != nil {
		return err
	}
	fmt.Fprintln(std.err, "the node owns no partitions now, and takes none until it is restarted; it still serves clients")
	return nil
}

// ClusterReplaceCmd removes a node that is gone.
type ClusterReplaceCmd struct {
	serverFlags `embed:""`
	Old         string `arg:"" help:"Id of the node that is gone for good. Its data folder must never be used again."`
	New         string `arg:"" help:"Id of the node that has taken its place, with an empty data folder and the same --cluster-listen."`
}

// Run returns when the node is removed.
func (c *ClusterReplaceCmd) Run(ctx context.Context, std *stdio) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := cl.ReplaceNode(ctx, c.Old, c.New); err != nil {
		return err
	}
	fmt.Fprintf(std.err, "%s is removed; %s stores the logs in its place within seconds\n", terminal.Sanitize(c.Old), terminal.Sanitize(c.New))
	return nil
}

// ClusterRepairCmd begins new logs for partitions.
type ClusterRepairCmd struct {
	serverFlags `embed:""`
	From        string `help:"Use the copies of this node, also where another one has stored more, which is lost." placeholder:"NODE"`
	Yes         bool   `help:"Do it. Without it the command only says what it would do, and what would be lost."`
}

// Run prints what is done about each partition.
func (c *ClusterRepairCmd) Run(ctx context.Context, std *stdio) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	r, err := cl.RepairCluster(ctx, c.From, c.Yes)
	if err != nil {
		return err
	}
	if len(r.Partitions) == 0 {
		fmt.Fprintln(std.out, "the logs have everything that the nodes have stored; there is nothing to repair")
		return nil
	}
	for _, p := range r.Partitions {
		fmt.Fprint(std.out, terminal.Sanitize(describeRepair(p)))
	}
	if r.Missing > 0 {
		fmt.Fprintf(std.out, "%s not there. What only they have stored is lost: start them first if you can. One that has stored more than the others must copy afterwards: stop it, remove its folder store, start it.\n",
			terminal.Count(r.Missing, "node is", "nodes are"))
	}
	if !r.Done {
		return errors.New("nothing was changed. To do this: parley cluster repair --yes")
	}
	fmt.Fprintln(std.err, "done; check with: parley cluster verify")
	return nil
}

// describeRepair says what a repair does about a partition, in several lines.
func describeRepair(p client.PartitionRepair) string {
	var b strings.Builder
	if !p.Renew {
		fmt.Fprintf(&b, "partition %d: the log ends at position %d and is long enough again; the nodes go on reading it\n", p.Partition, p.LogEnd)
		return b.String()
	}
	fmt.Fprintf(&b, "partition %d: the log ends at position %d, and node %s has stored position %d of epoch %d. A new log begins after that position.\n", p.Partition, p.LogEnd, p.Best, p.Position, p.Epoch)
	fmt.Fprintf(&b, "  the same is stored by: %s\n", strings.Join(p.Same, ", "))
	if len(p.Behind) > 0 {
		fmt.Fprintf(&b, "  these copy the store of another node: %s\n", strings.Join(p.Behind, ", "))
	}
	if len(p.Apart) > 0 {
		fmt.Fprintf(&b, "  lost: what these have stored and %s has not: %s\n", p.Best, strings.Join(p.Apart, ", "))
	} else {
		fmt.Fprintf(&b, "  nothing is lost that these nodes have stored\n")
	}
	return b.String()
}

// ClusterVerifyCmd compares the nodes.
type ClusterVerifyCmd struct {
	serverFlags `embed:""`
	JSON        bool `help:"The answer of the server as JSON."`
}

// Run prints one line for each session that is not the same on all nodes.
func (c *ClusterVerifyCmd) Run(ctx context.Context, std *stdio) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	check, err := cl.VerifyCluster(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		b, err := json.Marshal(check)
		if err != nil {
			return err
		}
		fmt.Fprintf(std.out, "%s\n", b)
	} else {
		for _, line := range check.Problems {
			fmt.Fprintln(std.out, terminal.Sanitize(line))
		}
	}
	switch {
	case len(check.Problems) > 0:
		return fmt.Errorf("%s: nodes %s differ. Find out with parley verify which node is right; to make another one copy it, stop that node, remove its folder store and start it",
			terminal.Count(len(check.Problems), "session", "sessions"), strings.Join(check.Nodes, ", "))
	case check.Missing > 0:
		return fmt.Errorf("nodes %s have the same sessions; %s could not be compared, because it is not there", strings.Join(check.Nodes, ", "), terminal.Count(check.Missing, "node", "nodes"))
	}
	if !c.JSON {
		fmt.Fprintf(std.out, "nodes %s have the same sessions\n", strings.Join(check.Nodes, ", "))
	}
	return nil
}
