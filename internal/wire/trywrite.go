package wire

import (
	"bytes"
	"context"
	"net"
	"syscall"
)

// tryWriter writes to a TCP connection without waiting for the peer.
type tryWriter struct {
	raw   syscall.RawConn // nil if the connection cannot do it
	write func(fd uintptr) bool
	buf   []byte
	n     int
	rest  []byte // was taken and not sent; the next write sends it first
}

func newTryWriter(conn net.Conn) *tryWriter {
	t := &tryWriter{}
	if tcp, ok := conn.(*net.TCPConn); ok { // TLS keeps state of its own
		t.raw, _ = tcp.SyscallConn() // fails only when closed
	}
	t.write = func(fd uintptr) bool {
		t.n = writeNow(fd, t.buf)
		return true // never wait
	}
	return t
}

// send writes what the kernel takes of b at once and returns how much that is. Errors
// are left to the next write that waits.
func (t *tryWriter) send(b []byte) int {
	t.buf, t.n = b, 0
	if err := t.raw.Write(t.write); err != nil {
		t.n = 0
	}
	t.buf = nil
	return t.n
}

// trySend sends b if the kernel takes it without waiting for the peer. It reports false if
// nothing was taken. When a part was taken, flush runs in a goroutine: its write sends the
// rest first. The caller holds wmu.
func (l *connBase) trySend(ctx context.Context, b []byte, flush func()) bool {
	if l.closed || ctx.Err() != nil {
		return false
	}
	if l.try == nil {
		l.try = newTryWriter(l.conn)
	}
	if l.try.raw == nil || l.try.rest != nil || l.extend(ctx) != nil {
		return false
	}
	n := l.try.send(b)
	if n > 0 && n < len(b) {
		l.try.rest = bytes.Clone(b[n:])
		go flush()
	}
	return n > 0
}

// sendRest sends what trySend has taken and the kernel has not. The caller holds wmu.
func (l *connBase) sendRest() error {
	if l.try == nil || l.try.rest == nil {
		return nil
	}
	_, err := l.conn.Write(l.try.rest)
	l.try.rest = nil
	return err
}
