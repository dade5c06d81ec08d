package auth

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-hq/parley/chat"
)

// Auth authenticates requests. Make it with [New].
type Auth struct {
	opt      Options
	open     bool                     // decided by New; a reload does not change it
	keys     atomic.Pointer[tokenSet] // the static tokens; see SetTokens
	jwt      *verifier                // nil when JWTs are not accepted
	signIns  *signIns
	limits   *limits
	failures *failures
	cross    *http.CrossOriginProtection
	issueKey []byte // signs the tokens of Issue; empty when there are none

	mu      sync.Mutex // serialises SetTokens
	revoked []func()   // called after tokens were removed, or a browser was signed out
}

// openCredential is the credential of [Local].
const openCredential = "open"

// Local is the caller in open mode.
var Local = chat.Caller{
	Actor:  chat.Actor{Kind: chat.User, ID: "local"},
	Scopes: []chat.Scope{chat.ScopeUser, chat.ScopeAgent, chat.ScopeAdmin},

	AllWorkspaces: true,
	Agents:        []string{chat.AnyAgent},
	Credential:    openCredential,
}

// New checks the options and reads the key file if there is one.
func New(opt Options) (*Auth, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	opt.SessionTTL = cmp.Or(opt.SessionTTL, 12*time.Hour)
	a := &Auth{opt: opt, open: len(opt.Tokens) == 0 && !opt.JWT.used(), cross: http.NewCrossOriginProtection()}
	a.signIns, a.failures = newSignIns(opt.Now), newFailures(opt.Now)
	if opt.JWT.used() {
		var err error
		if a.jwt, err = newVerifier(opt.JWT, opt.Now); err != nil {
			return nil, err
		}
	}
	a.keys.Store(a.newTokenSet(opt.Tokens))
	for _, o := range opt.AllowOrigins {
		if err := a.cross.AddTrustedOrigin(o); err != nil {
			return nil, err
		}
	}
	a.limits = newLimits(opt, a.open)
	return a, nil
}

// Open reports whether requests need no credential.
func (a *Auth) Open() bool { return a.open }

// CookieName is the cookie of a signed-in browser.
const CookieName = "parley_session"

// KeyHeader carries a token for clients that have API keys.
const KeyHeader = "X-API-Key"

// queryParam carries a token where a route allows it in the address.
const queryParam = "access_token"

const howTo = "send the header `Authorization: Bearer TOKEN` with a token that the operator of this server gave you, or sign in with the link that `parley serve` prints"

// Caller returns who makes the request: the caller that [Auth.Identify] has found
// before, else by the Authorization header (Bearer, or Basic with a token as the
// password), else by X-API-Key, else by the cookie. In open mode it is [Local],
// whatever the request carries. The error has the code unauthenticated; or
// slow_down when the address has sent too many wrong credentials; or unavailable
// when keys could not be fetched.
func (a *Auth) Caller(r *http.Request) (chat.Caller, error) { return a.caller(r, false) }

// Identify finds the caller of a request. If query is true, it also accepts the query
// parameter access_token, for clients that cannot set headers (EventSource and WebSocket
// in browsers); a header comes first. The context that it returns contains the result for [Auth.Caller], so that a
// credential is checked, and counted when it is wrong, once per request. It also
// contains the address of the request for [Auth.Authenticate].
func (a *Auth) Identify(r *http.Request, query bool) (context.Context, chat.Caller, error) {
	c, err := a.caller(r, query)
	v := requestInfo{caller: c, err: err, decided: true, carrier: CarrierFrame}
	if !a.open {
		v.address = a.ClientAddress(r)
	}
	return context.WithValue(r.Context(), requestKey{}, v), c, err
}

func (a *Auth) caller(r *http.Request, query bool) (chat.Caller, error) {
	if v := requestOf(r.Context()); v.decided {
		return v.caller, v.err
	}
	if a.open {
		return Local, nil
	}
	carrier, secret, err := carried(r, query)
	if err != nil {
		return chat.Caller{}, err
	}
	return a.authenticate(r.Context(), carrier, a.ClientAddress(r), secret)
}

// carried returns the credential of a request and what carried it.
func carried(r *http.Request, query bool) (carrier Carrier, secret string, err error) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		if _, password, ok := r.BasicAuth(); ok {
			return CarrierHeader, password, nil
		}
		if !strings.EqualFold(scheme, "Bearer") {
			return "", "", chat.Errorf(chat.Unauthenticated, "the Authorization header is not of the form `Bearer TOKEN`: %s", howTo)
		}
		return CarrierHeader, strings.TrimSpace(token), nil
	}
	if key := r.Header.Get(KeyHeader); key != "" {
		return CarrierKey, key, nil
	}
	if token := r.URL.Query().Get(queryParam); query && token != "" {
		return CarrierQuery, token, nil
	}
	if cookie, err := r.Cookie(CookieName); err == nil {
		return CarrierCookie, cookie.Value, nil
	}
	return "", "", chat.Errorf(chat.Unauthenticated, "authentication is required: %s", howTo)
}

// Authenticate returns the caller of a token, for dialects that carry tokens elsewhere
// than in a request's header. The context contains where it comes from: see
// [Auth.Identify] and [Via]. In open mode the caller is always [Local].
func (a *Auth) Authenticate(ctx context.Context, token string) (chat.Caller, error) {
	if a.open {
		return Local, nil
	}
	v := requestOf(ctx)
	return a.authenticate(ctx, cmp.Or(v.carrier, CarrierFrame), v.address, token)
}

// authenticate turns a credential into a caller, whatever carried it. Wrong ones are
// counted for the address.
func (a *Auth) authenticate(ctx context.Context, carrier Carrier, address, secret string) (chat.Caller, error) {
	c, err := a.resolve(ctx, carrier, secret)
	if err != nil {
		return chat.Caller{}, a.refused(ctx, carrier, address, err)
	}
	return c, nil
}

func (a *Auth) resolve(ctx context.Context, carrier Carrier, secret string) (chat.Caller, error) {
	if carrier == CarrierCookie {
		if c, ok := a.signIns.get(secret); ok && a.Check(c) == nil {
			return c, nil
		}
		return chat.Caller{}, chat.Errorf(chat.Unauthenticated, "your sign-in has ended: sign in again, or %s", howTo)
	}
	if t := a.keys.Load().find(secret); t != nil {
		return t.caller, nil
	}
	if c, ours, err := a.authenticateIssued(secret); ours {
		return c, err
	}
	if a.jwt != nil && strings.Count(secret, ".") == 2 {
		c, err := a.jwt.verify(ctx, secret)
		c.Credential = a.keys.Load().jwt + a.tag("jwt", secret)
		return c, err
	}
	return chat.Caller{}, errUnknown()
}

func errUnknown() error {
	return chat.Errorf(chat.Unauthenticated, "this token is unknown: check it for typing errors, or ask the operator of this server for a new one")
}

// requestInfo is the caller of a request and where its credential came from.
type requestInfo struct {
	caller  chat.Caller
	err     error
	decided bool // caller or err is set
	carrier Carrier
	address string
}

type requestKey struct{}

func requestOf(ctx context.Context) requestInfo {
	v, _ := ctx.Value(requestKey{}).(requestInfo)
	return v
}

// From returns the caller that [Auth.Identify] has found.
func From(ctx context.Context) (chat.Caller, bool) {
	v := requestOf(ctx)
	return v.caller, v.decided && v.err == nil
}

// ClientAddressOf returns the address that a request came from; "" when it is unknown, and in
// open mode.
func ClientAddressOf(ctx context.Context) string { return requestOf(ctx).address }

// Via returns a context that contains, for [Auth.Authenticate], what carries a
// credential and the address that it comes from.
func Via(ctx context.Context, carrier Carrier, address string) context.Context {
	v := requestOf(ctx)
	v.carrier, v.address = carrier, host(address)
	return context.WithValue(ctx, requestKey{}, v)
}
