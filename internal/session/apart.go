package session

// apart runs f on a stack of its own and waits for it. A reader's goroutine
// lives as long as its connection, and the stack that a look into the store
// needs, several times the reader's own, would stay with it. A panic of f is
// the caller's.
func apart(f func()) {
	done := make(chan any)
	go func() {
		defer func() { done <- recover() }()
		f()
	}()
	if fault := <-done; fault != nil {
		panic(fault)
	}
}
