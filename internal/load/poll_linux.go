package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// poller reads all connections in one goroutine. A goroutine for each would use more processor time than the server.
type poller struct {
	readers *Readers
	epoll   int
	done    atomic.Bool
	group   sync.WaitGroup
	slow    []net.Conn // TLS connections; each has its own goroutine

	mu    sync.Mutex
	files map[int32]*file
}

type file struct {
	*reader
	f *os.File
}

func newPoller(c *Readers) (*poller, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	p := &poller{readers: c, epoll: fd, files: map[int32]*file{}}
	p.group.Go(p.run)
	return p, nil
}

func (p *poller) add(conn net.Conn, m *reader) error {
	if _, ok := conn.(*tls.Conn); ok {
		p.slow = append(p.slow, conn)
		p.group.Go(func() { readAll(p.readers, conn, m) })
		return nil
	}
	// A copy of the descriptor is not in the runtime's own poller, which would
	// otherwise wake up for every message too.
	f, err := conn.(*net.TCPConn).File()
	if err = errors.Join(err, conn.Close()); err != nil {
		return err
	}
	fd := int32(f.Fd())
	if err := syscall.SetNonblock(int(fd), true); err != nil {
		return errors.Join(err, f.Close())
	}
	p.mu.Lock()
	p.files[fd] = &file{m, f}
	p.mu.Unlock()
	return syscall.EpollCtl(p.epoll, syscall.EPOLL_CTL_ADD, int(fd), &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: fd})
}

func (p *poller) run() {
	events := make([]syscall.EpollEvent, 256)
	buf := make([]byte, 256<<10)
	for !p.done.Load() {
		n, err := syscall.EpollWait(p.epoll, events, 50)
		if err != nil && err != syscall.EINTR {
			return
		}
		for i := range max(n, 0) {
			p.mu.Lock()
			m := p.files[events[i].Fd]
			p.mu.Unlock()
			if m == nil {
				continue
			}
			got, err := syscall.Read(int(events[i].Fd), buf)
			if got > 0 {
				request := p.readers.take(m.reader, buf[:got])
				if request == nil {
					continue
				}
				// A request is small and the only one under way, so that it fits into the socket's buffer.
				if _, err = syscall.Write(int(events[i].Fd), request); err == nil {
					continue
				}
			}
			if err == syscall.EAGAIN || err == syscall.EINTR {
				continue
			}
			p.mu.Lock()
			delete(p.files, events[i].Fd)
			p.mu.Unlock()
			m.f.Close()
			p.readers.gone.Add(1)
		}
	}
}

func (p *poller) close() error {
	p.done.Store(true)
	for _, c := range p.slow {
		c.Close()
	}
	p.group.Wait()
	for _, m := range p.files {
		m.f.Close()
	}
	return syscall.Close(p.epoll)
}

// runWriters runs all writers until their time is over. On connections without TLS, one goroutine for every two
// processors runs them: a goroutine for each needs up to twice the processor time, which the server then does not have.
func runWriters(ctx context.Context, all []*writer) error {
	for _, w := range all {
		if _, ok := w.conn.Conn.(*net.TCPConn); !ok {
			return runEach(ctx, all)
		}
	}
	loops := min(max(runtime.GOMAXPROCS(0)/2, 1), len(all))
	return parallel(loops, func(i int) error {
		var own []*writer
		for ; i < len(all); i += loops {
			own = append(own, all[i])
		}
		return runPolled(ctx, own)
	})
}

// runPolled runs writers in this goroutine.
func runPolled(ctx context.Context, all []*writer) error {
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	defer syscall.Close(epoll)
	open := map[int32]*writer{}
	for _, w := range all {
		c, err := newBlockingConn(w.conn.Conn.(*net.TCPConn))
		if err != nil {
			return err
		}
		w.conn.Conn = c
		w.conn.R.Reset(c)
		if err := syscall.EpollCtl(epoll, syscall.EPOLL_CTL_ADD, c.fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(c.fd)}); err != nil {
			return err
		}
		open[int32(c.fd)] = w
	}
	for _, w := range all {
		if err := w.fill(ctx); err != nil {
			return err
		}
	}
	events := make([]syscall.EpollEvent, len(all))
	for len(open) > 0 {
		n, err := syscall.EpollWait(epoll, events, int(wait.Milliseconds()))
		if err == syscall.EINTR {
			continue
		}
		if err == nil && n == 0 {
			err = fmt.Errorf("the server has not answered %d writers for %s", len(open), wait)
		}
		if err != nil {
			return err
		}
		for _, e := range events[:n] {
			w := open[e.Fd]
			err := w.next(ctx)
			for err == nil && w.open > 0 && w.conn.R.Buffered() > 0 {
				err = w.next(ctx)
			}
			if err != nil {
				return err
			}
			if w.open == 0 {
				// The server may go on sending, pings for example.
				if err := syscall.EpollCtl(epoll, syscall.EPOLL_CTL_DEL, int(e.Fd), nil); err != nil {
					return err
				}
				delete(open, e.Fd)
			}
		}
	}
	return nil
}

// blockingConn is a connection that the runtime's own poller does not use. Reads and writes wait in a system call.
type blockingConn struct {
	net.Conn // nil: writers use only the methods below
	fd       int
}

// newBlockingConn takes over a connection.
func newBlockingConn(conn *net.TCPConn) (*blockingConn, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &blockingConn{}
	var failed error
	err = raw.Control(func(fd uintptr) {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		if c.fd, failed = syscall.Dup(int(fd)); failed == nil {
			syscall.CloseOnExec(c.fd)
		}
	})
	if err = errors.Join(err, failed, conn.Close()); err != nil {
		return nil, err
	}
	limit := syscall.NsecToTimeval(wait.Nanoseconds())
	return c, errors.Join(syscall.SetNonblock(c.fd, false),
		syscall.SetsockoptTimeval(c.fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit),
		syscall.SetsockoptTimeval(c.fd, syscall.SOL_SOCKET, syscall.SO_SNDTIMEO, &limit))
}

func (c *blockingConn) Read(b []byte) (int, error) {
	n, err := syscall.Read(c.fd, b)
	for err == syscall.EINTR { // a signal of the runtime
		n, err = syscall.Read(c.fd, b)
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
}

func (c *blockingConn) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var more int
		more, err = syscall.Write(c.fd, b[n:])
		n += max(more, 0)
		if err == syscall.EINTR {
			err = nil
		}
	}
	return n, err
}

// SetDeadline does nothing: the socket has time limits of its own.
func (c *blockingConn) SetDeadline(time.Time) error { return nil }

func (c *blockingConn) Close() error { return syscall.Close(c.fd) }
