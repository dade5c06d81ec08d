package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
)

// tokenSet is the set of valid static tokens. It does not change; a reload makes a new
// one.
type tokenSet struct {
	tokens []*staticToken
	byID   map[string]*staticToken
	jwt    string // what the credential of a JWT begins with
}

// staticToken is a token of the options or the token file. Hashes are compared in
// constant time, so that neither the token nor its length can be measured.
type staticToken struct {
	sum    [sha256.Size]byte // of its text, which is not kept
	caller chat.Caller
	end    context.Context // ends when the token is removed
	remove context.CancelCauseFunc
}

// jwtPrefix begins the credential of a JWT.
const jwtPrefix = "jwt."

// newTokenSet makes the callers of tokens. A token's credential covers what the
// token allows: a line with other rights is another credential.
func (a *Auth) newTokenSet(tokens []Token) *tokenSet {
	k := &tokenSet{byID: make(map[string]*staticToken, len(tokens))}
	for _, t := range tokens {
		s := &staticToken{sum: sha256.Sum256([]byte(t.Token)), caller: chat.Caller{
			Actor: t.Actor, Workspace: t.Workspace, Scopes: slices.Clone(t.Scopes),
			AllWorkspaces: t.AllWorkspaces, Agents: slices.Clone(t.Agents),
		}}
		s.caller.Credential = "key." + a.tag("token", string(t.Token), fmt.Sprintf("%q", []any{
			t.Actor.Kind, t.Actor.ID, t.Actor.Name, t.Actor.Email, t.Actor.Info, t.Workspace, t.Scopes, t.AllWorkspaces, t.Agents,
		}))
		s.end, s.remove = context.WithCancelCause(context.Background())
		k.tokens = append(k.tokens, s)
		k.byID[s.caller.Credential] = s
	}
	if a.jwt != nil {
		k.jwt = jwtPrefix + a.tag("jwt key", a.jwt.fingerprint) + "."
	}
	return k
}

// tag identifies a secret without revealing it. With the same signing key it is
// the same after a restart.
func (a *Auth) tag(parts ...string) string {
	mac := hmac.New(sha256.New, a.issueKey)
	for _, p := range parts {
		fmt.Fprintf(mac, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

func (k *tokenSet) find(secret string) *staticToken {
	sum := sha256.Sum256([]byte(secret))
	var found *staticToken
	for _, t := range k.tokens {
		if subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1 {
			found = t // no early return: the time must not reveal which one it is
		}
	}
	return found
}

// Ended is the cause of a context that ended with its credential; see
// [Auth.Context]. It holds a [chat.Error] of code unauthenticated.
type Ended struct{ why *chat.Error }

func (e *Ended) Error() string { return e.why.Error() }

// Unwrap returns the error for the client.
func (e *Ended) Unwrap() error { return e.why }

// CloseFrame is how a WebSocket ends.
func (e *Ended) CloseFrame() (code int, reason string) { return 4401, "sign in again" }

var (
	errExpired = &Ended{chat.Errorf(chat.Unauthenticated, "the credential has expired: sign in again")}
	errRevoked = &Ended{chat.Errorf(chat.Unauthenticated, "the credential is not valid any more: sign in again with another one")}

	errSignedOut = &Ended{chat.Errorf(chat.Unauthenticated, "this browser was signed out: sign in again")}
)

// Check returns an error when the credential of c has expired or was revoked, or
// its browser was signed out, since c was made. A caller inside the process has no
// credential.
func (a *Auth) Check(c chat.Caller) error {
	if !c.Expires.IsZero() && !a.opt.Now().Before(c.Expires) {
		return errExpired
	}
	if _, ok := a.root(c.Credential); !ok {
		return errRevoked
	}
	if c.SignIn != "" && a.signIns.signedIn(c) == nil {
		return errSignedOut
	}
	return nil
}

// root reports whether a credential is valid; t is nil unless it is a static token.
func (a *Auth) root(credential string) (t *staticToken, ok bool) {
	if credential == "" {
		return nil, true
	}
	if credential == openCredential {
		return nil, a.open
	}
	k := a.keys.Load()
	if k.jwt != "" && strings.HasPrefix(credential, k.jwt) {
		return nil, true
	}
	t, ok = k.byID[credential]
	return t, ok
}

// Context returns a context that ends with ctx, and with the cause [*Ended] when
// the credential of c expires or is revoked, or its browser is signed out. The
// caller calls the function when the work is done.
func (a *Auth) Context(ctx context.Context, c chat.Caller) (context.Context, context.CancelFunc) {
	t, ok := a.root(c.Credential)
	if ok && t == nil && c.Expires.IsZero() && c.SignIn == "" {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var stops []func() bool
	if !ok {
		cancel(errRevoked)
	}
	if t != nil {
		stops = append(stops, context.AfterFunc(t.end, func() { cancel(errRevoked) }))
	}
	if c.SignIn != "" {
		if live := a.signIns.signedIn(c); live != nil {
			stops = append(stops, context.AfterFunc(live, func() { cancel(errSignedOut) }))
		} else {
			cancel(errSignedOut)
		}
	}
	if !c.Expires.IsZero() {
		stops = append(stops, time.AfterFunc(c.Expires.Sub(a.opt.Now()), func() { cancel(errExpired) }).Stop)
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// SetTokens replaces the static tokens. Those that are missing, or allow
// something else now, are revoked at once together with everything that was made
// from them. When a token is not valid nothing changes.
func (a *Auth) SetTokens(tokens []Token) error {
	if a.open && len(tokens) > 0 {
		return errors.New("the server was started without tokens and is open: restart it to protect it with tokens")
	}
	if !a.open && a.jwt == nil && len(tokens) == 0 {
		return errors.New("there is no token left: the server could not be used")
	}
	if err := errors.Join(checkTokens(tokens)...); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	old, next := a.keys.Load(), a.newTokenSet(tokens)
	added, removed := 0, 0
	for id, t := range next.byID {
		if known := old.byID[id]; known != nil {
			t.end, t.remove = known.end, known.remove // its connections stay open
		} else {
			added++
		}
	}
	a.keys.Store(next)
	for id, t := range old.byID {
		if next.byID[id] == nil {
			removed++
			t.remove(errRevoked)
		}
	}
	if removed > 0 {
		a.signIns.drop(func(c chat.Caller) bool { return a.Check(c) != nil })
		for _, f := range a.revoked {
			f()
		}
	}
	a.opt.Logger.Info("the tokens were read again", "tokens", len(tokens), "added", added, "revoked", removed)
	a.Report(TokensReloaded, chat.Trusted, map[string]any{"tokens": len(tokens), "added": added, "revoked": removed})
	return nil
}

// tellRevoked calls the functions of OnRevoked.
func (a *Auth) tellRevoked() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.revoked {
		f()
	}
}

// OnRevoked registers a function that is called after tokens were revoked or a browser was
// signed out. It is for packages that keep connections and call [Auth.Check]. f must not
// call SetTokens.
func (a *Auth) OnRevoked(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revoked = append(a.revoked, f)
}

// expireBy returns c with a credential that ends at the given time, if it does not
// end before that.
func expireBy(c chat.Caller, at time.Time) chat.Caller {
	if c.Expires.IsZero() || at.Before(c.Expires) {
		c.Expires = at
	}
	return c
}
