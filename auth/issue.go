package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/parley-hq/parley/chat"
)

// issuer is what tokens that we make ourselves name as theirs.
const issuer = "parley:issued"

// IssuedFor is how long a token that we make is good for.
const IssuedFor = 15 * time.Minute

// Sign sets the key of tokens that [Auth.Issue] makes. It is called before
// anything is served; with the same key, tokens outlive a restart.
func (a *Auth) Sign(key []byte) { a.issueKey = key }

// issuedClaims are those of a token of ours. The last two are there for clients
// that look into it.
type issuedClaims struct {
	jwt.RegisteredClaims
	Kind      chat.ActorKind `json:"kind"`
	Name      string         `json:"name,omitempty"`
	Email     string         `json:"email,omitempty"`
	Workspace string         `json:"workspace,omitempty"`
	Scopes    []chat.Scope   `json:"scopes"`
	Key       string         `json:"key,omitempty"` // of which static token it was made
	Account   claimedName    `json:"account"`
	Project   claimedName    `json:"project"`
}

type claimedName struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Issue exchanges the token of a request for one that ends soon, for clients that
// keep keys and send only such. In open mode every key, and none, is good. A
// token that was issued cannot be exchanged again: its holder has to have the key.
func (a *Auth) Issue(r *http.Request) (string, error) {
	if len(a.issueKey) == 0 {
		return "", chat.Errorf(chat.Unavailable, "this server does not exchange keys: use your token as it is")
	}
	c, err := a.Caller(r)
	if err != nil {
		return "", err
	}
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if issued(token) && !a.Open() {
		return "", chat.Errorf(chat.Denied, "this token was made from a key; send the key itself to get a new one")
	}
	now := a.opt.Now()
	claims := issuedClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: issuer, Subject: c.Actor.ID, IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(IssuedFor)),
		},
		Kind: c.Actor.Kind, Name: c.Actor.Name, Email: c.Actor.Email, Workspace: c.Workspace, Scopes: c.Scopes,
		Account: claimedName{c.In(), c.In()}, Project: claimedName{c.In(), c.In()},
	}
	switch {
	case a.Open():
		claims.Key = "open" // no key has that name: where keys are needed, it is worth nothing
	case a.known(token):
		claims.Key = keyName(token)
	}
	return jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(a.issueKey)
}

// issued reports whether a token says of itself that it is ours.
func issued(token string) bool {
	var c issuedClaims
	_, _, err := jwt.NewParser().ParseUnverified(token, &c)
	return err == nil && c.Issuer == issuer
}

// known reports whether a token is a static one.
func (a *Auth) known(token string) bool {
	sum := sha256.Sum256([]byte(token))
	for i := range a.tokens {
		if a.tokens[i].sum == sum {
			return true
		}
	}
	return false
}

// keyName tells static tokens apart without giving them away.
func keyName(token string) string {
	sum := sha256.Sum256([]byte("issued from\x00" + token))
	return hex.EncodeToString(sum[:8])
}

// authenticateIssued returns whom a token of ours stands for; ours is false when
// it is somebody else's.
func (a *Auth) authenticateIssued(_ context.Context, token string) (c chat.Caller, ours bool, err error) {
	if len(a.issueKey) == 0 || strings.Count(token, ".") != 2 || !issued(token) {
		return c, false, nil
	}
	var claims issuedClaims
	parser := jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired(), jwt.WithIssuer(issuer), jwt.WithTimeFunc(a.opt.Now))
	_, err = parser.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return a.issueKey, nil })
	if errors.Is(err, jwt.ErrTokenSignatureInvalid) && a.jwt != nil {
		return c, false, nil // another issuer may use the same name
	}
	if err != nil {
		return c, true, chat.Errorf(chat.Unauthenticated, "%s", whyNot(err)).Because(err)
	}
	if claims.Key != "" && !a.keyKnown(claims.Key) {
		return c, true, chat.Errorf(chat.Unauthenticated, "the key that this token was made from is not known here any more")
	}
	return chat.Caller{
		Actor:     chat.Actor{Kind: claims.Kind, ID: claims.Subject, Name: claims.Name, Email: claims.Email},
		Workspace: claims.Workspace, Scopes: claims.Scopes,
	}, true, nil
}

func (a *Auth) keyKnown(name string) bool {
	for _, t := range a.opt.Tokens {
		if keyName(string(t.Token)) == name {
			return true
		}
	}
	return false
}
