package auth

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/parley-hq/parley/chat"
)

const (
	defaultRate = 2000
	// maxBuckets bounds the memory for actors. A full bucket is not needed and is
	// dropped first.
	maxBuckets = 50_000
)

// limits holds a token bucket per actor.
type limits struct {
	rate  rate.Limit // 0 means no limit
	burst int
	now   func() time.Time

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
}

func newLimits(o Options, open bool) *limits {
	l := &limits{rate: rate.Limit(o.Rate), burst: o.Burst, now: o.Now, buckets: map[string]*rate.Limiter{}}
	if l.rate == 0 && !open {
		l.rate = defaultRate
	}
	if l.rate < 0 {
		l.rate = 0
	}
	if l.burst <= 0 {
		l.burst = int(math.Ceil(2 * float64(l.rate)))
	}
	return l
}

// Allow counts one request of c. Over the limit it returns an error with the
// code slow_down and the seconds to wait in its detail retry_after.
func (a *Auth) Allow(c chat.Caller) error { return a.AllowN(c, 1) }

// AllowN counts work that is equal to n requests, at most the burst.
func (a *Auth) AllowN(c chat.Caller, n int) error {
	l := a.limits
	if l.rate == 0 || n <= 0 {
		return nil
	}
	now := l.now()
	r := l.bucket(c.In()+"/"+c.Actor.Key(), now).ReserveN(now, min(n, l.burst))
	if wait := r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		seconds := int(math.Ceil(wait.Seconds()))
		return chat.Errorf(chat.SlowDown, "too many requests at once: wait %d s and try again; arrays need fewer requests", seconds).
			With("retry_after", seconds)
	}
	return nil
}

func (l *limits) bucket(key string, now time.Time) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b, ok := l.buckets[key]; ok {
		return b
	}
	evict(l.buckets, maxBuckets, func(b *rate.Limiter) bool { return b.TokensAt(now) >= float64(l.burst) })
	b := rate.NewLimiter(l.rate, l.burst)
	l.buckets[key] = b
	return b
}

// evict makes room for one entry in a full map: it deletes the entries that are not
// needed, and when there are none, any.
func evict[V any](m map[string]V, max int, unneeded func(V) bool) {
	if len(m) < max {
		return
	}
	for k, v := range m {
		if unneeded(v) {
			delete(m, k)
		}
	}
	for k := range m {
		if len(m) < max {
			return
		}
		delete(m, k)
	}
}
