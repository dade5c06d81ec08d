package auth

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/parley-hq/parley/chat"
)

// SignInLog stores what all nodes of a cluster must know about sign-ins.
type SignInLog interface {
	// UseLink stores that a link was used. used is true if it had been used before, on any node.
	UseLink(ctx context.Context, id string, until time.Time) (used bool, err error)
	// SignOut stores that a browser was signed out. Every node calls [Auth.SignedOut] then.
	SignOut(ctx context.Context, id string, until time.Time) error
}

// ShareSignIns makes cookies and one-time links valid on all nodes that have the same key. They are signed instead of kept in
// memory, so browsers also stay signed in when a node starts again. It is called before anything is served.
func (a *Auth) ShareSignIns(key []byte, log SignInLog) {
	a.signIns.shared = &sharedSignIns{key: key, log: log, now: a.opt.Now, out: map[string]time.Time{}, live: map[string]signIn{}}
}

// SignedOut ends a sign-in on this node, and the connections that were opened with it. until is when its cookie ends.
func (a *Auth) SignedOut(id string, until time.Time) {
	if s := a.signIns.shared; s != nil && s.signedOut(id, until) {
		a.tellRevoked()
	}
}

// sharedSignIns are the sign-ins of a cluster.
type sharedSignIns struct {
	key []byte
	log SignInLog
	now func() time.Time

	mu        sync.Mutex
	out       map[string]time.Time // the browsers that were signed out, and when their cookies end
	pruneFrom int                  // size of out from which what has ended is removed
	live      map[string]signIn    // the browsers with connections to this node
}

// The issuers of what is signed. The key is used for nothing else.
const (
	cookieIssuer = "parley:cookie"
	linkIssuer   = "parley:link"
)

// signInClaims are the claims of a cookie or a link.
type signInClaims struct {
	jwt.RegisteredClaims
	Actor     chat.Actor   `json:"actor"`
	Workspace string       `json:"workspace,omitempty"`
	Scopes    []chat.Scope `json:"scopes"`
	All       bool         `json:"all_workspaces,omitempty"`
	Agents    []string     `json:"agents,omitempty"`
	Key       string       `json:"key"`                // the credential that it was made from
	KeyEnds   int64        `json:"key_ends,omitempty"` // when that ends, in Unix seconds
	Issued    bool         `json:"issued,omitempty"`
}

// make signs a cookie or a link for a caller.
func (s *sharedSignIns) make(issuer string, c chat.Caller, until time.Time) string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // does not fail
	claims := signInClaims{
		RegisteredClaims: jwt.RegisteredClaims{Issuer: issuer, ID: hex.EncodeToString(id[:]), ExpiresAt: jwt.NewNumericDate(until)},
		Actor:            c.Actor, Workspace: c.Workspace, Scopes: c.Scopes, All: c.AllWorkspaces, Agents: c.Agents, Key: c.Credential, Issued: c.Issued,
	}
	if !c.Expires.IsZero() {
		claims.KeyEnds = c.Expires.Unix()
	}
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(s.key)
	if err != nil {
		return "" // does not happen: an HMAC takes every key
	}
	return signed
}

// read returns the caller of a cookie or a link, and when the cookie or link ends.
func (s *sharedSignIns) read(issuer, signed string) (c chat.Caller, id string, until time.Time, ok bool) {
	var claims signInClaims
	parser := jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired(), jwt.WithIssuer(issuer), jwt.WithTimeFunc(s.now))
	_, err := parser.ParseWithClaims(signed, &claims, func(*jwt.Token) (any, error) { return s.key, nil })
	if err != nil || claims.ID == "" || claims.Key == "" {
		return chat.Caller{}, "", time.Time{}, false
	}
	c = chat.Caller{
		Actor: claims.Actor, Workspace: claims.Workspace, Scopes: claims.Scopes, AllWorkspaces: claims.All, Agents: claims.Agents,
		Credential: claims.Key, Issued: claims.Issued,
	}
	if claims.KeyEnds != 0 {
		c.Expires = time.Unix(claims.KeyEnds, 0)
	}
	return c, claims.ID, claims.ExpiresAt.Time, true
}

// get returns the caller of a cookie.
func (s *sharedSignIns) get(cookie string) (chat.Caller, bool) {
	c, id, until, ok := s.read(cookieIssuer, cookie)
	if !ok {
		return c, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, out := s.out[id]; out {
		return chat.Caller{}, false
	}
	c.SignIn = id
	return expireBy(c, until), true
}

// signedIn returns a context that ends when a browser is signed out, nil when it was signed out already.
func (s *sharedSignIns) signedIn(c chat.Caller) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, out := s.out[c.SignIn]; out {
		return nil
	}
	g, ok := s.live[c.SignIn]
	if !ok {
		makeRoom(s.live, maxSignIns, s.now()) // connections may end, and their browsers connect again
		g.caller, g.until = c, c.Expires
		g.live, g.end = context.WithCancel(context.Background())
		s.live[c.SignIn] = g
	}
	return g.live
}

// signedOut stores that a browser was signed out. It reports whether that is new.
func (s *sharedSignIns) signedOut(id string, until time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if _, out := s.out[id]; out || !now.Before(until) { // or its cookie is not valid any more
		return false
	}
	if len(s.out) >= s.pruneFrom {
		maps.DeleteFunc(s.out, func(_ string, until time.Time) bool { return !now.Before(until) })
		s.pruneFrom = max(maxSignIns, 2*len(s.out))
	}
	s.out[id] = until
	remove(s.live, id)
	return true
}

// end signs a browser out, first here and then on all nodes. was is false if it was not signed in.
func (s *sharedSignIns) end(ctx context.Context, cookie string) (was bool, err error) {
	_, id, until, ok := s.read(cookieIssuer, cookie)
	if !ok {
		return false, nil
	}
	was = s.signedOut(id, until)
	if err := s.log.SignOut(ctx, id, until); err != nil {
		return was, chat.Errorf(chat.Unavailable, "this browser is signed out here, but the other nodes could not be reached; sign out again").Because(err)
	}
	return was, nil
}

// redeem uses up a link.
func (s *sharedSignIns) redeem(ctx context.Context, code string) (c chat.Caller, ok bool, err error) {
	c, id, until, ok := s.read(linkIssuer, code)
	if !ok {
		return c, false, nil
	}
	used, err := s.log.UseLink(ctx, id, until)
	return c, err == nil && !used, err
}
