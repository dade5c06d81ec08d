package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
)

// Auth knows who may come in. Make it with [New].
type Auth struct {
	opt      Options
	tokens   []hashed
	jwt      *verifier // nil when JWTs are not accepted
	sessions *sessions
	limits   *limits
	cross    *http.CrossOriginProtection
	issueKey []byte // signs tokens that we make; empty when we make none
}

// hashed is a token by its hash: comparing hashes in constant time gives away
// neither the token nor its length.
type hashed struct {
	sum    [sha256.Size]byte
	caller chat.Caller
}

// Local is the caller in open mode.
var Local = chat.Caller{
	Actor:  chat.Actor{Kind: chat.User, ID: "local"},
	Scopes: []chat.Scope{chat.ScopeUser, chat.ScopeAgent, chat.ScopeAdmin},

	AllWorkspaces: true,
	Agents:        []string{chat.AnyAgent},
}

// New checks the options and reads the key file if there is one.
func New(opt Options) (*Auth, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	opt.SessionTTL = cmp.Or(opt.SessionTTL, 12*time.Hour)
	a := &Auth{opt: opt, sessions: newSessions(opt.Now), cross: http.NewCrossOriginProtection()}
	for _, t := range opt.Tokens {
		a.tokens = append(a.tokens, hashed{
			sum:    sha256.Sum256([]byte(t.Token)),
			caller: chat.Caller{Actor: t.Actor, Workspace: t.Workspace, Scopes: slices.Clone(t.Scopes)},
		})
	}
	if opt.JWT.used() {
		var err error
		if a.jwt, err = newVerifier(opt.JWT, opt.Now); err != nil {
			return nil, err
		}
	}
	for _, o := range opt.AllowOrigins {
		if err := a.cross.AddTrustedOrigin(o); err != nil {
			return nil, err
		}
	}
	a.limits = newLimits(opt, a.Open())
	return a, nil
}

// Open reports whether nobody needs to say who they are.
func (a *Auth) Open() bool { return len(a.tokens) == 0 && a.jwt == nil }

// CookieName is the cookie of a signed-in browser.
const CookieName = "parley_session"

// KeyHeader carries a token for clients that have API keys.
const KeyHeader = "X-API-Key"

// QueryParam carries a token where a route allows it in the address.
const QueryParam = "access_token"

const howTo = "send the header `Authorization: Bearer TOKEN` with a token that the operator of this server gave you, or sign in with the link that `parley serve` prints"

// Caller returns who makes the request: the caller that a middleware has found
// before (see [With]), else by the Authorization header (Bearer, or Basic with a
// token as the password), else by X-API-Key, else by the cookie. In open mode it
// is [Local], whatever the request carries. The error has the code
// unauthenticated, or unavailable when keys could not be fetched.
func (a *Auth) Caller(r *http.Request) (chat.Caller, error) {
	if c, ok := From(r.Context()); ok {
		return c, nil
	}
	if a.Open() {
		return Local, nil
	}
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		if _, password, ok := r.BasicAuth(); ok {
			return a.Authenticate(r.Context(), password)
		}
		if !strings.EqualFold(scheme, "Bearer") {
			return chat.Caller{}, chat.Errorf(chat.Unauthenticated, "the Authorization header is not of the form `Bearer TOKEN`: %s", howTo)
		}
		return a.Authenticate(r.Context(), strings.TrimSpace(token))
	}
	if key := r.Header.Get(KeyHeader); key != "" {
		return a.Authenticate(r.Context(), key)
	}
	if cookie, err := r.Cookie(CookieName); err == nil {
		if c, ok := a.sessions.get(cookie.Value); ok {
			return c, nil
		}
		return chat.Caller{}, chat.Errorf(chat.Unauthenticated, "your sign-in has ended: sign in again, or %s", howTo)
	}
	return chat.Caller{}, chat.Errorf(chat.Unauthenticated, "this server needs to know who you are: %s", howTo)
}

// CallerOrQuery is [Auth.Caller] for routes that also take the token from the
// query parameter access_token, for clients that cannot set headers (EventSource
// and WebSocket in browsers). A header comes first.
func (a *Auth) CallerOrQuery(r *http.Request) (chat.Caller, error) {
	if _, ok := From(r.Context()); !ok && !a.Open() && r.Header.Get("Authorization") == "" && r.Header.Get(KeyHeader) == "" {
		if token := r.URL.Query().Get(QueryParam); token != "" {
			return a.Authenticate(r.Context(), token)
		}
	}
	return a.Caller(r)
}

// Authenticate returns whom a token stands for, for dialects that carry tokens
// elsewhere than in the usual header. In open mode every token is [Local].
func (a *Auth) Authenticate(ctx context.Context, token string) (chat.Caller, error) {
	if a.Open() {
		return Local, nil
	}
	sum := sha256.Sum256([]byte(token))
	found := -1
	for i := range a.tokens {
		if subtle.ConstantTimeCompare(sum[:], a.tokens[i].sum[:]) == 1 {
			found = i // no early end: the time must not tell which one it was
		}
	}
	if found >= 0 {
		return a.tokens[found].caller, nil
	}
	if c, ours, err := a.authenticateIssued(ctx, token); ours {
		return c, err
	}
	if a.jwt != nil && strings.Count(token, ".") == 2 {
		c, _, err := a.jwt.verify(ctx, token)
		return c, err
	}
	return chat.Caller{}, chat.Errorf(chat.Unauthenticated, "this token is not known here: check it for typing errors, or ask the operator of this server for a new one")
}

type callerKey struct{}

// With returns a context that carries the caller.
func With(ctx context.Context, c chat.Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// From returns the caller that [With] put there.
func From(ctx context.Context) (chat.Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(chat.Caller)
	return c, ok
}
