package keylock

import (
	"sync"
	"testing"
)

func TestOneHolderPerKey(t *testing.T) {
	var l Locks
	var wg sync.WaitGroup
	n := 0
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				unlock := l.Lock("a")
				n++
				unlock()
			}
		})
	}
	wg.Wait()
	if n != 8000 {
		t.Errorf("%d of 8000", n)
	}
}
