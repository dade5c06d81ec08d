// Command bench measures Parley against bare Pebble and against a small
// centrifuge server, row by row of docs/benchmarks.md, and prints a table.
//
// Servers run as other processes; this process makes the load. Trials alternate between Parley and its peer, so that other
// load on the machine affects both, and medians of the trials are compared.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
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

// row is one line or a few of the table.
type row struct {
	number int
	name   string
	run    func(*env) ([]line, error)
}

var rows = []row{
	{1, "append in-process", appendInProcess},
	{2, "append over HTTP, one by one", appendHTTP},
	{3, "append arrays and over WebSocket", appendMany},
	{4, "fan-out to 1000", fanOut1000},
	{5, "fan-out to 100, 8 writers", fanOut100},
	{6, "previews", previews},
	{7, "publish to seen", quiet},
	{8, "resume storm", storm},
	{9, "last 1000 events", history},
	{10, "memory", memory},
	{11, "open a long session", openLong},
	{12, "start with a million sessions", startFull},
	{13, "model agent", modelAgent},
	{14, "append with x1 on", appendX1},
	{15, "Vertesia runs", vertesiaRuns},
	{16, "runs of pages", pageRuns},
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == peerFlag {
		fail(servePeer(os.Args[2]))
		return
	}
	if len(os.Args) == 4 && os.Args[1] == bareFlag {
		fail(serveBare(os.Args[2], os.Args[3]))
		return
	}
	e := &env{}
	only := flag.String("row", "", "numbers of the rows to run, separated by commas; all when empty")
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
	fail(run(e, *only))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(e *env, only string) (err error) {
	if e.temp, err = os.MkdirTemp("", "parley-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(e.temp)
	want := map[int]bool{}
	for s := range strings.SplitSeq(only, ",") {
		if s = strings.TrimSpace(s); s != "" {
			n, err := strconv.Atoi(s)
			if err != nil || n < 1 || n > len(rows) {
				return fmt.Errorf("there is no row %q", s)
			}
			want[n] = true
		}
	}
	fmt.Printf("%s, load %s\n\n", time.Now().UTC().Format("2006-01-02 15:04 MST"), loadAverage())
	fmt.Println(header)
	var failed error
	for _, r := range rows {
		if len(want) > 0 && !want[r.number] {
			continue
		}
		lines, err := r.run(e)
		for _, l := range lines {
			fmt.Println(l.markdown(r.number))
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
