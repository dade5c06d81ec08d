// Command natslog tests the log of a cluster: three processes, each with an embedded NATS server and a cluster.Log over
// JetStream, connected through proxies. Writers append numbered frames through every node while one node, or all, are killed,
// paused and cut off in turns. It counts:
//
//	appends        calls of Append
//	acknowledged   appends that returned nil
//	unknown        appends that failed; stored is how many of them are in the log
//	lost           acknowledged, but not in the log
//	doubled        in the log twice
//	disordered     acknowledged before another append began, but behind it in the log
//	differing      entries that a reader got otherwise than another reader, or with a hole or a repeat before them
//	pause          the longest time without an acknowledgement through the nodes that a fault did not touch: p50 and max
//	back           from the end of a fault until every node acknowledges again: p50 and max
//	stuck          pauses and returns of more than a minute
//
// With -replicas the nodes run replicas over the log, and writers commit records through the owner of a partition. Then there
// are also:
//
//	refused        certainly not applied: the node was not the owner, or lost the partition
//	wrong          refused, but applied
//	epochs, void   claims that counted, and frames that did not
//
// and lost includes records that were acknowledged at another position, differing copies of nodes that are not equal.
//
// It ends with exit code 1 when lost, doubled, disordered, differing, wrong or stuck is not zero. The same seed gives the same
// faults, but not the same interleaving.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"time"

	"github.com/parley-hq/parley/chaos/faults"
)

const nodeCount = faults.NodeCount

// campaign is one run.
type campaign struct {
	span     time.Duration
	parts    int
	pace     time.Duration
	replicas bool
	dir      string
	random   *rand.Rand

	nodes  [nodeCount]*node
	links  *faults.Links
	record *record
	faults *faults.Faults
}

func main() {
	c := &campaign{}
	child := flag.String("node", "", "internal: be the node that the JSON describes")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of all random choices")
	keep := flag.Bool("keep", false, "keep the folder of the run")
	flag.DurationVar(&c.span, "for", time.Minute, "length of the run")
	flag.IntVar(&c.parts, "partitions", 3, "number of streams")
	flag.DurationVar(&c.pace, "pace", 20*time.Millisecond, "pause of a writer after each append")
	flag.BoolVar(&c.replicas, "replicas", false, "commit through replicas")
	flag.StringVar(&c.dir, "dir", "", "folder of the run; a temporary one if empty")
	flag.Parse()
	if *child != "" {
		if err := serveNode(*child); err != nil {
			fmt.Fprintln(os.Stderr, "node:", err)
			os.Exit(1)
		}
		return
	}
	c.random = rand.New(rand.NewPCG(*seed, 1))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fmt.Printf("seed %d\n", *seed)
	err := c.run(ctx)
	if !*keep {
		err = errors.Join(err, os.RemoveAll(c.dir))
	}
	bad := c.print()
	if err != nil {
		fmt.Fprintln(os.Stderr, "natslog:", err)
	}
	if err != nil || bad {
		os.Exit(1)
	}
}

func (c *campaign) run(ctx context.Context) (err error) {
	if c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "parley-natslog-"); err != nil {
			return err
		}
	}
	c.record = newRecord(c.parts, c.replicas)
	if err := c.startAll(); err != nil {
		return err
	}
	defer c.stopAll()
	c.faults = c.newFaults()
	run, cancel := context.WithCancel(ctx)
	l := c.startLoad(run)
	if err = c.faults.WaitBack(ctx); err == nil {
		err = c.faults.Run(ctx, c.span)
	}
	cancel()
	l.wait()
	if err != nil {
		return err
	}
	return c.settle(ctx)
}

func (c *campaign) print() (bad bool) {
	if c.faults == nil {
		return true
	}
	n := c.record.check()
	fmt.Printf("appends %d  acknowledged %d  unknown %d (stored %d)  lost %d  doubled %d  disordered %d  differing %d\n",
		n.appends, n.acknowledged, n.unknown, n.unknownStored, n.lost, n.doubled, n.disordered, n.differing)
	if c.replicas {
		fmt.Printf("refused %d  wrong %d  frames %d  epochs %d  void %d\n", n.refused, n.wrong, n.frames, n.epochs, n.void)
	}
	count, stuck := c.faults.Print()
	fmt.Printf("faults %d  stuck %d\n", count, stuck)
	for _, s := range c.record.complaints {
		fmt.Println("- " + s)
	}
	return n.lost+n.doubled+n.disordered+n.differing+n.wrong+stuck > 0
}
