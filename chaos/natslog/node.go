package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/parley-hq/parley/chaos/faults"
	"github.com/parley-hq/parley/internal/bus"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/cluster/natslog"
	"github.com/parley-hq/parley/internal/freeport"
	"github.com/parley-hq/parley/internal/json"
)

// settings of a node's process.
type settings struct {
	Name      string
	Dir       string
	Client    string // address of NATS
	Listen    string // for routes
	Advertise string
	Peers     []string
	HTTP      string
	Parts     int
	Number    int
	Replicas  bool // commit through replicas
}

// node is a node as the main process sees it.
type node struct {
	settings
	cmd *exec.Cmd
	in  io.Closer // the node ends when it is closed
}

// startAll starts the proxies and the nodes.
func (c *campaign) startAll() (err error) {
	addr := func() (a string) {
		if err == nil {
			a, err = freeport.Find()
		}
		return a
	}
	if c.links, err = faults.NewLinks(); err != nil {
		return err
	}
	nowhere := addr() // servers must not learn addresses that bypass the proxies
	for i := range c.nodes {
		name := fmt.Sprint("n", i)
		c.nodes[i] = &node{settings: settings{
			Name: name, Dir: filepath.Join(c.dir, name), Client: addr(), Listen: c.links.Listen()[i], Advertise: nowhere, HTTP: addr(), Parts: c.parts, Number: i, Replicas: c.replicas,
		}}
	}
	if err != nil {
		return err
	}
	for i, n := range c.nodes {
		n.Peers = c.links.Peers(i)
		if err := n.Start(); err != nil {
			return err
		}
	}
	return nil
}

func (c *campaign) stopAll() {
	for _, n := range c.nodes {
		if n != nil {
			n.Kill()
		}
	}
	if c.links != nil {
		c.links.Close()
	}
}

// Start starts the process.
func (n *node) Start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		return err
	}
	b, err := json.Marshal(n.settings)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(n.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	n.cmd = exec.Command(self, "-node", string(b))
	n.cmd.Stdout, n.cmd.Stderr = out, out
	if n.in, err = n.cmd.StdinPipe(); err != nil {
		return err
	}
	return n.cmd.Start()
}

// Kill ends the process at once, also if it is paused.
func (n *node) Kill() {
	if n.cmd == nil || n.cmd.Process == nil {
		return
	}
	_ = n.cmd.Process.Kill() // it may have ended
	_ = n.in.Close()
	_ = n.cmd.Wait() // "signal: killed"
	n.cmd = nil
}

// Pause stops the process, or continues it.
func (n *node) Pause(stopped bool) error {
	if stopped {
		return n.cmd.Process.Signal(syscall.SIGSTOP)
	}
	return n.cmd.Process.Signal(syscall.SIGCONT)
}

// newFaults prepares the faults of the cluster.
func (c *campaign) newFaults() *faults.Faults {
	opt := faults.Options{
		Links: c.links, Acks: c.record.acks, Random: c.random, MaxTime: 15 * time.Second, Role: "leader", Find: c.leader,
		OneIsEnough: c.replicas, // writers commit through the owner
		Stuck:       c.record.complain,
	}
	for i, n := range c.nodes {
		opt.Nodes[i] = n
	}
	return faults.New(opt)
}

// leader returns the node that leads a partition, or instead if there is none.
func (c *campaign) leader(ctx context.Context, part, instead int) int {
	ctx, cancel := context.WithTimeout(ctx, appendLimit)
	defer cancel()
	var out []byte
	if err := request(ctx, http.MethodGet, fmt.Sprintf("http://%s/leader?part=%d", c.nodes[instead].HTTP, part), nil, &out); err != nil {
		return instead
	}
	for i, n := range c.nodes {
		if n.Name == string(out) {
			return i
		}
	}
	return instead
}

// serveNode is a node's process. It ends when its standard input does.
func serveNode(description string) error {
	var s settings
	if err := json.Unmarshal([]byte(description), &s); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	secret, err := cluster.ParseSecret([]byte("the secret of a cluster that is only a test"))
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	server, err := bus.Start(ctx, bus.Options{Addr: s.Client, Dir: filepath.Join(s.Dir, "nats"), Logger: logger, Cluster: &bus.Cluster{
		Name: "chaos", Node: s.Name, Listen: s.Listen, Advertise: s.Advertise, Peers: s.Peers, Key: secret.Key("nats routes"),
	}})
	if err != nil {
		return err
	}
	conn, err := server.ConnectNodes("chaos")
	if err != nil {
		return err
	}
	log, err := natslog.Open(ctx, conn, natslog.Options{Cluster: "chaos", Partitions: s.Parts, Logger: logger})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	if s.Replicas {
		if err := serveReplicas(ctx, mux, s, log, logger); err != nil {
			return err
		}
	}
	mux.HandleFunc("POST /append", func(w http.ResponseWriter, r *http.Request) {
		frame, err := io.ReadAll(r.Body)
		if err == nil {
			ctx, cancel := context.WithTimeout(r.Context(), appendLimit)
			defer cancel()
			err = log.Append(ctx, number(r, "part"), frame)
		}
		answer(w, err, "")
	})
	mux.HandleFunc("GET /tail", func(w http.ResponseWriter, r *http.Request) {
		for e, err := range log.Tail(r.Context(), number(r, "part"), cluster.Pos(number(r, "after"))) {
			if err != nil {
				fmt.Fprintf(w, "error %v\n", err)
				return
			}
			fmt.Fprintf(w, "%d %x\n", e.Pos, e.Frame)
			if err := http.NewResponseController(w).Flush(); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("POST /trim", func(w http.ResponseWriter, r *http.Request) {
		answer(w, log.Trim(r.Context(), number(r, "part"), cluster.Pos(number(r, "to"))), "")
	})
	mux.HandleFunc("GET /ends", func(w http.ResponseWriter, r *http.Request) {
		first, last, err := log.Ends(r.Context(), number(r, "part"))
		answer(w, err, fmt.Sprint(first, " ", last))
	})
	mux.HandleFunc("GET /leader", func(w http.ResponseWriter, r *http.Request) {
		status, err := log.Status(r.Context(), number(r, "part"))
		answer(w, err, status.Leader)
	})
	err = (&http.Server{Addr: s.HTTP, Handler: mux, ReadHeaderTimeout: 5 * time.Second}).ListenAndServe()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func number(r *http.Request, name string) int {
	n, _ := strconv.Atoi(r.FormValue(name)) // written by this program
	return n
}

func answer(w http.ResponseWriter, err error, text string) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, text) // the reader may have gone
}
