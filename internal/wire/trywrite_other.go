//go:build !linux

package wire

import "syscall"

// writeNow writes to a descriptor that does not block and returns how much was written, 0
// after an error.
func writeNow(fd uintptr, b []byte) int {
	n, err := syscall.Write(int(fd), b)
	if err != nil {
		return 0
	}
	return n
}
