package main

import (
	"errors"
	"net"
	"sync"
)

// links are the connections between the nodes. Node i reaches node j through a proxy of its own.
type links struct {
	listeners []net.Listener
	addr      [nodeCount][nodeCount]string

	mu      sync.Mutex
	changed chan struct{}              // closed when held changes
	held    [nodeCount][nodeCount]bool // bytes from i to j wait
	conns   map[*pair]bool
}

// pair is a connection that node from opened to node to.
type pair struct {
	from, to int
	a, b     net.Conn
}

func newLinks(listen [nodeCount]string) (*links, error) {
	l := &links{changed: make(chan struct{}), conns: map[*pair]bool{}}
	for i := range nodeCount {
		for j := range nodeCount {
			if i == j {
				continue
			}
			in, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, errors.Join(err, l.close())
			}
			l.listeners = append(l.listeners, in)
			l.addr[i][j] = in.Addr().String()
			go l.serve(in, i, j, listen[j])
		}
	}
	return l, nil
}

// peers returns the addresses by which node i reaches all nodes.
func (l *links) peers(i int, own string) (all []string) {
	for j := range nodeCount {
		if i == j {
			all = append(all, own)
		} else {
			all = append(all, l.addr[i][j])
		}
	}
	return all
}

func (l *links) close() error {
	var errs []error
	for _, in := range l.listeners {
		errs = append(errs, in.Close())
	}
	l.sever(func(*pair) bool { return true })
	return errors.Join(errs...)
}

func (l *links) serve(in net.Listener, i, j int, to string) {
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
func (l *links) pass(p *pair, from, to net.Conn, i, j int) {
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
func (l *links) wait(i, j int) {
	for {
		l.mu.Lock()
		held, changed := l.held[i][j], l.changed
		l.mu.Unlock()
		if !held {
			return
		}
		<-changed
	}
}

// set holds what is sent from i to j, or lets it through.
func (l *links) set(i, j int, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[i][j] = held
	close(l.changed)
	l.changed = make(chan struct{})
}

// sever closes connections.
func (l *links) sever(which func(*pair) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.conns {
		if which(p) {
			p.a.Close()
			p.b.Close()
		}
	}
}
