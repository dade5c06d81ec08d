package cluster

import (
	"testing"
	"time"
)

func TestAClockThatDiffersFromTheOthersIsNoticed(t *testing.T) {
	now := time.Now()
	heard := func(offsets ...time.Duration) time.Duration {
		var c Clocks
		for i, ahead := range offsets {
			for k := range 8 {
				late := time.Duration(0)
				if k%2 == 1 {
					late = 3 * time.Second // a heartbeat that waited while this process was paused
				}
				c.Heard(string(rune('a'+i)), now.Add(ahead-late), now)
			}
		}
		return c.Own(now)
	}
	for _, c := range []struct {
		offsets []time.Duration
		want    time.Duration
	}{
		{nil, 0},
		{[]time.Duration{time.Minute}, 0},
		{[]time.Duration{0, time.Minute}, 0},
		{[]time.Duration{time.Minute, time.Minute}, -time.Minute},
		{[]time.Duration{-time.Minute, -time.Minute + time.Millisecond}, time.Minute - time.Millisecond},
		{[]time.Duration{0, 0, time.Minute, time.Minute}, 0},
	} {
		if got := heard(c.offsets...); got != c.want {
			t.Errorf("the others are ahead by %v: own offset %v, want %v", c.offsets, got, c.want)
		}
	}
}
