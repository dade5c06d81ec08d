package wire

import (
	"testing"
	"time"
)

func TestAuthLimitBoundsConnections(t *testing.T) {
	l := NewAuthLimit(MaxUnauthenticated+1, 1, time.Minute)
	var waits []*AuthWait
	for range MaxUnauthenticated {
		waits = append(waits, l.Take("a"))
	}
	if l.Take("a") != nil {
		t.Error("an address has too many connections")
	}
	other := l.Take("b")
	if other == nil || l.Take("c") != nil {
		t.Error("the total is not the limit")
	}
	waits[0].End()
	waits[0].End() // releases once
	if l.Take("a") == nil || l.Take("a") != nil {
		t.Error("End does not make room for one connection")
	}
	for _, w := range append(waits[1:], other, nil) {
		w.End()
	}
}
