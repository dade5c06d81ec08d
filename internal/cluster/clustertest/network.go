package clustertest

import (
	"context"
	"sync"

	"github.com/parley-hq/parley/internal/cluster"
)

// Network connects the nodes of a test in memory.
type Network struct {
	noNode error

	mu    sync.Mutex
	ports map[string]*Port // by node
}

// NewNetwork returns a network without nodes. Requests to a node that is not there get the error noNode.
func NewNetwork(noNode error) *Network { return &Network{noNode: noNode, ports: map[string]*Port{}} }

// Port returns the connection of a process of a node, which reaches the others when it listens. log is cut off together with the
// port.
func (n *Network) Port(node string, log *View) *Port {
	return &Port{Log: log, net: n, node: node}
}

// Port is the connection of one node. It implements node.Transport.
type Port struct {
	Log    *View
	Loses  func() bool            // reports whether the next broadcast is lost; nil means never
	Misses func(data []byte) bool // reports whether what another node broadcasts or tells is lost on its way here; nil means never
	Hold   func()                 // is called before a broadcast of another node is handled, one after the other; nil means nothing

	net  *Network
	node string

	mu        sync.Mutex
	off       bool
	heartbeat func(cluster.Heartbeat)

	// Set by Listen, before other nodes find the port.
	requests  []chan func() // by partition
	broadcast chan func()
	told      chan func()
	request   func(data []byte, reply func([]byte))
	heard     func(data []byte)
	stopped   chan struct{}
}

// Cut cuts the node off from the other nodes and from the log, or connects it again.
func (p *Port) Cut(off bool) {
	p.CutNodes(off)
	p.Log.Cut(off)
}

// CutNodes cuts the node off from the other nodes only, or connects it again.
func (p *Port) CutNodes(off bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = off
}

// IsCut reports whether the node is cut off from the other nodes.
func (p *Port) IsCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.off
}

// Request sends a message about a partition to another node. A message that is lost gets no reply.
func (p *Port) Request(ctx context.Context, node string, partition int, data []byte) func() ([]byte, error) {
	p.net.mu.Lock()
	to := p.net.ports[node]
	p.net.mu.Unlock()
	if to == nil {
		return func() ([]byte, error) { return nil, p.net.noNode }
	}
	got := make(chan []byte, 1)
	connected := func() bool { return !p.IsCut() && !to.IsCut() }
	if connected() {
		to.queue(to.requests[partition], func() {
			to.request(data, func(b []byte) {
				if connected() {
					got <- b
				}
			})
		})
	}
	return func() ([]byte, error) {
		select {
		case b := <-got:
			return b, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// queue adds a call to a queue of the port, unless the port does not listen any more.
func (p *Port) queue(calls chan<- func(), f func()) {
	select {
	case calls <- f:
	case <-p.stopped:
	}
}

// others calls f for all other nodes that this one reaches.
func (p *Port) others(f func(*Port)) {
	if p.IsCut() {
		return
	}
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	for node, to := range p.net.ports {
		if node != p.node && !to.IsCut() {
			f(to)
		}
	}
}

// Broadcast sends a message to all other nodes.
func (p *Port) Broadcast(data []byte) {
	if p.Loses != nil && p.Loses() {
		return
	}
	p.others(func(to *Port) { to.queue(to.broadcast, func() { to.hear(data) }) })
}

// Tell sends a message to one other node.
func (p *Port) Tell(node string, data []byte) {
	p.others(func(to *Port) {
		if to.node == node {
			to.queue(to.told, func() {
				if to.Misses == nil || !to.Misses(data) {
					to.heard(data)
				}
			})
		}
	})
}

func (p *Port) hear(data []byte) {
	if p.Misses != nil && p.Misses(data) {
		return
	}
	if p.Hold != nil {
		p.Hold()
	}
	p.heard(data)
}

// SendHeartbeat sends a heartbeat to all other nodes.
func (p *Port) SendHeartbeat(h cluster.Heartbeat) {
	p.others(func(to *Port) {
		to.mu.Lock()
		f := to.heartbeat
		to.mu.Unlock()
		if f != nil {
			f(h)
		}
	})
}

// Heartbeats calls f for the heartbeats of other nodes.
func (p *Port) Heartbeats(f func(cluster.Heartbeat)) (stop func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heartbeat = f
	return func() {}, nil
}

// Listen calls request and heard for the messages of other nodes until stop is called; request one after the other for each
// partition.
func (p *Port) Listen(partitions int, request func(data []byte, reply func([]byte)), heard func(data []byte)) (stop func(), err error) {
	p.request, p.heard, p.stopped = request, heard, make(chan struct{})
	p.broadcast = make(chan func(), 10_000)
	go p.handle(p.broadcast)
	p.told = make(chan func(), 10_000)
	go p.handle(p.told)
	for range partitions {
		calls := make(chan func(), 10_000)
		p.requests = append(p.requests, calls)
		go p.handle(calls)
	}
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	p.net.ports[p.node] = p
	return func() {
		p.net.mu.Lock()
		if p.net.ports[p.node] == p { // not a later process of the node
			delete(p.net.ports, p.node)
		}
		p.net.mu.Unlock()
		close(p.stopped)
	}, nil
}

// handle executes the calls of a queue until the port does not listen any more.
func (p *Port) handle(calls <-chan func()) {
	for {
		select {
		case f := <-calls:
			f()
		case <-p.stopped:
			return
		}
	}
}
