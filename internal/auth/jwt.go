package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// leeway is how far the clocks of issuer and server may differ when a token becomes
// valid. It does not apply to expiry.
const leeway = 30 * time.Second

var (
	hmacAlgs       = []string{"HS256", "HS384", "HS512"}
	rsaAlgs        = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
	ecAlgs         = []string{"ES256", "ES384", "ES512"}
	edAlgs         = []string{"EdDSA"}
	asymmetricAlgs = slices.Concat(rsaAlgs, ecAlgs, edAlgs)
)

// verifier checks JWTs against one source of keys.
type verifier struct {
	parser *jwt.Parser
	key    any     // a fixed key, or nil
	set    *keySet // keys from an address, or nil
	now    func() time.Time

	fingerprint string // of the key and the rules: another key is another issuer
}

func newVerifier(o JWT, now func() time.Time) (*verifier, error) {
	v := &verifier{now: now}
	var algs []string
	source := []string{string(o.Secret), "", o.JWKS, o.Issuer, o.Audience}
	switch {
	case o.Secret != "":
		v.key, algs = []byte(o.Secret), hmacAlgs
	case o.KeyFile != "":
		raw, err := os.ReadFile(o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the JWT key file: %w", err)
		}
		if v.key, algs, err = publicKey(raw); err != nil {
			return nil, fmt.Errorf("JWT key file %s: %w", o.KeyFile, err)
		}
		source[1] = string(raw)
	default:
		v.set, algs = newKeySet(o.JWKS, now), asymmetricAlgs
	}
	opts := []jwt.ParserOption{
		jwt.WithValidMethods(algs), // the key determines the algorithm, not the token
		jwt.WithExpirationRequired(),
		jwt.WithLeeway(leeway),
		jwt.WithTimeFunc(now),
	}
	if o.Issuer != "" {
		opts = append(opts, jwt.WithIssuer(o.Issuer))
	}
	if o.Audience != "" {
		opts = append(opts, jwt.WithAudience(o.Audience))
	}
	v.parser = jwt.NewParser(opts...)
	v.fingerprint = fmt.Sprintf("%q", source)
	return v, nil
}

// publicKey reads a PEM and returns the algorithms of the key.
func publicKey(raw []byte) (any, []string, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, nil, errors.New("it is not PEM")
	}
	if strings.Contains(block.Type, "PRIVATE") {
		return nil, nil, errors.New("it holds a private key: give this server the public one, `openssl pkey -in key.pem -pubout`")
	}
	var key any
	var err error
	switch block.Type {
	case "CERTIFICATE":
		var cert *x509.Certificate
		if cert, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = cert.PublicKey
		}
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	default:
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("parse the key: %w", err)
	}
	switch k := key.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() < 2048 {
			return nil, nil, errors.New("an RSA key has at least 2048 bits")
		}
		return key, rsaAlgs, nil
	case *ecdsa.PublicKey:
		return key, ecAlgs, nil
	case ed25519.PublicKey:
		return key, edAlgs, nil
	}
	return nil, nil, fmt.Errorf("a key of type %T cannot check JWTs", key)
}

// claims are the claims that are read.
type claims struct {
	jwt.RegisteredClaims
	Name      string    `json:"name"`
	Email     string    `json:"email"`
	Workspace string    `json:"workspace"`
	Scope     scopeList `json:"scope"`
	Scopes    scopeList `json:"scopes"`
	Agents    scopeList `json:"agents"`
}

// UnmarshalJSON matches names exactly; the JWT library would accept "Workspace" for
// workspace.
func (c *claims) UnmarshalJSON(b []byte) error {
	type plain claims
	return json.Unmarshal(b, (*plain)(c))
}

// scopeList is a JSON array or one text with spaces; issuers differ.
type scopeList struct {
	set  bool
	list []string
}

func (s *scopeList) UnmarshalJSON(b []byte) error {
	s.set = true
	var one string
	if err := json.Unmarshal(b, &one); err == nil {
		s.list = strings.Fields(one)
		return nil
	}
	return json.Unmarshal(b, &s.list)
}

// verify returns the caller of a token, without its credential.
func (v *verifier) verify(ctx context.Context, token string) (chat.Caller, error) {
	var c claims
	_, err := v.parser.ParseWithClaims(token, &c, func(t *jwt.Token) (any, error) {
		if v.set != nil {
			return v.set.key(ctx, t)
		}
		return v.key, nil
	})
	if err == nil && !v.now().Before(c.ExpiresAt.Time) {
		err = jwt.ErrTokenExpired
	}
	if err != nil {
		if e, ok := errors.AsType[*chat.Error](err); ok {
			return chat.Caller{}, e
		}
		return chat.Caller{}, chat.Errorf(chat.Unauthenticated, "%s", jwtProblem(err)).Because(err)
	}
	if c.Subject == "" {
		return chat.Caller{}, chat.Errorf(chat.Unauthenticated, "the claim `sub` of the token is missing")
	}
	for _, s := range append(c.Agents.list, c.Subject, c.Name, c.Email, c.Workspace) {
		if len(s) > chat.MaxActorField {
			return chat.Caller{}, chat.Errorf(chat.Unauthenticated, "a claim of the token has more than %d bytes", chat.MaxActorField)
		}
	}
	scopes, err := c.scopes()
	if err != nil {
		return chat.Caller{}, err
	}
	caller := chat.Caller{
		Actor:     chat.Actor{Kind: kindFor(scopes), ID: c.Subject, Name: c.Name, Email: c.Email},
		Workspace: c.Workspace,
		Scopes:    scopes,
		Agents:    c.Agents.list,
		Expires:   c.ExpiresAt.Time,
	}
	if c.Workspace == anyWorkspace {
		if !slices.Contains(scopes, chat.ScopeAdmin) {
			return chat.Caller{}, chat.Errorf(chat.Denied, "the token is valid, but its claim `workspace` is *, which needs the scope admin: ask its issuer for one workspace, or for admin")
		}
		caller.Workspace, caller.AllWorkspaces = "", true
	}
	return caller, nil
}

// wasValid reports whether a refused token was valid before.
func wasValid(err error) bool {
	return errors.Is(err, jwt.ErrTokenExpired) || errors.Is(err, errRevoked)
}

// scopes returns the known scopes of a token; a token without scopes has the scope
// user.
func (c *claims) scopes() ([]chat.Scope, error) {
	if !c.Scope.set && !c.Scopes.set {
		return []chat.Scope{chat.ScopeUser}, nil
	}
	var all []chat.Scope
	for _, s := range append(c.Scope.list, c.Scopes.list...) {
		if knownScope(chat.Scope(s)) {
			all = append(all, chat.Scope(s))
		}
	}
	if len(all) == 0 {
		return nil, chat.Errorf(chat.Denied, "the token is valid but has none of the scopes user, agent and admin: ask its issuer for one")
	}
	return all, nil
}

// jwtProblem returns a message for the owner of a refused token.
func jwtProblem(err error) string {
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return "the token has expired: get a new one"
	case errors.Is(err, jwt.ErrTokenNotValidYet), errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		return "the token is not valid yet: check the clocks of the issuer and of this server"
	case errors.Is(err, jwt.ErrTokenRequiredClaimMissing):
		return "the token lacks a required claim (exp, and iss or aud where they are configured)"
	case errors.Is(err, jwt.ErrTokenInvalidIssuer), errors.Is(err, jwt.ErrTokenInvalidAudience):
		return "the token was made for another server: its iss or aud is not the configured one"
	}
	return "the token is not valid: its signature or form is wrong"
}
