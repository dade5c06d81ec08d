package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

const (
	linkTTL      = 10 * time.Minute
	maxSignIns   = 10_000
	maxLinks     = 100
	removedShare = 64  // makeRoom removes one entry of an actor, and one more for each 64 that it has
	signInCost   = 100 // as how many requests a sign-in counts, because it is kept for hours
)

// signIns keeps signed-in browsers and one-time codes in memory: keys are random, are
// stored only as hashes, can be revoked at once, and are not on disk. After a restart
// browsers sign in again. In a cluster they are signed instead; see sharedSignIns.
type signIns struct {
	now    func() time.Time
	shared *sharedSignIns // nil on a single server

	mu    sync.Mutex
	live  map[[sha256.Size]byte]signIn
	links map[[sha256.Size]byte]signIn
}

type signIn struct {
	caller chat.Caller
	until  time.Time // when the key ends; the caller's credential may end before

	live context.Context // ends when the key is removed
	end  context.CancelFunc
}

func newSignIns(now func() time.Time) *signIns {
	return &signIns{now: now, live: map[[sha256.Size]byte]signIn{}, links: map[[sha256.Size]byte]signIn{}}
}

// put stores a signIn under a new random key.
func (s *signIns) put(m map[[sha256.Size]byte]signIn, most int, c chat.Caller, until time.Time) string {
	c.SignIn = "" // it becomes that of the new key
	g := signIn{caller: c, until: until}
	g.live, g.end = context.WithCancel(context.Background())
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // does not fail
	key := base64.RawURLEncoding.EncodeToString(raw[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	makeRoom(m, most, s.now())
	m[sha256.Sum256([]byte(key))] = g
	return key
}

// makeRoom makes room for one entry in a full map. It removes what has ended; if nothing has, it removes what ends first of
// the actor with most entries, so that no actor can sign out others. Of an actor with many entries it removes several, because
// looking at all entries takes milliseconds and must not be needed for each request. The caller holds the lock of the map.
func makeRoom[K comparable](m map[K]signIn, most int, now time.Time) {
	if len(m) < most {
		return
	}
	counts := map[string]int{}
	busiest := ""
	for k, g := range m {
		if !now.Before(g.until) {
			remove(m, k)
			continue
		}
		actor := g.caller.In() + " " + g.caller.Actor.Key()
		if counts[actor]++; counts[actor] > counts[busiest] {
			busiest = actor
		}
	}
	if len(m) < most {
		return
	}
	var keys []K
	for k, g := range m {
		if g.caller.In()+" "+g.caller.Actor.Key() == busiest {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b K) int { return m[a].until.Compare(m[b].until) })
	for _, k := range keys[:1+len(keys)/removedShare] {
		remove(m, k)
	}
}

// remove ends a signIn and the connections that were opened with it. The caller holds the map's lock.
func remove[K comparable](m map[K]signIn, key K) {
	if g, ok := m[key]; ok {
		g.end()
		delete(m, key)
	}
}

func (s *signIns) get(key string) (chat.Caller, bool) {
	if s.shared != nil {
		return s.shared.get(key)
	}
	sum := sha256.Sum256([]byte(key))
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.live[sum]
	if ok && !s.now().Before(g.until) {
		remove(s.live, sum)
		ok = false
	}
	g.caller.SignIn = hex.EncodeToString(sum[:])
	return g.caller, ok
}

// signedIn returns a context that ends when a browser is signed out, nil when it was
// signed out already.
func (s *signIns) signedIn(c chat.Caller) context.Context {
	if s.shared != nil {
		return s.shared.signedIn(c)
	}
	id := c.SignIn
	var sum [sha256.Size]byte
	if n, err := hex.Decode(sum[:], []byte(id)); err != nil || n != len(sum) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[sum].live
}

// drop removes all sign-ins whose caller fits.
func (s *signIns) drop(fits func(chat.Caller) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range []map[[sha256.Size]byte]signIn{s.live, s.links} {
		for k, g := range m {
			if fits(g.caller) {
				remove(m, k)
			}
		}
	}
}

// end signs a browser out. was is false if it was not signed in.
func (s *signIns) end(ctx context.Context, key string) (was bool, err error) {
	if s.shared != nil {
		return s.shared.end(ctx, key)
	}
	sum := sha256.Sum256([]byte(key))
	s.mu.Lock()
	defer s.mu.Unlock()
	_, was = s.live[sum]
	remove(s.live, sum)
	return was, nil
}

// redeem uses up a one-time code.
func (s *signIns) redeem(ctx context.Context, code string) (chat.Caller, bool, error) {
	if s.shared != nil {
		return s.shared.redeem(ctx, code)
	}
	sum := sha256.Sum256([]byte(code))
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.links[sum]
	remove(s.links, sum)
	return g.caller, ok && s.now().Before(g.until), nil
}

// Link makes a one-time code that signs a browser in as c within ten minutes,
// by opening [LinkPath] with it. It is not valid after c's credential has ended.
func (a *Auth) Link(c chat.Caller) string {
	if s := a.signIns.shared; s != nil {
		return s.make(linkIssuer, c, a.opt.Now().Add(linkTTL))
	}
	return a.signIns.put(a.signIns.links, maxLinks, c, a.opt.Now().Add(linkTTL))
}

// The addresses that [Auth.Handler] answers.
const (
	LinkPath    = "/auth/link"    // GET ?code=: signs in with a one-time code, then goes to /
	SessionPath = "/auth/session" // POST with a token signs in, GET returns the caller, DELETE signs out and ends the streams and sockets of the cookie
)

// SignInURL is the address of a one-time link below base, like http://127.0.0.1:8000.
func (a *Auth) SignInURL(base string, c chat.Caller) string {
	return strings.TrimSuffix(base, "/") + LinkPath + "?code=" + a.Link(c)
}

// Handler signs browsers in and out; it serves [LinkPath] and [SessionPath].
// The rules for host, origin and content type are checked before it. fail
// answers an error in the server's form.
func (a *Auth) Handler(fail func(http.ResponseWriter, *http.Request, error)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+LinkPath, func(w http.ResponseWriter, r *http.Request) {
		// A HEAD or a prefetch must not use up the code.
		if r.Method != http.MethodGet || strings.HasPrefix(r.Header.Get("Sec-Purpose"), "prefetch") {
			fail(w, r, chat.Errorf(chat.Invalid, "open the link itself to sign in"))
			return
		}
		c, ok, err := a.signIns.redeem(r.Context(), r.URL.Query().Get("code"))
		if err != nil {
			fail(w, r, err)
			return
		}
		ok = ok && a.Check(c) == nil
		if !ok && !a.Open() {
			err := chat.Errorf(chat.Unauthenticated, "this sign-in link was used before or is older than ten minutes: `parley serve` prints a new one when it starts")
			fail(w, r, a.refused(r.Context(), CarrierLink, a.ClientAddress(r), err))
			return
		}
		if ok && !a.Open() {
			a.setCookie(w, r, c, CarrierLink)
		}
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
	session := func(w http.ResponseWriter, r *http.Request) {
		c, err := a.Caller(r)
		if err != nil {
			fail(w, r, err)
			return
		}
		// What a browser that is signed in gets by its sign-in ends with that: it gets no other cookie.
		if r.Method == http.MethodPost && !a.Open() && c.SignIn == "" {
			if err := a.AllowN(c, signInCost); err != nil {
				fail(w, r, err)
				return
			}
			a.setCookie(w, r, c, "token")
		}
		whoami(w, c, a.Open())
	}
	mux.HandleFunc("POST "+SessionPath, session)
	mux.HandleFunc("GET "+SessionPath, session)
	mux.HandleFunc("DELETE "+SessionPath, func(w http.ResponseWriter, r *http.Request) {
		var was bool
		var failed error
		if cookie, err := r.Cookie(CookieName); err == nil {
			was, failed = a.signIns.end(r.Context(), cookie.Value)
		}
		if was {
			a.tellRevoked()
		}
		if failed != nil {
			fail(w, r, failed)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: CookieName, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: a.secure(r)})
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// setCookie signs a browser in, for as long as the credential lasts at most.
func (a *Auth) setCookie(w http.ResponseWriter, r *http.Request, c chat.Caller, by Carrier) {
	c = expireBy(c, a.opt.Now().Add(a.opt.SessionTTL))
	key := ""
	if s := a.signIns.shared; s != nil {
		key = s.make(cookieIssuer, c, c.Expires)
	} else {
		key = a.signIns.put(a.signIns.live, maxSignIns, c, c.Expires)
	}
	http.SetCookie(w, &http.Cookie{
		Name: CookieName, Value: key, Path: "/", Expires: c.Expires,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: a.secure(r),
	})
	a.Report(SignedIn, c, map[string]any{"by": string(by), "address": a.ClientAddress(r)})
}

// secure reports whether the browser uses https.
func (a *Auth) secure(r *http.Request) bool {
	return r.TLS != nil || a.opt.TrustedProxy && r.Header.Get("X-Forwarded-Proto") == "https"
}

func whoami(w http.ResponseWriter, c chat.Caller, open bool) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(map[string]any{ // the client has gone if this fails
		"actor": c.Actor, "workspace": c.In(), "scopes": c.Scopes, "open": open,
	})
}
