package wire

import (
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
		n, err := syscall.Write(int(fd), t.buf)
		if err == nil {
			t.n = n
		}
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
