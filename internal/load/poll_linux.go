package load

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
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
