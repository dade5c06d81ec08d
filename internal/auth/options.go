package auth

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
)

// Secret is text that must not be shown. Its String and LogValue hide it; use
// string(s) where the text itself is needed.
type Secret string

// Options configure an [Auth]. The zero value is open mode.
type Options struct {
	Tokens []Token
	JWT    JWT

	Hosts        []string      // names under which the server is reached, besides loopback ones; without port
	AllowOrigins []string      // origins of web pages that may use the server, like https://app.example.com
	SessionTTL   time.Duration // how long a signed-in browser stays so; 0 means 12 hours
	TrustedProxy bool          // a proxy in front sets X-Forwarded-Proto

	// Rate is how many requests a second one actor may make, Burst how many at
	// once. A message on a WebSocket or on NATS is a request, too. 0 means 2000 and twice the rate, and no limit in open mode, where
	// all callers are one actor. Below 0 there is no limit.
	Rate  float64
	Burst int

	// Audit is told what happens to credentials; see [SignedIn] and the other
	// events. It must return soon. nil means that nobody is told.
	Audit func(event string, c chat.Caller, details map[string]any)

	Logger *slog.Logger     // nil means none
	Now    func() time.Time // nil means time.Now
}

// Token is a static token and whom it stands for.
type Token struct {
	Token     Secret
	Actor     chat.Actor
	Workspace string // "" means chat.DefaultWorkspace
	Scopes    []chat.Scope

	AllWorkspaces bool     // the scope admin holds for all workspaces
	Agents        []string // that it may serve as a worker; see [chat.Caller]
}

// JWT says which JSON Web Tokens are believed. Exactly one of Secret, KeyFile
// and JWKS is set; none means that JWTs are not accepted. The kind of key fixes
// the algorithms, so a token cannot choose one.
type JWT struct {
	Secret   Secret // HS256, HS384, HS512; at least 32 bytes
	KeyFile  string // PEM with a public key or certificate: RSA (RS, PS), EC (ES) or Ed25519 (EdDSA)
	JWKS     string // address of a key set; RS, PS, ES, EdDSA
	Issuer   string // "iss" must be this; "" means any
	Audience string // "aud" must contain this; "" means any
}

func (j JWT) used() bool { return j.Secret != "" || j.KeyFile != "" || j.JWKS != "" }

const minSecret = 32

// minToken keeps people from choosing tokens that can be guessed.
const minToken = 16

// Validate returns everything that is wrong with o, joined, or nil.
func (o Options) Validate() error {
	var bad []error
	fail := func(format string, args ...any) { bad = append(bad, fmt.Errorf(format, args...)) }
	bad = append(bad, checkTokens(o.Tokens)...)
	keys := 0
	for _, set := range []bool{o.JWT.Secret != "", o.JWT.KeyFile != "", o.JWT.JWKS != ""} {
		if set {
			keys++
		}
	}
	if keys > 1 {
		fail("a JWT secret, key file and JWKS address exclude each other: set one")
	}
	if keys == 0 && (o.JWT.Issuer != "" || o.JWT.Audience != "") {
		fail("a JWT issuer or audience is set but no key: set a secret, a key file or a JWKS address")
	}
	if s := o.JWT.Secret; s != "" && len(s) < minSecret {
		fail("the JWT secret is shorter than %d bytes: make one with `openssl rand -hex 32`", minSecret)
	}
	if s := o.JWT.JWKS; s != "" {
		if u, err := url.Parse(s); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			fail("the JWKS address must be an http or https URL")
		}
	}
	for _, h := range o.Hosts {
		if _, err := netip.ParseAddr(strings.Trim(h, "[]")); h == "" || strings.ContainsAny(h, "/*@: ") && err != nil {
			fail("host %q must be a name or address without scheme, port or path", h)
		}
	}
	for _, s := range o.AllowOrigins {
		if _, ok := parseOrigin(s); !ok {
			fail("origin %q must look like https://app.example.com, without a path; a star is not possible", s)
		}
	}
	if o.SessionTTL < 0 {
		fail("the session lifetime is negative")
	}
	return errors.Join(bad...)
}

// checkTokens returns everything that is wrong with a list of tokens.
func checkTokens(tokens []Token) (bad []error) {
	fail := func(format string, args ...any) { bad = append(bad, fmt.Errorf(format, args...)) }
	seen := map[Secret]bool{}
	for i, t := range tokens {
		n := i + 1
		switch {
		case len(t.Token) < minToken:
			fail("token %d is shorter than %d characters: make one with `openssl rand -hex 32`", n, minToken)
		case strings.ContainsAny(string(t.Token), " \t\r\n"):
			fail("token %d contains a space", n)
		case seen[t.Token]:
			fail("token %d is there twice", n)
		}
		seen[t.Token] = true
		if t.Actor.ID == "" {
			fail("token %d has no actor", n)
		}
		if t.Actor.Kind != chat.User && t.Actor.Kind != chat.Agent {
			fail("token %d: an actor is a user or an agent, not %q", n, t.Actor.Kind)
		}
		if len(t.Scopes) == 0 {
			fail("token %d has no scope: give it user, agent or admin", n)
		}
		for _, s := range t.Scopes {
			if !known(s) {
				fail("token %d has an unknown scope %q: there are user, agent and admin", n, s)
			}
		}
		if t.AllWorkspaces && !slices.Contains(t.Scopes, chat.ScopeAdmin) {
			fail("token %d is for all workspaces (*) without the scope admin: name one workspace, or add admin", n)
		}
		if len(t.Agents) > 0 && !(chat.Caller{Scopes: t.Scopes}).Has(chat.ScopeAgent) {
			fail("token %d names agents but has no scope agent: add agent, or leave agents= out", n)
		}
	}
	return bad
}

func known(s chat.Scope) bool {
	return s == chat.ScopeUser || s == chat.ScopeAgent || s == chat.ScopeAdmin
}
