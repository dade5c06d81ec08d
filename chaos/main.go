// Command chaos repeatedly kills a Parley server under load, damages copies of its
// data folder, and counts the failures:
//
//	kills          how often the server process was killed
//	acknowledged   events, files and erasures whose request was answered
//	lost           acknowledged, but missing or different afterwards
//	doubled        stored twice under one client_id, or a turn that ended twice
//	stuck          turns that did not end after the last start
//	left           erased texts that are still found in the data folder
//	silent         damaged files after which data was missing without a report
//
// With -cluster it kills, stops, pauses and cuts off the nodes of a cluster in turns, damages a file of a store and
// replaces a node whose disk is lost, while clients write and read through all of them, and clients of all dialects hold conversations
// (talks.go). Then lost includes copies of the nodes that differ and conversations that the log has otherwise than they were held, left searches the folders of all nodes, and
//
//	noticed        what a client of a dialect saw that is more than a pause
//
// For each dialect it prints what its clients did, how often they went on at another node, and the longest time without progress;
// for each kind of fault:
//
//	pause          the longest time without an acknowledgement of a partition through the nodes that it did not touch
//	back           from its end until all nodes acknowledge in all partitions
//
// It ends with exit code 1 when one of lost to silent is not zero, with -strict also when noticed is not zero. The same seed
// gives the same choices, but not the same interleaving.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// campaign is one run.
type campaign struct {
	binary string
	dir    string // everything that the run writes
	data   string // the server's data folder
	keep   bool   // do not remove dir
	first  int    // the first fault of a cluster
	kill   time.Duration
	damage time.Duration
	seed   uint64
	random *rand.Rand
	counts counts
}

// counts is what a run has seen.
type counts struct {
	kills, stops, acknowledged           int
	lost, doubled, stuck, left           int
	damaged, refused, reported, harmless int
	silent, noticed                      int
	failures                             []string // a sentence for each of the bad ones, at most maxFailures
}

const maxFailures = 50

func (c *counts) fail(counter *int, format string, args ...any) {
	*counter++
	if len(c.failures) < maxFailures {
		c.failures = append(c.failures, fmt.Sprintf(format, args...))
	}
}

func (c *counts) bad() int { return c.lost + c.doubled + c.stuck + c.left + c.silent }

func main() {
	c := &campaign{}
	span := flag.Duration("for", time.Minute, "length of the whole run: two thirds kills, one third damage")
	nodes := flag.Bool("cluster", false, "disturb a cluster of three nodes instead of one server: kill, pause, stop, cut off, damage and replace its nodes")
	first := flag.Int("first", 0, "with -cluster: the fault to begin with, by its place in the list of faults")
	strict := flag.Bool("strict", false, "with -cluster: end with exit code 1 also when a client of a dialect noticed more than a pause")
	flag.BoolVar(&c.keep, "keep", false, "keep the folder of the run; with -cluster it is also kept when the work did not end")
	flag.StringVar(&c.binary, "parley", "bin/parley", "the parley binary")
	flag.Uint64Var(&c.seed, "seed", uint64(time.Now().UnixNano()), "seed of all random choices")
	flag.Parse()
	c.first = *first
	c.kill, c.damage = *span*2/3, *span/3
	c.random = rand.New(rand.NewPCG(c.seed, 1))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := c.run(ctx, *nodes, *span)
	c.print()
	if c.keep {
		fmt.Println("kept", c.dir)
	} else {
		err = errors.Join(err, os.RemoveAll(c.dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
	if err != nil || c.counts.bad() > 0 || *strict && c.counts.noticed > 0 {
		os.Exit(1)
	}
}

func (c *campaign) run(ctx context.Context, nodes bool, span time.Duration) (err error) {
	if c.binary, err = filepath.Abs(c.binary); err != nil {
		return err
	}
	if c.dir, err = os.MkdirTemp("", "parley-chaos-"); err != nil {
		return err
	}
	c.data = filepath.Join(c.dir, "data")
	if nodes {
		return c.cluster(ctx, span)
	}
	if err := c.kills(ctx); err != nil {
		return err
	}
	return c.damages(ctx)
}

func (c *campaign) print() {
	n := &c.counts
	fmt.Printf("seed %d\n", c.seed)
	fmt.Printf("kills %d  orderly stops %d  acknowledged %d  lost %d  doubled %d  stuck %d  left %d\n",
		n.kills, n.stops, n.acknowledged, n.lost, n.doubled, n.stuck, n.left)
	if n.noticed > 0 {
		fmt.Printf("noticed by clients %d\n", n.noticed)
	}
	fmt.Printf("damaged %d  refused %d  reported %d  harmless %d  silent %d\n", n.damaged, n.refused, n.reported, n.harmless, n.silent)
	if len(n.failures) > 0 {
		fmt.Println("- " + strings.Join(n.failures, "\n- "))
	}
}
