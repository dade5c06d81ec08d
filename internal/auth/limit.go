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
	// maxBuckets bounds the memory for actors; a bucket that has filled up again
	// is as good as none and is dropped first.
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

// AllowN counts something that is as much work as n requests, or as many as are
// allowed at once.
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
	if len(l.buckets) >= maxBuckets {
		for k, b := range l.buckets {
			if b.TokensAt(now) >= float64(l.burst) {
				delete(l.buckets, k)
			}
		}
		for k := range l.buckets {
			if len(l.buckets) < maxBuckets {
				break
			}
			delete(l.buckets, k)
		}
	}
	b := rate.NewLimiter(l.rate, l.burst)
	l.buckets[key] = b
	return b
}
