package auth

import (
	"cmp"
	"context"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/parley-hq/parley/chat"
)

// Carrier is the part of a request or protocol that contains a credential.
type Carrier string

// The carriers.
const (
	CarrierHeader Carrier = "authorization"
	CarrierKey    Carrier = "api_key"
	CarrierQuery  Carrier = "query"
	CarrierCookie Carrier = "cookie"
	CarrierLink   Carrier = "link"
	CarrierFrame  Carrier = "frame" // a message of a dialect
	CarrierNATS   Carrier = "nats"
)

// Carriers lists all of them.
var Carriers = []Carrier{CarrierHeader, CarrierKey, CarrierQuery, CarrierCookie, CarrierLink, CarrierFrame, CarrierNATS}

// The limits for wrong credentials from one address. A valid credential is always
// accepted, because many people may share one address.
const (
	failureBurst = 20
	failureRate  = rate.Limit(1) // a second
	failureLog   = time.Minute   // between two log lines about one address
	maxAddresses = 10_000
)

// failures counts refused credentials by carrier and by address.
type failures struct {
	now    func() time.Time
	counts map[Carrier]*atomic.Uint64

	mu        sync.Mutex
	addresses map[string]*address
}

// address is an address that wrong credentials came from.
type address struct {
	bucket *rate.Limiter
	logged time.Time
	count  int // since it was logged
}

func newFailures(now func() time.Time) *failures {
	f := &failures{now: now, counts: map[Carrier]*atomic.Uint64{}, addresses: map[string]*address{}}
	for _, c := range Carriers {
		f.counts[c] = new(atomic.Uint64)
	}
	return f
}

// Failures is how many credentials were refused, by what carried them.
func (a *Auth) Failures(c Carrier) uint64 { return a.failures.counts[c].Load() }

// Refused counts a credential that another package has checked and refused, such as one
// for NATS. The context contains where it came from: see [Via].
func (a *Auth) Refused(ctx context.Context, err error) error {
	v := requestOf(ctx)
	return a.refused(ctx, cmp.Or(v.carrier, CarrierFrame), v.address, err)
}

// refused counts a credential that was refused with err, and returns the error to
// answer with: slow_down when too many came from the address. Expired credentials and
// cookies are not limited: the first were valid, the second cannot be guessed, and
// their clients must be able to see that they have to sign in again.
func (a *Auth) refused(ctx context.Context, carrier Carrier, address string, err error) error {
	if chat.CodeOf(err) != chat.Unauthenticated {
		return err
	}
	a.failures.counts[carrier].Add(1)
	wait, tell := a.failures.add(address)
	if tell > 0 {
		a.opt.Logger.WarnContext(ctx, "sign-ins were refused", "address", address, "carrier", carrier, "refused", tell, "err", chat.Public(err).Msg)
		a.Report(SignInRefused, chat.Caller{}, map[string]any{"address": address, "carrier": string(carrier), "refused": tell, "reason": chat.Public(err).Msg})
	}
	if wait <= 0 || carrier == CarrierCookie || wasValid(err) {
		return err
	}
	seconds := int(math.Ceil(wait.Seconds()))
	return chat.Errorf(chat.SlowDown, "too many wrong credentials came from this address: wait %d s before the next attempt; a valid credential is accepted at once", seconds).
		With("retry_after", seconds)
}

// add counts a failure of an address. It returns how long to wait before the
// next one, and how many failures to log now, 0 for none.
func (f *failures) add(from string) (wait time.Duration, tell int) {
	now := f.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.addresses[from]
	if o == nil {
		evict(f.addresses, maxAddresses, func(old *address) bool {
			return old.bucket.TokensAt(now) >= failureBurst && now.Sub(old.logged) >= failureLog
		})
		o = &address{bucket: rate.NewLimiter(failureRate, failureBurst)}
		f.addresses[from] = o
	}
	o.count++
	if o.logged.IsZero() || now.Sub(o.logged) >= failureLog {
		tell, o.count, o.logged = o.count, 0, now
	}
	r := o.bucket.ReserveN(now, 1)
	if wait = r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
	}
	return wait, tell
}

// ClientAddress returns the address that a request comes from. Behind a trusted proxy it is
// the one that the proxy added last. IPv6 addresses of one /64 are one address.
func (a *Auth) ClientAddress(r *http.Request) string {
	if a.opt.TrustedProxy {
		if all := r.Header.Values("X-Forwarded-For"); len(all) > 0 {
			list := strings.Split(all[len(all)-1], ",")
			return host(strings.TrimSpace(list[len(list)-1]))
		}
	}
	return host(r.RemoteAddr)
}

// host returns an address without its port. For IPv6 it is the /64 network, which
// usually belongs to one client.
func host(s string) string {
	if h, _, err := net.SplitHostPort(s); err == nil {
		s = h
	}
	ip, err := netip.ParseAddr(strings.Trim(s, "[]"))
	if err != nil {
		return "unknown"
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is6() && !ip.IsLoopback() {
		if p, err := ip.Prefix(64); err == nil {
			return p.String()
		}
	}
	return ip.String()
}
