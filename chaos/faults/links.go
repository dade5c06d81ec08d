// Package faults kills, pauses and cuts off the nodes of a cluster while something writes to it, and measures how long writes
// pause. The nodes are connected through proxies that can be held and cut.
package faults

import (
	"errors"
	"net"
	"slices"
	"sync"

	"github.com/parley-hq/parley/internal/freeport"
)

// Links are the connections between the nodes. Node i reaches node j through a proxy of its own.
type Links struct {
	listeners []net.Listener
	peers     [][]string

	mu      sync.Mutex
	changed chan struct{}   // closed when held changes
	held    map[[2]int]bool // bytes from the first node to the second wait
	conns   map[*pair]bool
}

// pair is a connection that node from opened to node to.
type pair struct {
	from, to int
	a, b     net.Conn
}

// NewLinks finds addresses for the nodes and starts the proxies between them. The addresses of a node and of the proxies that lead
// to it come before those of the next node, so that every node has the same place in the sorted list of each of them.
func NewLinks() (*Links, error) {
	l := &Links{changed: make(chan struct{}), held: map[[2]int]bool{}, conns: map[*pair]bool{}}
	var free []string
	for range NodeCount * NodeCount {
		addr, err := freeport.Find()
		if err != nil {
			return nil, err
		}
		free = append(free, addr)
	}
	slices.Sort(free)
	for i := range NodeCount {
		var peers []string
		for j := range NodeCount {
			addr, to := free[j*NodeCount+i], free[j*NodeCount+j]
			peers = append(peers, addr)
			if i == j {
				continue
			}
			in, err := net.Listen("tcp", addr)
			if err != nil {
				return nil, errors.Join(err, l.Close())
			}
			l.listeners = append(l.listeners, in)
			go l.serve(in, i, j, to)
		}
		l.peers = append(l.peers, peers)
	}
	return l, nil
}

// Listen returns the addresses at which the nodes listen.
func (l *Links) Listen() (listen []string) {
	for i, peers := range l.peers {
		listen = append(listen, peers[i])
	}
	return listen
}

// Peers returns the addresses by which node i reaches all nodes: its own is the one that it listens at.
func (l *Links) Peers(i int) []string { return l.peers[i] }

// Close ends all connections.
func (l *Links) Close() error {
	var errs []error
	for _, in := range l.listeners {
		errs = append(errs, in.Close())
	}
	l.sever(func(*pair) bool { return true })
	return errors.Join(errs...)
}

func (l *Links) serve(in net.Listener, i, j int, to string) {
	for {
		a, err := in.Accept()
		if err != nil {
			return
		}
		go func() {
			l.wait(i, j)
			b, err := net.Dial("tcp", to)
			if err != nil {
				a.Close()
				return
			}
			p := &pair{i, j, a, b}
			l.mu.Lock()
			l.conns[p] = true
			l.mu.Unlock()
			go l.pass(p, a, b, i, j)
			l.pass(p, b, a, j, i)
		}()
	}
}

// pass copies bytes from node i to node j while they are not held.
func (l *Links) pass(p *pair, from, to net.Conn, i, j int) {
	defer func() {
		p.a.Close()
		p.b.Close()
		l.mu.Lock()
		delete(l.conns, p)
		l.mu.Unlock()
	}()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		l.wait(i, j)
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait waits until bytes from i to j are not held.
func (l *Links) wait(i, j int) {
	for {
		l.mu.Lock()
		held, changed := l.held[[2]int{i, j}], l.changed
		l.mu.Unlock()
		if !held {
			return
		}
		<-changed
	}
}

// Hold holds what is sent from i to j, or lets it through.
func (l *Links) Hold(i, j int, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[[2]int{i, j}] = held
	close(l.changed)
	l.changed = make(chan struct{})
}

// Sever closes the connections between two nodes.
func (l *Links) Sever(i, j int) {
	l.sever(func(p *pair) bool { return p.from == i && p.to == j || p.from == j && p.to == i })
}

func (l *Links) sever(which func(*pair) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.conns {
		if which(p) {
			p.a.Close()
			p.b.Close()
		}
	}
}

// Cut cuts a node off from others until heal is called: what it sends, what it gets, or both. Bytes wait. sever also closes the
// connections.
func (l *Links) Cut(node int, others []int, out, in, sever bool) (heal func()) {
	hold := func(held bool) {
		for _, o := range others {
			if out {
				l.Hold(node, o, held)
			}
			if in {
				l.Hold(o, node, held)
			}
		}
	}
	hold(true)
	for _, o := range others {
		if sever {
			l.Sever(node, o)
		}
	}
	return func() { hold(false) }
}
