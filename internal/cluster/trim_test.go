package cluster

import (
	"testing"
	"time"
)

func TestWhatIsTrimmedIsOnTheDisksOfAllNodesThatWereHeard(t *testing.T) {
	now := time.Now()
	peer := func(synced Pos, ago time.Duration) Heartbeat { return Heartbeat{Synced: synced, Heard: now.Add(-ago)} }
	size := func(bytes int64) LogSize { return LogSize{First: 1, Last: 1000, Bytes: bytes} }
	rule := TrimRule{Keep: time.Hour, Bytes: 1000, Nodes: 3}
	for _, c := range []struct {
		name        string
		synced, old Pos
		peers       []Heartbeat
		size        LogSize
		want        Pos
	}{
		{"all have it for an hour", 1000, 700, []Heartbeat{peer(1000, 0), peer(1000, 0)}, size(900), 700},
		{"one is behind", 1000, 700, []Heartbeat{peer(1000, 0), peer(300, 0)}, size(900), 300},
		{"one is away for half an hour", 1000, 700, []Heartbeat{peer(1000, 0), peer(300, time.Hour/2)}, size(900), 300},
		{"one is away for two hours", 1000, 700, []Heartbeat{peer(1000, 0), peer(300, 2*time.Hour)}, size(900), 700},
		{"one was never heard", 1000, 700, []Heartbeat{peer(600, 0)}, size(900), 600},
		{"no other node was heard", 1000, 700, nil, size(9000), 0},
		{"this node has synced less", 500, 700, []Heartbeat{peer(1000, 0), peer(1000, 0)}, size(900), 500},
		{"this node runs for less than an hour", 1000, 0, []Heartbeat{peer(1000, 0), peer(1000, 0)}, size(900), 0},
		{"too large", 1000, 0, []Heartbeat{peer(1000, 0), peer(300, 0)}, size(2000), 625},
		{"too large, and a majority has little", 1000, 0, []Heartbeat{peer(400, 0), peer(300, 0)}, size(2000), 400},
	} {
		if got := rule.UpTo(c.synced, c.old, c.peers, c.size, now); got != c.want {
			t.Errorf("%s: trimmed up to %d, want %d", c.name, got, c.want)
		}
	}
}
