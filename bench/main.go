// Command bench measures Parley beside other servers, row by row of docs/benchmarks.md, and prints a table.
//
// Servers run as other processes; this process makes the load. Trials alternate between the servers, so that other load on
// the machine affects all of them, and medians of the trials are compared.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// env has the settings of a run.
type env struct {
	ctx    context.Context
	binary string // the parley binary
	temp   string
	store  string // folder of the store with a million sessions
	trials int
	span   time.Duration // of one trial
	short  bool
	prof   string // folder for CPU profiles of the server; "" means none
}

// row is a number of docs/benchmarks.md.
type row struct {
	number int
	name   string
	run    func(*env) ([]*result, error)
}

var rows = []row{
	{1, "pieces to 500 sessions", pieces(500)},
	{2, "pieces to 2000 sessions", pieces(2000)},
	{3, "one durable event per request", appendOne},
	{4, "append in-process", appendInProcess},
	{5, "fan-out to 100 readers", fanOut100},
	{6, "fan-out to 1000 readers, paced", fanOutPaced(1000)},
	{7, "5000 readers come back", comeBack(5000)},
	{8, "last 1000 events", lastEvents},
	{9, "conversations through a model agent", conversations},
	{10, "idle memory", idleMemory},
	{11, "append arrays, and without waiting", appendMany},
	{12, "fan-out at full speed", fanOutFull},
	{13, "publish to seen", seen},
	{14, "one answer of a model agent", modelAgent},
	{15, "append with x1 on", appendX1},
	{16, "readers of other dialects", dialectRuns},
	{17, "open a long session", openLong},
	{18, "start with a million sessions", startFull},
	{19, "append in the process of the owner", appendAtOwner},
	{19, "append in a cluster", appendInCluster},
	{20, "read in a cluster", readInCluster},
	{21, "an idle node", idleInCluster},
}

// scale has the rows whose size matters, with other sizes.
var scale = []row{
	{1, "", pieces(10)}, {1, "", pieces(100)}, {1, "", pieces(500)}, {2, "", pieces(2000)}, {2, "", pieces(5000)},
	{6, "", fanOutPaced(10)}, {6, "", fanOutPaced(100)}, {6, "", fanOutPaced(1000)}, {6, "", fanOutPaced(10000)},
	{7, "", comeBack(100)}, {7, "", comeBack(1000)}, {7, "", comeBack(10000)},
	{22, "stored sessions", storedSessions}, {23, "stored events", storedEvents}, {24, "idle readers", idleReaders}, {25, "size in a cluster", scaleInCluster},
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == centrifugeFlag {
		fail(serveCentrifuge(os.Args[2]))
		return
	}
	if len(os.Args) == 6 && os.Args[1] == nodeFlag {
		fail(serveNode(os.Args[2], os.Args[3], os.Args[4], os.Args[5]))
		return
	}
	if len(os.Args) == 5 && os.Args[1] == replicaFlag {
		fail(serveReplica(os.Args[2], os.Args[3], os.Args[4]))
		return
	}
	if serve, ok := map[string]func(dir, addr string) error{bareFlag: serveBare, pebbleFlag: servePebble, natsFlag: serveNATS}[os.Args[min(1, len(os.Args)-1)]]; ok && len(os.Args) == 4 {
		fail(serve(os.Args[2], os.Args[3]))
		return
	}
	e := &env{}
	only := flag.String("row", "", "numbers of the rows to run, separated by commas; all when empty")
	name := flag.String("name", "", "run only the rows whose name contains this text")
	sizes := flag.Bool("scale", false, "run the rows whose size matters with sizes from 10 to 10000")
	flag.BoolVar(&e.short, "short", false, "one short trial each, to check that everything works")
	flag.StringVar(&e.binary, "parley", "bin/parley", "the parley binary")
	flag.StringVar(&e.store, "store", filepath.Join(os.TempDir(), "parley-bench-store"), "folder of the store with a million sessions, which is built once and kept")
	flag.IntVar(&e.trials, "trials", 3, "trials of each kind")
	flag.DurationVar(&e.span, "span", 2*time.Second, "length of a trial")
	flag.StringVar(&e.prof, "profile", "", "folder for CPU profiles of the server, one per trial")
	flag.Parse()
	if e.short {
		e.trials, e.span = 1, 500*time.Millisecond
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	e.ctx = ctx
	if *sizes {
		rows = scale
	}
	fail(run(e, *only, *name))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(e *env, only, name string) (err error) {
	if e.temp, err = os.MkdirTemp("", "parley-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(e.temp)
	want := map[int]bool{}
	for s := range strings.SplitSeq(only, ",") {
		if s = strings.TrimSpace(s); s != "" {
			n, err := strconv.Atoi(s)
			if err != nil || !slices.ContainsFunc(rows, func(r row) bool { return r.number == n }) {
				return fmt.Errorf("there is no row %q", s)
			}
			want[n] = true
		}
	}
	fmt.Printf("%s, load %s\n\n", time.Now().UTC().Format("2006-01-02 15:04 MST"), loadAverage())
	for _, s := range []*system{parley, centrifuge, redis, nats, bare} {
		if !s.there() {
			fmt.Printf("**%s**\n\n", s.missing())
		}
	}
	fmt.Println(header)
	var failed error
	for _, r := range rows {
		if len(want) > 0 && !want[r.number] || !strings.Contains(r.name, name) {
			continue
		}
		results, err := r.run(e)
		for _, res := range results {
			fmt.Print(res.markdown(r.number))
		}
		if err != nil {
			// The other rows are still run.
			failed = errors.Join(failed, fmt.Errorf("row %d (%s): %w", r.number, r.name, err))
		}
		if e.ctx.Err() != nil {
			break
		}
	}
	return failed
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}
