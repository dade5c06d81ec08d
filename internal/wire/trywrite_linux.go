package wire

import (
	"syscall"
	"unsafe"
)

// writeNow writes to a descriptor that does not block and returns how much was written, 0
// after an error. The scheduler is not told of the system call: it takes about as long as
// the time after which the scheduler gives the processor of a call to another thread, which
// costs a switch between threads.
func writeNow(fd uintptr, b []byte) int {
	if len(b) == 0 {
		return 0
	}
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if errno != 0 {
		return 0
	}
	return int(n)
}
