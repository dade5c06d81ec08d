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

	// Rate is how many requests a second one actor may make, Burst how many at once. A
	// message on a WebSocket or on NATS is a request, too. 0 means 2000 and twice the
	// rate, and no limit in open mode, where all callers are one actor. Below 0 there is
	// no limit.
	Rate  float64
	Burst int

	// Audit is called with events about credentials; see [SignedIn] and the others. It
	// must return soon. nil means none.
	Audit func(event string, c chat.Caller, details map[string]any)

	Logger *slog.Logger     // nil means none
	Now    func() time.Time // nil means time.Now
}

// Token is a static token and its caller.
type Token struct {
	Token     Secret
	Actor     chat.Actor
	Workspace string // "" means chat.DefaultWorkspace
	Scopes    []chat.Scope

	AllWorkspaces bool     // the scope admin holds for all workspaces
	Agents        []string // that it may serve as a worker; see [chat.Caller]
}

// JWT configures which JSON Web Tokens are accepted. Exactly one of Secret, KeyFile
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

// minToken is the minimal length of a static token, so that it cannot be guessed.
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
	seen := map[Secret]bool{}
	for i, t := range tokens {
		problems := t.problems()
		if seen[t.Token] {
			problems = append(problems, "it is there twice")
		}
		seen[t.Token] = true
		for _, p := range problems {
			bad = append(bad, fmt.Errorf("token %d: %s", i+1, p))
		}
	}
	return bad
}

// problems returns everything that is wrong with a token, without showing it.
func (t Token) problems() (bad []string) {
	fail := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	if len(t.Token) < minToken {
		fail("it is shorter than %d characters: make one with `openssl rand -hex 32`", minToken)
	}
	if strings.ContainsAny(string(t.Token), " \t\r\n") {
		fail("it contains a space")
	}
	if t.Actor.ID == "" {
		fail("it has no actor")
	}
	if t.Actor.Kind != chat.User && t.Actor.Kind != chat.Agent {
		fail("an actor is a user or an agent, not %q", t.Actor.Kind)
	}
	if len(t.Scopes) == 0 {
		fail("it has no scope: give it user, agent or admin")
	}
	for _, s := range t.Scopes {
		if !knownScope(s) {
			fail("unknown scope %q: there are user, agent and admin", s)
		}
	}
	if t.AllWorkspaces && !slices.Contains(t.Scopes, chat.ScopeAdmin) {
		fail("the workspace * needs the scope admin: name one workspace, or add admin")
	}
	if slices.Contains(t.Agents, "") {
		fail("agents= has an empty name: want agents=NAME[,NAME], or agents=* for all")
	}
	if len(t.Agents) > 0 && !(chat.Caller{Scopes: t.Scopes}).Has(chat.ScopeAgent) {
		fail("agents= needs the scope agent")
	}
	return bad
}

func knownScope(s chat.Scope) bool {
	return s == chat.ScopeUser || s == chat.ScopeAgent || s == chat.ScopeAdmin
}
