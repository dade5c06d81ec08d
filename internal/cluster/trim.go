package cluster

import (
	"cmp"
	"slices"
	"time"
)

// TrimRule says how much of a partition's log is kept. A node that needs what was trimmed gets the copy of another node.
type TrimRule struct {
	Keep  time.Duration // for how long a frame stays, and for how long a silent node can come back without a copy [1 h]
	Bytes int64         // a larger log is trimmed to three quarters of this, although nodes need more of it [2 GiB]
	Nodes int           // of the cluster
}

// WithDefaults returns the rule with the values in brackets for those that are 0.
func (r TrimRule) WithDefaults() TrimRule {
	r.Keep = cmp.Or(r.Keep, time.Hour)
	r.Bytes = cmp.Or(r.Bytes, 2<<30)
	return r
}

// LogSize is what a partition's log has.
type LogSize struct {
	First, Last Pos // as of Log.Ends
	Bytes       int64
}

// UpTo returns the position up to which the log can be trimmed. synced is what this node has on disk, old what it had applied
// Keep ago, 0 if it does not know. What is trimmed is on the disks of a majority, and of all nodes that were heard within Keep
// unless the log is too large.
func (r TrimRule) UpTo(synced, old Pos, peers []Heartbeat, size LogSize, now time.Time) Pos {
	all, upTo := []Pos{synced}, min(synced, old)
	for _, h := range peers {
		all = append(all, h.Synced)
		if now.Sub(h.Heard) < r.Keep {
			upTo = min(upTo, h.Synced)
		}
	}
	if len(all) <= r.Nodes/2 {
		return 0 // this node does not know what a majority has
	}
	slices.SortFunc(all, func(a, b Pos) int { return cmp.Compare(b, a) })
	majority := all[r.Nodes/2]
	if size.Bytes > r.Bytes && size.Last >= size.First {
		frames := size.Last - size.First + 1
		keep := Pos(float64(frames) * float64(r.Bytes) / float64(size.Bytes) * 3 / 4)
		upTo = max(upTo, size.Last-keep)
	}
	return min(upTo, majority)
}
