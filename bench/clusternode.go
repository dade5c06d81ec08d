package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/bus"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/cluster/natslog"
	"github.com/parley-hq/parley/internal/cluster/node"
	"github.com/parley-hq/parley/internal/hub"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/load"
	"github.com/parley-hq/parley/internal/serverprocess"
	"github.com/parley-hq/parley/internal/session"
)

// nodeFlag is the argument that makes this program a node of a cluster without HTTP.
const nodeFlag = "-serve-node"

// clusterNode is a node of a cluster in this process: its rules, its store, and the log that all nodes share.
type clusterNode struct {
	sessions *session.Sessions
	node     *node.Node
	close    func() error
}

// openClusterNode starts the node whose address for the others is routes[number]. It returns when the log can be written. The
// node with the number 0 owns all sessions.
func openClusterNode(ctx context.Context, dir string, routes []string, number int) (n *clusterNode, err error) {
	ctx, cancel := context.WithCancel(ctx)
	closers := []func() error{func() error { cancel(); return nil }}
	n = &clusterNode{close: func() (err error) {
		for _, c := range closers {
			err = errors.Join(err, c())
		}
		return err
	}}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	secret, err := cluster.ParseSecret([]byte("the secret of a cluster under measurement"))
	if err != nil {
		return n, err
	}
	name := fmt.Sprint("n", number)
	server, err := bus.Start(ctx, bus.Options{Addr: "127.0.0.1:0", Dir: filepath.Join(dir, "nats"), Cluster: &bus.Cluster{
		Name: "bench", Node: name, Listen: routes[number], Peers: routes, Key: secret.Key("nats routes"),
	}})
	if err != nil {
		return n, err
	}
	closers = append(closers, func() error { server.Close(); return nil })
	conn, err := server.ConnectNodes("bench")
	if err != nil {
		return n, err
	}
	log, err := natslog.Open(ctx, conn, natslog.Options{Cluster: "bench", Partitions: 1, Replicas: len(routes), MaxBytes: 4 << 30})
	if err != nil {
		return n, err
	}
	j, err := journal.Open(filepath.Join(dir, "store"), journal.Options{MinFree: -1, MinFreePercent: -1})
	if err != nil {
		return n, err
	}
	h := hub.New(j, hub.Options{})
	mayOwn := func() error {
		if number > 0 {
			return errors.New("node 0 owns all sessions")
		}
		return nil
	}
	n.node = node.New(node.Options{Cluster: "bench", Name: name, Partitions: 1, Journal: j, Hub: h, MayOwn: mayOwn})
	n.sessions = n.node.NewSessions(session.Options{DefaultAgent: "demo"})
	ended := make(chan error, 1)
	go func() { ended <- n.node.Run(ctx, log, node.NewNATS(conn, log, "bench", name, nil)) }()
	closers = append(closers, func() error { <-ended; return j.Close() })
	return n, nil
}

// serveNode is a node until the process is told to end. It serves profiles of itself at addr.
func serveNode(dir, routes, number, addr string) error {
	i, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	over := terminated()
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	profiles := &http.Server{Addr: addr, Handler: mux}
	defer profiles.Close()
	go func() {
		if err := profiles.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}()
	n, err := openClusterNode(context.Background(), dir, strings.Split(routes, ","), i)
	if err != nil {
		return err
	}
	<-over
	return n.close()
}

// appendAtOwner measures durable appends in the process of the owner, without a protocol: what the cluster itself costs.
func appendAtOwner(e *env) (results []*result, err error) {
	raw, err := startReplicas(e, filepath.Join(e.temp, "cluster-in-process-raw"))
	if err != nil {
		return nil, err
	}
	defer raw.stop()
	dir := filepath.Join(e.temp, "cluster-in-process")
	routes, err := addresses(3)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	others := &clusterProcesses{}
	defer others.stop()
	for i := 1; i < len(routes); i++ {
		p, err := serverprocess.Start(self, func(addr string) []string {
			return []string{nodeFlag, filepath.Join(dir, fmt.Sprint("n", i)), strings.Join(routes, ","), strconv.Itoa(i), addr}
		})
		if err != nil {
			return nil, err
		}
		others.nodes = append(others.nodes, &process{Process: p, target: load.Target{Host: p.Addr}, pprof: true})
	}
	n, err := openClusterNode(e.ctx, filepath.Join(dir, "n0"), routes, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	for end := time.Now().Add(time.Minute); !n.node.Owns("any"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) || e.ctx.Err() != nil {
			return nil, errors.New("the node of this process does not own the sessions")
		}
	}
	for _, w := range []struct {
		writers int
		check   check
	}{
		{1, check{p50, bound{1.4, "JetStream R3"}, bound{1.15, "JetStream R3"}}},
		{64, check{rate, bound{10e3, ""}, bound{15e3, ""}}},
		{256, check{rate, bound{25e3, ""}, bound{40e3, ""}}},
	} {
		steps, _, err := sayings(e, n.sessions, w.writers)
		if err != nil {
			return results, err
		}
		r := &result{what: fmt.Sprintf("cluster: durable append in the owner's process, writers: %d", w.writers), checks: []check{w.check}, sides: []*side{
			{name: "Parley", ours: true, run: func(i int) (trial, error) {
				end, err := profileSelf(e, fmt.Sprintf("cluster-owner-%d-%d", w.writers, i))
				if err != nil {
					return trial{}, err
				}
				defer end()
				var t trial
				before := others.cpu()
				_, err = others.nodes[0].measure(e, fmt.Sprintf("cluster-follower-%d-%d", w.writers, i), func() (_ load.Result, err error) {
					t, err = runSteps(steps, e.span)
					return load.Result{}, err
				})
				t.cost += float64((others.cpu() - before).Microseconds()) / max(t.rate*e.span.Seconds(), 1)
				return t, errors.Join(err, others.waitIdle())
			}},
			rawSide(e, raw, w.writers),
		}}
		results = append(results, r)
		if err := alternate(e, e.trials, r.sides...); err != nil {
			return results, err
		}
	}
	return results, nil
}

// sayings returns for each of n new sessions a function that appends a message of 300 bytes, and an event of each as it is
// stored.
func sayings(e *env, sessions *session.Sessions, n int) (steps []func() error, stored [][]byte, err error) {
	text := strings.Repeat("lorem ipsum ", 25)[:289]
	for range n {
		sess, _, err := sessions.Create(e.ctx, user, chat.NewSession{Agent: chat.NoAgent})
		if err != nil {
			return nil, nil, err
		}
		say := func() ([]chat.Event, error) {
			return sessions.Append(context.Background(), user, sess.ID, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: text})})
		}
		events, err := say()
		if err != nil {
			return nil, nil, err
		}
		stored = append(stored, events[0].Fact().JSON)
		steps = append(steps, func() error { _, err := say(); return err })
	}
	return steps, stored, nil
}
