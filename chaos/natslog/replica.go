package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/cluster/natslog"
	"github.com/parley-hq/parley/internal/sleep"
)

// clusterID is the one in all frames.
const clusterID = "chaos"

// copyStore keeps the copy of a partition, whose digest stands for all records, in a file that it writes from time to time. A
// process that starts again continues from there.
type copyStore struct {
	file string

	mu      sync.Mutex
	copy    cluster.Copy
	written time.Time
}

func openCopy(file string) (*copyStore, error) {
	s := &copyStore{file: file}
	b, err := os.ReadFile(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return s, nil
	case err != nil:
		return nil, err
	}
	s.copy, err = cluster.ParseCopy(b)
	return s, err
}

// Apply implements cluster.Store.
func (s *copyStore) Apply(_ []cluster.Record, c cluster.Copy) ([]error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.copy = c
	if time.Since(s.written) < 2*time.Second {
		return nil, nil
	}
	s.written = time.Now()
	if err := os.WriteFile(s.file+".new", c.Append(nil), 0o600); err != nil {
		return nil, err
	}
	return nil, os.Rename(s.file+".new", s.file)
}

// serveReplicas runs a replica of each partition in a node's process.
func serveReplicas(ctx context.Context, mux *http.ServeMux, s settings, log *natslog.Log, logger *slog.Logger) error {
	replicas := make([]*cluster.Replica, s.Parts)
	for p := range replicas {
		store, err := openCopy(filepath.Join(s.Dir, fmt.Sprint("copy", p)))
		if err != nil {
			return err
		}
		replicas[p] = cluster.NewReplica(cluster.ReplicaOptions{
			Cluster: clusterID, Partition: p, Node: s.Name, Log: log, Store: store, Copy: store.copy, Send: log.SendHeartbeat,
			Rank: (s.Number + p) % nodeCount, Logger: logger,
		})
	}
	if _, err := log.Heartbeats(func(h cluster.Heartbeat) {
		if h.Partition >= 0 && h.Partition < len(replicas) {
			replicas[h.Partition].Heard(h)
		}
	}); err != nil {
		return err
	}
	for _, r := range replicas {
		go func() { logger.Error("a replica ended", "err", r.Run(ctx)) }()
	}
	mux.HandleFunc("POST /commit", func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			answer(w, err, "")
			return
		}
		pos, err := replicas[number(r, "part")].Commit(cluster.Record{Kind: 1, Data: data})
		if errors.Is(err, cluster.ErrLost) || errors.Is(err, cluster.ErrNotOwner) {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		answer(w, err, fmt.Sprint(pos))
	})
	mux.HandleFunc("GET /copy", func(w http.ResponseWriter, r *http.Request) {
		c := replicas[number(r, "part")].Status().Copy
		answer(w, nil, fmt.Sprintf("%d %x", c.Pos, c.Digest))
	})
	return nil
}

// commit commits a record through the node that answered last, or the next one after a refusal.
func (c *campaign) commit(ctx context.Context, w *writer, body []byte) (outcome, int) {
	one, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendLimit+time.Second)
	defer cancel()
	var out []byte
	err := request(one, http.MethodPost, fmt.Sprintf("http://%s/commit?part=%d", c.nodes[w.node].HTTP, w.part), body, &out)
	var pos int
	if err == nil {
		_, err = fmt.Sscan(string(out), &pos)
	}
	switch {
	case err == nil:
		return acknowledged, pos
	case errors.Is(err, errRefused):
		w.node = (w.node + 1) % nodeCount
		return refused, 0
	}
	w.node = (w.node + 1) % nodeCount
	return unknown, 0
}

// compareCopies compares the copies of the nodes with the log.
func (c *campaign) compareCopies(ctx context.Context) error {
	for p := range c.parts {
		for i, n := range c.nodes {
			want := c.record.digest(p)
			for got := ""; got != want; {
				var out []byte
				one, cancel := context.WithTimeout(ctx, appendLimit)
				if err := request(one, http.MethodGet, fmt.Sprintf("http://%s/copy?part=%d", n.HTTP, p), nil, &out); err == nil {
					got = string(out)
				}
				cancel()
				if got == want {
					break
				}
				if sleep.For(ctx, 100*time.Millisecond) != nil {
					c.record.differ("the copy of partition %d at n%d is %s, the log says %s", p, i, got, want)
					return ctx.Err()
				}
			}
		}
	}
	return nil
}
