package load

import (
	"math/bits"
	"time"
)

// Histogram counts durations in buckets that are at most 1/16 wide, in microseconds.
// The zero value is ready.
type Histogram struct {
	count   uint64
	buckets [64 * 16]uint64
}

// Add counts one duration; negative ones count as zero.
func (h *Histogram) Add(d time.Duration) {
	h.count++
	h.buckets[bucketOf(uint64(max(d, 0)/time.Microsecond))]++
}

// Merge adds what another one counted.
func (h *Histogram) Merge(o *Histogram) {
	h.count += o.count
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
}

// Count is how many were added.
func (h *Histogram) Count() uint64 { return h.count }

// Quantile returns the duration below which the share q of all lies, 0 when
// nothing was counted.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	want := uint64(q * float64(h.count))
	var seen uint64
	for i, n := range h.buckets {
		if seen += n; seen > want {
			return time.Duration(middleOf(i)) * time.Microsecond
		}
	}
	return time.Duration(middleOf(len(h.buckets)-1)) * time.Microsecond
}

func bucketOf(us uint64) int {
	if us < 32 {
		return int(us)
	}
	shift := bits.Len64(us) - 5
	return shift*16 + int(us>>shift)
}

// middleOf is the value that stands for a bucket.
func middleOf(i int) uint64 {
	if i < 32 {
		return uint64(i)
	}
	shift := i/16 - 1
	low := uint64(i-shift*16) << shift
	return low + 1<<shift/2
}
