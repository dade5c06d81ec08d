package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/parley-hq/parley/chaos/faults"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/serverprocess"
	"github.com/parley-hq/parley/internal/sleep"
)

const partitions = 3

// clusterRun disturbs three servers that keep the same sessions.
type clusterRun struct {
	*campaign
	links  *faults.Links
	nodes  [faults.NodeCount]*node
	load   *load
	talks  *talks
	acks   *faults.Acks
	copies int

	tries, unknown atomic.Int64 // writes of probes, and those whose answer was lost
}

// node is a node of the cluster.
type node struct {
	location
	run  *clusterRun
	args []string
	id   string
	*serverprocess.Process

	voids, takeovers int // of the processes that have ended
}

// cluster runs the load on a cluster, and one fault after the other, until the time is over.
func (c *campaign) cluster(ctx context.Context, span time.Duration) error {
	x := &clusterRun{campaign: c, acks: faults.NewAcks(partitions)}
	defer x.end()
	if err := x.start(ctx); err != nil {
		return err
	}
	var urls, nats []string
	for _, n := range x.nodes {
		urls, nats = append(urls, n.url()), append(nats, n.nats)
	}
	cl, err := connect(urls...)
	if err != nil {
		return err
	}
	defer cl.Close()
	x.load, x.talks = newLoad(cl), newTalks(cl, urls, nats, x.dir)
	ctx, cancel := context.WithCancel(ctx)
	ends, stop := context.WithCancel(ctx)
	defer stop()
	var working, reading sync.WaitGroup
	defer reading.Wait()
	defer working.Wait()
	defer cancel()
	if err := x.load.start(ctx, ends, &working, &reading); err != nil {
		return err
	}
	if err := x.startProbes(ctx, ends, &working); err != nil {
		return err
	}
	x.talks.start(ctx, ends, &working)
	disturb := x.newFaults()
	if err := disturb.WaitBack(ctx); err != nil {
		return err
	}
	if err := disturb.Run(ctx, span); err != nil {
		return err
	}
	stop()
	ended := make(chan struct{})
	go func() { working.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(settle):
		c.counts.fail(&c.counts.stuck, "the work did not end within %s after the last fault", settle)
		if err := x.saveStacks(); err != nil {
			return err
		}
	}
	if err := x.check(ctx); err != nil {
		return err
	}
	x.talks.print()
	count, _ := disturb.Print()
	x.printCounts(count)
	return nil
}

// start starts the nodes, each in its own folder, connected through proxies.
func (x *clusterRun) start(ctx context.Context) (err error) {
	secret := filepath.Join(x.dir, "secret")
	if err := os.WriteFile(secret, []byte("the secret of a cluster that is disturbed on purpose"), 0o600); err != nil {
		return err
	}
	if x.links, err = faults.NewLinks(); err != nil {
		return err
	}
	listen := x.links.Listen()
	for i := range x.nodes {
		at, err := newLocation(filepath.Join(x.data, fmt.Sprint("n", i)))
		if err != nil {
			return err
		}
		x.nodes[i] = &node{run: x, location: at}
	}
	// Nodes begin a cluster with one list of addresses. Through the proxies each of them has its own list.
	for _, peers := range []func(i int) []string{func(int) []string { return listen }, x.links.Peers} {
		for i, n := range x.nodes {
			if n.Process != nil {
				if err := n.Process.Stop(); err != nil {
					return err
				}
			}
			n.args = serverprocess.Serve(n.addr, n.data, "--nats", n.nats, "--grace", "2s", "--cluster-listen", listen[i],
				"--cluster-peers", strings.Join(peers(i), ","), "--cluster-secret-file", secret, "--cluster-log-age", "10m")
		}
		for _, n := range x.nodes {
			if err := n.Start(); err != nil {
				return err
			}
		}
		for _, n := range x.nodes {
			if err := x.ready(ctx, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// Start starts the process without waiting for it.
func (n *node) Start() (err error) {
	if err := n.saveOutput(); err != nil {
		return err
	}
	n.Process, err = serverprocess.StartAt(n.addr, n.run.binary, n.args...)
	return err
}

// Kill kills the process.
func (n *node) Kill() {
	n.readCounts()
	n.run.counts.kills++
	n.Process.Kill()
}

// Stop stops the process in order.
func (n *node) Stop() error {
	n.readCounts()
	n.run.counts.stops++
	return n.Process.Stop()
}

// Pause stops the process, or continues it.
func (n *node) Pause(stopped bool) error {
	if stopped {
		return syscall.Kill(n.PID(), syscall.SIGSTOP)
	}
	return syscall.Kill(n.PID(), syscall.SIGCONT)
}

// saveOutput adds what the process of a node has printed to a file beside the node's folder.
func (n *node) saveOutput() error {
	if n.Process == nil {
		return nil
	}
	f, err := os.OpenFile(n.data+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, n.Output())
	return errors.Join(err, f.Close())
}

// ready waits until a node is ready and notes its id.
func (x *clusterRun) ready(ctx context.Context, n *node) error {
	_, ok, err := n.WaitReady(ctx, "/readyz")
	if err == nil && !ok {
		err = fmt.Errorf("a node did not start: %s", n.Output())
	}
	if err != nil {
		return err
	}
	res, err := http.Get(n.url() + "/readyz")
	if err != nil {
		return err
	}
	n.id = res.Header.Get("Parley-Node")
	return res.Body.Close()
}

func (x *clusterRun) end() {
	for _, n := range x.nodes {
		if n != nil && n.Process != nil {
			_ = n.Pause(false) // it may have ended
			n.Process.Kill()
			if err := n.saveOutput(); err != nil {
				fmt.Fprintln(os.Stderr, "chaos:", err)
			}
		}
	}
	if x.links != nil {
		_ = x.links.Close() // its listeners may be closed
	}
	if x.talks != nil && x.talks.saved > 0 && !x.keep {
		x.keep = true // the files of the conversations and what the nodes have printed, not the stores
		for _, n := range x.nodes {
			if err := os.RemoveAll(n.data); err != nil {
				fmt.Fprintln(os.Stderr, "chaos:", err)
			}
		}
	}
}

// startProbes starts a probe for each node and partition: it writes to a session of the partition through the node, again
// and again, and notes when it was acknowledged.
func (x *clusterRun) startProbes(ctx, ends context.Context, wg *sync.WaitGroup) error {
	for part := range partitions {
		id := sessionIn(part)
		if _, err := x.load.c.Create(ctx, client.NewSession{ID: id, Agent: chat.NoAgent}); err != nil {
			return err
		}
		for i, n := range x.nodes {
			// One attempt at a time, so that the time of an acknowledgement is that of this node.
			cl, err := client.New(client.Options{URL: n.url(), Retries: -1})
			if err != nil {
				return err
			}
			wg.Go(func() {
				defer cl.Close()
				x.probe(ctx, ends, cl, id, i, part)
			})
		}
	}
	return nil
}

// sessionIn returns an id that belongs to a partition.
func sessionIn(part int) chat.SessionID {
	for n := 0; ; n++ {
		if id := fmt.Sprintf("probe-%d-%d", part, n); cluster.PartitionOf(id, partitions) == part {
			return chat.SessionID(id)
		}
	}
}

func (x *clusterRun) probe(ctx, ends context.Context, cl *client.Client, id chat.SessionID, node, part int) {
	for i := 0; ends.Err() == nil; i++ {
		key := fmt.Sprintf("n%d-%d", node, i)
		err := again(ctx, func() error {
			once, cancel := context.WithTimeout(ctx, 20*time.Second)
			defer cancel()
			x.tries.Add(1)
			events, err := cl.Append(once, id, chat.NewDraft(chat.UserMessage{Text: "probe " + key}).As(key))
			if err == nil {
				x.load.acknowledge(id, key, events[0])
			} else if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
				err = client.ErrUnreachable
			}
			if errors.Is(err, client.ErrUnreachable) || chat.ReasonOf(err) == chat.OutcomeUnknown {
				x.unknown.Add(1)
			}
			return err
		})
		if err != nil {
			x.load.problem(fmt.Errorf("append %s to %s: %w", key, id, err))
			return
		}
		x.acks.Add(part, node)
		sleep.For(ends, 20*time.Millisecond)
	}
}

// newFaults prepares the faults of the cluster.
func (x *clusterRun) newFaults() *faults.Faults {
	opt := faults.Options{
		Links: x.links, Acks: x.acks, Random: x.random, MaxTime: 10 * time.Second, Role: "owner", Find: x.owner,
		First: x.first, Stop: func(node int) error { return x.nodes[node].Stop() },
		Own:   []faults.Own{{Kind: "damage", Do: x.damageStore}, {Kind: "lose disk", Do: x.loseDisk}},
		Stuck: func(format string, args ...any) { x.counts.fail(&x.counts.stuck, format, args...) },
	}
	for i, n := range x.nodes {
		opt.Nodes[i] = n
	}
	return faults.New(opt)
}

// owner returns the node that owns a partition, or instead if that is not known.
func (x *clusterRun) owner(ctx context.Context, part, instead int) int {
	st, err := x.load.c.Cluster(ctx)
	if err != nil {
		return instead
	}
	for i, n := range x.nodes {
		if n.id == st.Partitions[part].Owner {
			return i
		}
	}
	return instead
}

// check compares what the nodes have with what they acknowledged, and with each other.
func (x *clusterRun) check(ctx context.Context) error {
	if err := x.campaign.check(ctx, x.load); err != nil {
		return err
	}
	n := &x.counts
	var clients [faults.NodeCount]*client.Client
	for i, node := range x.nodes {
		cl, err := connect(node.url())
		if err != nil {
			return err
		}
		defer cl.Close()
		clients[i] = cl
	}
	for _, wrong := range x.talks.wrong {
		n.fail(&n.lost, "%s", wrong)
	}
	for _, problem := range x.talks.problems {
		n.fail(&n.noticed, "%s", problem)
	}
	for _, ids := range []iter.Seq[chat.SessionID]{maps.Keys(x.load.events), maps.Keys(x.talks.sessions)} {
		for id := range ids {
			if err := x.compare(ctx, clients, id); err != nil {
				return err
			}
		}
	}
	if out, err := exec.CommandContext(ctx, x.binary, "cluster", "verify", "--url", x.nodes[0].url()).CombinedOutput(); err != nil {
		n.fail(&n.lost, "cluster verify: %s", out)
	}
	for _, node := range x.nodes {
		if said, ok := x.verify(ctx, node.url()); !ok {
			n.fail(&n.lost, "verify reports damage on a node: %s", said)
		}
	}
	// A node that was away removes what was erased meanwhile. Then the log between the nodes is purged.
	before := *n
	for end := time.Now().Add(2 * time.Minute); ; sleep.For(ctx, time.Second) {
		*n = before
		if err := x.search(x.load); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if n.left == before.left || time.Now().After(end) || ctx.Err() != nil {
			break
		}
	}
	for _, node := range x.nodes {
		if x.counts.stuck > 0 {
			node.Quit()
		} else if err := node.Stop(); err != nil {
			return err
		}
	}
	return nil
}

// saveStacks writes what each goroutine of this process waits for to a file, and keeps the folder of the run.
func (x *clusterRun) saveStacks() error {
	x.keep = true
	f, err := os.Create(filepath.Join(x.dir, "stacks.txt"))
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("goroutine").WriteTo(f, 2), f.Close())
}

// compare compares the copies of a session.
func (x *clusterRun) compare(ctx context.Context, clients [faults.NodeCount]*client.Client, id chat.SessionID) error {
	var first []chat.Event
	for end := time.Now().Add(settle); ; sleep.For(ctx, 50*time.Millisecond) {
		equal := true
		for i, cl := range clients {
			events, err := readAll(ctx, cl, id)
			if err != nil {
				return err
			}
			if i == 0 {
				first = events
			}
			equal = equal && slices.EqualFunc(first, events, same)
		}
		if equal {
			x.copies += faults.NodeCount
			return nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			x.counts.fail(&x.counts.lost, "the copies of %s differ", id)
			return nil
		}
	}
}
