package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parley-hq/parley/internal/sleep"
)

// replaceTime is how long the nodes may take until one of them can be replaced.
const replaceTime = 4 * time.Minute

// loseDisk kills a node, removes its data folder, starts it with an empty one and replaces the node by the new one.
func (x *clusterRun) loseDisk(ctx context.Context, node int) error {
	n := x.nodes[node]
	old := n.id
	n.Kill()
	if err := os.RemoveAll(n.data); err != nil {
		return err
	}
	if err := n.Start(); err != nil {
		return err
	}
	if err := x.ready(ctx, n); err != nil {
		return err
	}
	for end := time.Now().Add(replaceTime); ; sleep.For(ctx, time.Second) {
		err := x.load.c.ReplaceNode(ctx, old, n.id) // refused until all nodes are ready
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(end) {
			return fmt.Errorf("replace %s by %s: %w", old, n.id, err)
		}
	}
}

// damageStore kills a node, damages one file of its store and starts it. The node must not start and name the file, replace
// its store by a copy, or let verify report the damage; otherwise nothing may be missing, which the check at the end finds out.
// A store that is damaged and not replaced is removed, as an operator would do.
func (x *clusterRun) damageStore(ctx context.Context, node int) error {
	n := x.nodes[node]
	n.Kill()
	store := filepath.Join(n.data, "store")
	name, kind, err := x.harmOne(store)
	if err != nil {
		return err
	}
	x.counts.damaged++
	if err := n.Start(); err != nil {
		return err
	}
	switch _, ok, err := n.WaitReady(ctx, "/readyz"); {
	case err != nil:
		return fmt.Errorf("%s, %s: %w", name, kind, err)
	case !ok && !strings.Contains(n.Output(), filepath.Base(name)):
		x.counts.fail(&x.counts.silent, "%s, %s: the node refuses to start without naming the file: %s", name, kind, n.Output())
	case !ok:
		x.counts.refused++
	case n.metric("parley_cluster_copies_total") > 0:
		x.counts.reported++
		return nil
	default:
		if _, whole := x.verify(ctx, n.url()); whole {
			x.counts.harmless++
			return nil
		}
		x.counts.reported++
		if err := n.Stop(); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(store); err != nil {
		return err
	}
	return n.Start()
}

// harmOne damages one file below a folder.
func (x *clusterRun) harmOne(dir string) (name, kind string, err error) {
	var files []string
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, rerr := filepath.Rel(dir, path)
			files, err = append(files, name), rerr
		}
		return err
	})
	for err == nil && kind == "" {
		name = files[x.random.IntN(len(files))]
		kind, err = x.harm(dir, name)
	}
	return name, kind, err
}
