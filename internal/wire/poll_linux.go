package wire

import (
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// poller waits for the messages of connections in one goroutine, handles those that need no
// waiting itself, and gives the others to other goroutines. It has an epoll descriptor, for
// which Go's own poller waits. Its goroutine runs while there are connections.
type poller struct {
	mu    sync.Mutex
	fd    int      // of epoll
	epoll *os.File // nil without connections
	conns map[int32]*Conn
	ended chan struct{} // closed at the end of the goroutine
}

// edgeTriggered asks for an event when something arrives, and not for as long as it is there.
// syscall.EPOLLET has the wrong sign.
const edgeTriggered = 1 << 31

// add begins to wait for messages of a connection. It returns false if that is not possible:
// the connection is not TCP, or the system has no descriptors left.
func (p *poller) add(c *Conn) bool {
	tcp, ok := c.conn.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	p.mu.Lock()
	if p.epoll == nil && !p.start() {
		p.mu.Unlock()
		return false
	}
	added := false
	_ = raw.Control(func(fd uintptr) { // fails if the connection is closed
		c.poll.fd = int32(fd)
		e := syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLRDHUP | edgeTriggered, Fd: c.poll.fd}
		added = syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_ADD, int(fd), &e) == nil
	})
	if added {
		p.conns[c.poll.fd] = c
	}
	stop := p.end()
	p.mu.Unlock()
	stop()
	return added
}

// remove ends the waiting for a connection.
func (p *poller) remove(c *Conn) {
	p.mu.Lock()
	if p.conns[c.poll.fd] == c { // else it was closed, and another connection has its descriptor
		delete(p.conns, c.poll.fd)
		_ = syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_DEL, int(c.poll.fd), nil) // fails if it was closed
	}
	stop := p.end()
	p.mu.Unlock()
	stop()
}

// start starts the goroutine. The caller holds mu.
func (p *poller) start() bool {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return false
	}
	if err := syscall.SetNonblock(fd, true); err != nil { // so that NewFile gives it to Go's poller
		syscall.Close(fd)
		return false
	}
	p.fd, p.epoll = fd, os.NewFile(uintptr(fd), "epoll")
	raw, err := p.epoll.SyscallConn()
	if err != nil {
		p.epoll.Close()
		p.epoll = nil
		return false
	}
	p.conns, p.ended = map[int32]*Conn{}, make(chan struct{})
	go func(ended chan struct{}) {
		defer close(ended)
		b := &pollBatch{poller: p, stacks: NewStackPool()}
		_ = raw.Read(b.run) // ends when epoll is closed
	}(p.ended)
	return true
}

// end begins to stop the goroutine if there are no connections. The caller holds mu, and
// calls stop after that, because the goroutine may need mu.
func (p *poller) end() (stop func()) {
	if p.epoll == nil || len(p.conns) > 0 {
		return func() {}
	}
	epoll, ended := p.epoll, p.ended
	p.epoll = nil
	return func() {
		epoll.Close()
		<-ended
	}
}

// pollBatch handles what arrives at the same time. Only the goroutine of the poller uses it.
type pollBatch struct {
	poller *poller
	stacks *StackPool
	events [128]syscall.EpollEvent
	ready  []arrived
	later  []func()
}

// arrived is a connection with an event.
type arrived struct {
	conn *Conn
	end  bool // the peer has closed it, or it is broken: no other event will follow
}

// atEnd are the events of which the end of a connection has one. It comes together with the
// last bytes if these were not read before.
const atEnd = syscall.EPOLLRDHUP | syscall.EPOLLHUP | syscall.EPOLLERR

// run handles what has arrived. It returns false: Go's poller calls it again when there is more.
func (b *pollBatch) run(epoll uintptr) bool {
	for n := len(b.events); n == len(b.events); {
		n = pollNow(epoll, b.events[:])
		b.poller.mu.Lock()
		for i := range n {
			if c := b.poller.conns[b.events[i].Fd]; c != nil {
				b.ready = append(b.ready, arrived{c, b.events[i].Events&atEnd != 0})
			}
		}
		b.poller.mu.Unlock()
		for _, a := range b.ready {
			if c := a.conn; c.claim() && !(c.try(&b.later) && !a.end && c.park()) {
				b.stacks.Go(c.serve)
			}
		}
		for _, run := range b.later {
			b.stacks.Go(run)
		}
		clear(b.ready)
		clear(b.later)
		b.ready, b.later = b.ready[:0], b.later[:0]
	}
	return false
}

// pollNow returns the events of an epoll descriptor, without waiting.
func pollNow(epoll uintptr, events []syscall.EpollEvent) int {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, epoll, uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// readArrived reads what has arrived on a connection. some is false if there is nothing.
// After an error, and at the end, n is 0 and some is true. As in writeNow the scheduler is not
// notified of the system call.
func readArrived(conn net.Conn, b []byte) (n int, some bool) {
	r := arrivals.Get().(*arrival)
	defer arrivals.Put(r)
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return 0, true
	}
	r.buf = b
	err = raw.Read(r.read)
	r.buf = nil
	if err != nil {
		return 0, true
	}
	return r.n, r.some
}

type arrival struct {
	buf  []byte
	n    int
	some bool
	read func(fd uintptr) bool // made once
}

var arrivals = sync.Pool{New: func() any {
	r := &arrival{}
	r.read = func(fd uintptr) bool {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&r.buf[0])), uintptr(len(r.buf)))
		for errno == syscall.EINTR {
			n, _, errno = syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&r.buf[0])), uintptr(len(r.buf)))
		}
		r.n, r.some = int(n), true
		if errno != 0 {
			r.n, r.some = 0, errno != syscall.EAGAIN
		}
		return true // never wait
	}
	return r
}}
