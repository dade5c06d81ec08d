// Package freshstack runs calls on the stack of another goroutine.
//
// The goroutine of a connection or of a reader lives as long as its client. A stack
// that has grown for one deep call, such as decoding a message or reading the store,
// stays that large until the next garbage collection that shrinks it, and there can
// be many thousands of such goroutines. A call on a fresh stack leaves the caller's
// stack small.
package freshstack

// Run calls f in a new goroutine and waits until it has returned. A panic of f
// continues in the caller.
func Run(f func()) {
	done := make(chan any)
	go func() {
		defer func() { done <- recover() }()
		f()
	}()
	if fault := <-done; fault != nil {
		panic(fault)
	}
}
