package core

import (
	"testing"

	"github.com/parley-hq/parley/chat"
)

func TestNumberFollowsFromTheSessionID(t *testing.T) {
	seen := map[chat.Number]bool{}
	for try := range 20 {
		n := NumberFor("s-1", try)
		if n == 0 || n>>NumberBits != 0 || seen[n] {
			t.Errorf("try %d gives %d", try, n)
		}
		seen[n] = true
	}
	if !seen[NumberFor("s-1", 0)] || seen[NumberFor("s-2", 0)] {
		t.Error("the number does not follow from the id")
	}
}

func TestPositionsRiseStrictly(t *testing.T) {
	if After(100, 50) != 100+AtStep || After(100, 500) != 500 || After(100, 101) != 100+AtStep {
		t.Error("positions do not rise")
	}
}
