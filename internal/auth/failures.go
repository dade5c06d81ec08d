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

// Carrier is what brought a credential to the server.
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

// The bounds of wrong credentials from one address. A right credential is always
// accepted, whatever else comes from its address: many people may share one.
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
	addresses map[string]*offender
}

// offender is an address that wrong credentials came from.
type offender struct {
	bucket *rate.Limiter
	logged time.Time
	count  int // since it was logged
}

func newFailures(now func() time.Time) *failures {
	f := &failures{now: now, counts: map[Carrier]*atomic.Uint64{}, addresses: map[string]*offender{}}
	for _, c := range Carriers {
		f.counts[c] = new(atomic.Uint64)
	}
	return f
}

// Failures is how many credentials were refused, by what carried them.
func (a *Auth) Failures(c Carrier) uint64 { return a.failures.counts[c].Load() }

// Refused counts a credential that somebody else has checked and refused, such as
// one for NATS. The context says where it came from: see [Via].
func (a *Auth) Refused(ctx context.Context, err error) error {
	v := visitOf(ctx)
	return a.refused(ctx, cmp.Or(v.carrier, CarrierFrame), v.remote, err)
}

// refused counts a credential that was refused with err, and returns the error to
// answer with: slow_down when too many came from the address. Expired credentials
// and cookies are not limited: the first are genuine, the second cannot be
// guessed, and their clients must learn that they have to sign in again.
func (a *Auth) refused(ctx context.Context, carrier Carrier, remote string, err error) error {
	if chat.CodeOf(err) != chat.Unauthenticated {
		return err
	}
	a.failures.counts[carrier].Add(1)
	wait, tell := a.failures.add(remote)
	if tell > 0 {
		a.opt.Logger.WarnContext(ctx, "sign-ins were refused", "address", remote, "carrier", carrier, "refused", tell, "err", chat.Public(err).Msg)
		a.Report(SignInRefused, chat.Caller{}, map[string]any{"address": remote, "carrier": string(carrier), "refused": tell, "reason": chat.Public(err).Msg})
	}
	if wait <= 0 || carrier == CarrierCookie || genuine(err) {
		return err
	}
	seconds := int(math.Ceil(wait.Seconds()))
	return chat.Errorf(chat.SlowDown, "too many wrong credentials came from this address: wait %d s before the next attempt; a right credential is accepted at once", seconds).
		With("retry_after", seconds)
}

// add counts a failure of an address. It returns how long to wait before the
// next one, and how many failures to log now, 0 for none.
func (f *failures) add(remote string) (wait time.Duration, tell int) {
	now := f.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.addresses[remote]
	if o == nil {
		f.makeRoom(now)
		o = &offender{bucket: rate.NewLimiter(failureRate, failureBurst)}
		f.addresses[remote] = o
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

// makeRoom drops addresses that may do as much as unknown ones, then any.
func (f *failures) makeRoom(now time.Time) {
	if len(f.addresses) < maxAddresses {
		return
	}
	for k, o := range f.addresses {
		if o.bucket.TokensAt(now) >= failureBurst && now.Sub(o.logged) >= failureLog {
			delete(f.addresses, k)
		}
	}
	for k := range f.addresses {
		if len(f.addresses) < maxAddresses {
			break
		}
		delete(f.addresses, k)
	}
}

// remote is the address that a request comes from. Behind a trusted proxy it is
// the one that the proxy added last.
func (a *Auth) remote(r *http.Request) string {
	if a.opt.TrustedProxy {
		if all := r.Header.Values("X-Forwarded-For"); len(all) > 0 {
			list := strings.Split(all[len(all)-1], ",")
			return host(strings.TrimSpace(list[len(list)-1]))
		}
	}
	return host(r.RemoteAddr)
}

// host is an address without its port. IPv6 clients have a whole /64 to
// themselves, so that stands for one client.
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
