package wire

import "sync"

// connLimit bounds how many connections are open at once, per remote address and
// in total. It is for connections whose caller is not known yet.
type connLimit struct {
	PerAddress, Total int

	mu   sync.Mutex
	open map[string]int
	all  int
}

// Take counts a connection from addr and reports whether there is room for it.
// Each success needs one [connLimit.Release].
func (l *connLimit) Take(addr string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.Total || l.open[addr] >= l.PerAddress {
		return false
	}
	if l.open == nil {
		l.open = map[string]int{}
	}
	l.open[addr]++
	l.all++
	return true
}

// Release undoes one Take.
func (l *connLimit) Release(addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.open[addr]--; l.open[addr] == 0 {
		delete(l.open, addr)
	}
}
