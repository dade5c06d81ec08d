package wire

// Apart runs f on a stack of its own and waits for it. The goroutine of a
// connection lives as long as the connection, and a stack that it needed once,
// to decode a message or to look something up, would stay with it. A panic of f
// is the caller's.
func Apart(f func()) {
	done := make(chan any)
	go func() {
		defer func() { done <- recover() }()
		f()
	}()
	if fault := <-done; fault != nil {
		panic(fault)
	}
}
