// Package freeport finds loopback addresses for servers that tests start as other processes.
//
// The addresses lie below the range from which systems take ports for port 0 and for outgoing connections. An address
// from that range can be taken by any connection before the server listens on it.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

const (
	first = 20000
	last  = 32000
)

var (
	mu   sync.Mutex
	used = map[int]bool{}
)

// Addr returns a loopback address that nothing listens on and that no other call in this process returned.
func Addr(t testing.TB) string {
	t.Helper()
	addr, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// Find is Addr for programs.
func Find() (string, error) {
	mu.Lock()
	defer mu.Unlock()
	for range 1000 {
		port := first + rand.IntN(last-first)
		if used[port] {
			continue
		}
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue // in use
		}
		used[port] = true
		return addr, l.Close()
	}
	return "", fmt.Errorf("no free port between %d and %d on 127.0.0.1", first, last)
}
