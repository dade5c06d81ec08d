package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/freeport"
	"github.com/parley-hq/parley/internal/load"
	"github.com/parley-hq/parley/internal/serverprocess"
)

// clusterProcesses are the three nodes of a cluster. The sessions of a measurement are all in one partition.
type clusterProcesses struct {
	nodes        []*process
	partitions   int
	owner, other *process // of that partition, and one of the other nodes
}

// measured is the partition whose sessions are measured.
const measured = 0

// startCluster starts three nodes and waits until each owns a partition.
func startCluster(e *env, dir string) (c *clusterProcesses, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("the secret of a cluster under measurement"), 0o600); err != nil {
		return nil, err
	}
	routes, err := addresses(3)
	if err != nil {
		return nil, err
	}
	c = &clusterProcesses{}
	defer func() {
		if err != nil {
			c.stop()
		}
	}()
	for i, route := range routes {
		data := filepath.Join(dir, fmt.Sprint("n", i))
		p, err := serverprocess.Start(e.binary, func(addr string) []string {
			return serverprocess.Serve(addr, data, "--nats", "off", "--pprof", "--cluster-listen", route, "--cluster-peers", strings.Join(routes, ","), "--cluster-secret-file", secret)
		})
		if err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, &process{Process: p, target: load.Target{Host: p.Addr}, pprof: true})
	}
	for _, p := range c.nodes {
		_, ok, err := p.WaitReady(e.ctx, "/readyz")
		if err == nil && !ok {
			err = fmt.Errorf("a node did not become ready: %s", p.Output())
		}
		if err != nil {
			return nil, err
		}
	}
	return c, c.find(e)
}

// addresses returns free addresses.
func addresses(n int) (all []string, err error) {
	for range n {
		addr, err := freeport.Find()
		if err != nil {
			return nil, err
		}
		all = append(all, addr)
	}
	return all, nil
}

func (c *clusterProcesses) stop() {
	for _, p := range c.nodes {
		p.stop()
	}
}

// clusterState is the part of the answer of /parley/v1/cluster that is needed here.
type clusterState struct {
	Nodes []struct {
		ID  string `json:"id"`
		URL string `json:"url"`
	} `json:"nodes"`
	Partitions []struct {
		Owner string `json:"owner"`
	} `json:"partitions"`
}

// find waits until each node owns a partition, and sets owner and other.
func (c *clusterProcesses) find(e *env) error {
	for end := time.Now().Add(time.Minute); ; {
		res, err := http.Get("http://" + c.nodes[0].target.Host + "/parley/v1/cluster")
		if err != nil {
			return err
		}
		var state clusterState
		if err := errors.Join(json.NewDecoder(res.Body).Decode(&state), res.Body.Close()); err != nil {
			return err
		}
		owners := map[string]bool{}
		for _, p := range state.Partitions {
			owners[p.Owner] = true
		}
		if len(owners) == len(c.nodes) && !owners[""] {
			c.choose(&state)
			return nil
		}
		if time.Now().After(end) || e.ctx.Err() != nil {
			return fmt.Errorf("not each node owns a partition: %v", owners)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (c *clusterProcesses) choose(state *clusterState) {
	c.partitions = len(state.Partitions)
	for _, n := range state.Nodes {
		for _, p := range c.nodes {
			switch {
			case !strings.HasSuffix(n.URL, p.target.Host):
			case n.ID == state.Partitions[measured].Owner:
				c.owner = p
			default:
				c.other = p
			}
		}
	}
}

// sessions creates n sessions in the measured partition.
func (c *clusterProcesses) sessions(prefix string, n int) (ids []string, err error) {
	for i := 0; len(ids) < n; i++ {
		all, err := load.Sessions(c.owner.target, fmt.Sprintf("%s-%d", prefix, i), n)
		if err != nil {
			return nil, err
		}
		for _, id := range all {
			if cluster.PartitionOf(id, c.partitions) == measured && len(ids) < n {
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
}

// cpu is the processor time that all nodes have used.
func (c *clusterProcesses) cpu() (sum time.Duration) {
	for _, p := range c.nodes {
		sum += p.cpu()
	}
	return sum
}

// measure runs a load. The processor time is that of all nodes; profiles are those of the owner and of another node.
func (c *clusterProcesses) measure(e *env, name string, run func() (load.Result, error)) (trial, error) {
	before := c.cpu()
	var res load.Result
	t, err := c.owner.measure(e, name, func() (load.Result, error) {
		_, err := c.nodes[(slices.Index(c.nodes, c.owner)+1)%len(c.nodes)].measure(e, name+"-elsewhere", func() (_ load.Result, err error) {
			res, err = run()
			return res, err
		})
		return res, err
	})
	t.cost = float64((c.cpu() - before).Microseconds()) / float64(max(res.Count, 1))
	return t, err
}

// waitIdle waits until no node uses processor time for the load.
func (c *clusterProcesses) waitIdle() error {
	for last, end := c.cpu(), time.Now().Add(time.Minute); ; {
		time.Sleep(300 * time.Millisecond)
		now := c.cpu()
		if now-last <= 60*time.Millisecond { // heartbeats
			return nil
		}
		if last = now; time.Now().After(end) {
			return errors.New("the nodes do not become idle")
		}
	}
}
