package auth

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/parley-hq/parley/chat"
)

// issuer is the issuer claim of the tokens of Issue.
const issuer = "parley:issued"

// issuedFor is how long a token of Issue is valid.
const issuedFor = 15 * time.Minute

// Sign sets the key of tokens that [Auth.Issue] makes, and of the ids of
// credentials. It is called before anything is served; with the same key, what
// was made from a credential outlives a restart.
func (a *Auth) Sign(key []byte) {
	a.issueKey = key
	a.keys.Store(a.newTokenSet(a.opt.Tokens))
}

// issuedClaims are the claims of a token of Issue. The last two are for clients that
// decode it.
type issuedClaims struct {
	jwt.RegisteredClaims
	Kind      chat.ActorKind `json:"kind"`
	Name      string         `json:"name,omitempty"`
	Email     string         `json:"email,omitempty"`
	Workspace string         `json:"workspace,omitempty"`
	Scopes    []chat.Scope   `json:"scopes"`
	Key       string         `json:"key"` // the credential that it was made from
	All       bool           `json:"all_workspaces,omitempty"`
	Agents    []string       `json:"agents,omitempty"`
	SignIn    string         `json:"sign_in,omitempty"` // of the browser whose cookie it was made from
	Account   claimedName    `json:"account"`
	Project   claimedName    `json:"project"`
}

type claimedName struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Issue exchanges the credential of a request for a token that ends soon, for
// clients that keep keys and send only such. The token ends no later than the
// credential, with its revocation, and when its browser is signed out. In open mode every key, and none, is accepted.
// A token that was issued cannot be exchanged again.
func (a *Auth) Issue(r *http.Request) (string, error) {
	if len(a.issueKey) == 0 {
		return "", chat.Errorf(chat.Unavailable, "this server does not exchange keys: use your token as it is")
	}
	c, err := a.Caller(r)
	if err != nil {
		return "", err
	}
	if c.Issued {
		return "", chat.Errorf(chat.Denied, "this token was made from a key; send the key itself to get a new one")
	}
	now := a.opt.Now()
	c = expireBy(c, now.Add(issuedFor))
	claims := issuedClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: issuer, Subject: c.Actor.ID, IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(c.Expires),
		},
		Kind: c.Actor.Kind, Name: c.Actor.Name, Email: c.Actor.Email, Workspace: c.Workspace, Scopes: c.Scopes,
		Key: c.Credential, All: c.AllWorkspaces, Agents: c.Agents, SignIn: c.SignIn,
		Account: claimedName{c.In(), c.In()}, Project: claimedName{c.In(), c.In()},
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(a.issueKey)
	if err == nil {
		a.Report(TokenIssued, c, nil)
	}
	return token, err
}

// issued reports whether a token names us as its issuer, without verifying it.
func issued(token string) bool {
	var c issuedClaims
	_, _, err := jwt.NewParser().ParseUnverified(token, &c)
	return err == nil && c.Issuer == issuer
}

// authenticateIssued returns the caller of a token of Issue; ours is false for other
// tokens.
func (a *Auth) authenticateIssued(token string) (c chat.Caller, ours bool, err error) {
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
		return c, true, chat.Errorf(chat.Unauthenticated, "%s", jwtProblem(err)).Because(err)
	}
	c = chat.Caller{
		Actor:     chat.Actor{Kind: claims.Kind, ID: claims.Subject, Name: claims.Name, Email: claims.Email},
		Workspace: claims.Workspace, Scopes: claims.Scopes, AllWorkspaces: claims.All, Agents: claims.Agents,
		Credential: claims.Key, Expires: claims.ExpiresAt.Time, Issued: true, SignIn: claims.SignIn,
	}
	if c.Credential == "" || a.Check(c) != nil {
		return chat.Caller{}, true, chat.Errorf(chat.Unauthenticated, "the key that this token was made from is not valid any more: sign in again with another one").Because(errRevoked)
	}
	return c, true, nil
}
