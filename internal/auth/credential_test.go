package auth

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/parley-hq/parley/chat"
)

const signingKey = "0123456789abcdef0123456789abcdef"

// carriers are the ways to send a credential with a request.
var carriers = map[string]func(method, path, secret string) *http.Request{
	"bearer": func(method, path, secret string) *http.Request {
		return request(method, path, "Authorization", "Bearer "+secret)
	},
	"basic": func(method, path, secret string) *http.Request {
		return request(method, path, "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("x:"+secret)))
	},
	"api key": func(method, path, secret string) *http.Request { return request(method, path, KeyHeader, secret) },
	"query": func(method, path, secret string) *http.Request {
		return request(method, path+"?"+queryParam+"="+secret)
	},
}

// derived has the credentials that were made from another one.
type derived struct {
	issued string
	cookie *http.Cookie
	link   string
	caller chat.Caller
}

// derive makes every kind of credential that can be made from another one. Its
// requests pass Identify first, as in the server.
func derive(t *testing.T, a *Auth, send func(method, path, secret string) *http.Request, secret string) (d derived) {
	t.Helper()
	identified := func(method, path string) *http.Request {
		r := send(method, path, secret)
		ctx, _, err := a.Identify(r, true)
		if err != nil {
			t.Fatal(err)
		}
		return r.WithContext(ctx)
	}
	var err error
	if d.issued, err = a.Issue(identified("POST", "/token/issue")); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	a.Handler(failed).ServeHTTP(w, identified("POST", SessionPath))
	if w.Code != 200 || len(w.Result().Cookies()) != 1 {
		t.Fatal(w.Code, w.Body)
	}
	d.cookie = w.Result().Cookies()[0]
	if d.caller, err = a.Caller(identified("GET", "/")); err != nil {
		t.Fatal(err)
	}
	d.link = a.SignInURL("http://127.0.0.1", d.caller)
	return d
}

func failed(w http.ResponseWriter, _ *http.Request, err error) {
	http.Error(w, err.Error(), http.StatusUnauthorized)
}

// accepted lists the derived credentials that are accepted. It uses up the link.
func (d derived) accepted(t *testing.T, a *Auth) (list []string) {
	t.Helper()
	for name, send := range carriers {
		if _, _, err := a.Identify(send("GET", "/", d.issued), true); err == nil {
			list = append(list, "issued token by "+name)
		}
	}
	r := request("GET", "/")
	r.AddCookie(d.cookie)
	if _, err := a.Caller(r); err == nil {
		list = append(list, "cookie")
	}
	w := httptest.NewRecorder()
	a.Handler(failed).ServeHTTP(w, request("GET", d.link))
	if w.Code == http.StatusSeeOther {
		list = append(list, "link")
	}
	if a.Check(d.caller) == nil {
		list = append(list, "caller")
	}
	return list
}

// signInBrowser exchanges the credential of a request for a cookie, and returns a request
// with the cookie.
func signInBrowser(a *Auth, from *http.Request) (*http.Request, error) {
	r := request("POST", SessionPath)
	r.Header = from.Header.Clone()
	w := httptest.NewRecorder()
	a.Handler(failed).ServeHTTP(w, r)
	if w.Code != 200 {
		return nil, errors.New(w.Body.String())
	}
	next := request("GET", "/")
	next.AddCookie(w.Result().Cookies()[0])
	return next, nil
}

func TestDerivedCredentialsEndWithTheirJWT(t *testing.T) {
	for name, send := range carriers {
		t.Run(name, func(t *testing.T) {
			now := &clock{time.Unix(1_700_000_000, 0)}
			a := mustNew(t, Options{JWT: JWT{Secret: hmacSecret}, Now: now.now})
			a.Sign([]byte(signingKey))
			end := now.at.Add(3 * time.Second)
			d := derive(t, a, send, sign(t, jwt.SigningMethodHS256, []byte(hmacSecret), "", with(claimsFor("u"), "exp", end.Unix())))
			if d.caller.Expires != end || d.caller.Credential == "" {
				t.Errorf("the caller is %+v", d.caller)
			}
			if d.cookie.Expires.After(end) {
				t.Errorf("the browser keeps the cookie until %s", d.cookie.Expires)
			}
			if late := d.accepted(t, a); len(late) != 7 {
				t.Errorf("before the end these are accepted: %v", late)
			}
			d.link = a.SignInURL("http://127.0.0.1", d.caller)
			now.at = end
			if late := d.accepted(t, a); len(late) > 0 {
				t.Errorf("these outlive the JWT: %v", late)
			}
		})
	}
}

// What a browser got by its cookie ends when it signs out.
func TestSignOutEndsWhatTheCookieWasExchangedFor(t *testing.T) {
	a := mustNew(t, tokenOptions())
	a.Sign([]byte(signingKey))
	told := 0
	a.OnRevoked(func() { told++ })
	handle := func(method string, header ...string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		a.Handler(failed).ServeHTTP(w, request(method, SessionPath, header...))
		return w
	}
	cookie := handle("POST", "Authorization", "Bearer "+aliceToken).Result().Cookies()[0]
	signedIn := CookieName + "=" + cookie.Value
	if w := handle("POST", "Cookie", signedIn); w.Code != 200 || len(w.Result().Cookies()) != 0 {
		t.Errorf("a cookie was exchanged for another one: %d %v", w.Code, w.Result().Cookies())
	}
	token, err := a.Issue(request("POST", "/token/issue", "Cookie", signedIn))
	if err != nil {
		t.Fatal(err)
	}
	c, err := a.Authenticate(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	if w := handle("POST", "Authorization", "Bearer "+token); w.Code != 200 || len(w.Result().Cookies()) != 0 {
		t.Errorf("the token of a cookie was exchanged for a cookie: %d %v", w.Code, w.Result().Cookies())
	}
	ctx, done := a.Context(t.Context(), c)
	defer done()
	for range 2 {
		if w := handle("DELETE", "Cookie", signedIn); w.Code != 204 {
			t.Fatal(w.Code)
		}
	}
	if _, err := a.Authenticate(t.Context(), token); chat.CodeOf(err) != chat.Unauthenticated {
		t.Errorf("the issued token after signing out: %v", err)
	}
	<-ctx.Done() // of what was begun with the issued token
	if told != 1 {
		t.Errorf("OnRevoked was called %d times", told)
	}
}

func TestIssuedTokenCannotBeExchanged(t *testing.T) {
	a := mustNew(t, tokenOptions())
	a.Sign([]byte(signingKey))
	d := derive(t, a, carriers["bearer"], aliceToken)
	for name, send := range carriers {
		r := send("POST", "/token/issue", d.issued)
		ctx, _, err := a.Identify(r, true)
		if err != nil {
			t.Fatal(name, err)
		}
		if _, err := a.Issue(r.WithContext(ctx)); chat.CodeOf(err) != chat.Denied {
			t.Errorf("by %s: %v", name, err)
		}
		// A cookie made from it cannot be exchanged either, and does not last longer.
		if name == "query" {
			continue // the sign-in route does not read it
		}
		r, err = signInBrowser(a, r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Issue(r); chat.CodeOf(err) != chat.Denied {
			t.Errorf("by %s and a cookie: %v", name, err)
		}
		if c, err := a.Caller(r); err != nil || c.Expires.After(time.Now().Add(issuedFor)) {
			t.Errorf("by %s and a cookie: until %s, %v", name, c.Expires, err)
		}
	}
}

func TestRevokedTokenEndsStreamsAndDerivedCredentials(t *testing.T) {
	for name, change := range map[string]func(*Token){
		"removed": nil,
		"changed": func(t *Token) { t.Scopes = []chat.Scope{chat.ScopeAgent} },
		"moved":   func(t *Token) { t.Workspace = "blue" },
	} {
		t.Run(name, func(t *testing.T) {
			o := tokenOptions()
			a := mustNew(t, o)
			a.Sign([]byte(signingKey))
			revocations := 0
			a.OnRevoked(func() { revocations++ })
			alice := derive(t, a, carriers["api key"], aliceToken)
			bot := derive(t, a, carriers["api key"], "worker-0123456789abcdef")
			contexts := map[string]context.Context{}
			for name, c := range map[string]chat.Caller{"alice": alice.caller, "bot": bot.caller} {
				ctx, release := a.Context(t.Context(), c)
				defer release()
				contexts[name] = ctx
			}
			if err := a.SetTokens(o.Tokens); err != nil || contexts["alice"].Err() != nil || revocations != 0 {
				t.Fatalf("the same tokens again: %v, %v", err, contexts["alice"].Err())
			}
			left := slices.Clone(o.Tokens)
			if change == nil {
				left = left[1:]
			} else {
				change(&left[0])
			}
			if err := a.SetTokens(left); err != nil {
				t.Fatal(err)
			}
			<-contexts["alice"].Done()
			cause := context.Cause(contexts["alice"])
			if ended, ok := errors.AsType[*Ended](cause); !ok || chat.CodeOf(cause) != chat.Unauthenticated {
				t.Errorf("the context ended because of %v", cause)
			} else if code, _ := ended.CloseFrame(); code != 4401 {
				t.Errorf("the close code is %d", code)
			}
			if contexts["bot"].Err() != nil || revocations != 1 {
				t.Errorf("another token's context: %v; %d revocations", contexts["bot"].Err(), revocations)
			}
			late, release := a.Context(t.Context(), alice.caller)
			defer release()
			if late.Err() == nil {
				t.Error("a context of a revoked caller is alive")
			}
			if late := alice.accepted(t, a); len(late) > 0 {
				t.Errorf("these outlive the token: %v", late)
			}
			if n := len(bot.accepted(t, a)); n != 7 {
				t.Errorf("%d of what was made from another token are left", n)
			}
			// They are also refused after a restart with the same key.
			again := mustNew(t, Options{Tokens: left})
			again.Sign([]byte(signingKey))
			if _, err := again.Authenticate(t.Context(), alice.issued); err == nil || again.Check(alice.caller) == nil {
				t.Error("after a restart what was made from the token is accepted again")
			}
			if _, err := again.Authenticate(t.Context(), bot.issued); err != nil {
				t.Errorf("after a restart what was made from another token: %v", err)
			}
		})
	}
}

func TestContextEndsWhenItsJWTExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := mustNew(t, Options{JWT: JWT{Secret: hmacSecret}})
		begun := time.Now()
		c, err := a.Authenticate(t.Context(), sign(t, jwt.SigningMethodHS256, []byte(hmacSecret), "", with(claimsFor("u"), "exp", begun.Add(3*time.Second).Unix())))
		if err != nil {
			t.Fatal(err)
		}
		ctx, release := a.Context(t.Context(), c)
		defer release()
		<-ctx.Done()
		if took := time.Since(begun); took > 3*time.Second || took < 2*time.Second || chat.CodeOf(context.Cause(ctx)) != chat.Unauthenticated {
			t.Errorf("after %s: %v", took, context.Cause(ctx))
		}
		other, release := a.Context(t.Context(), c)
		defer release()
		<-other.Done()
	})
}

func TestCallerIsInvalidAfterTheJWTKeyChanges(t *testing.T) {
	a := mustNew(t, Options{JWT: JWT{Secret: hmacSecret}})
	c, err := a.Authenticate(t.Context(), sign(t, jwt.SigningMethodHS256, []byte(hmacSecret), "", claimsFor("u")))
	if err != nil || a.Check(c) != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{"key": {JWT: JWT{Secret: hmacSecret + "2"}}, "tokens only": tokenOptions(), "open": {}} {
		if mustNew(t, o).Check(c) == nil {
			t.Errorf("%s: the caller is accepted", name)
		}
	}
	if mustNew(t, tokenOptions()).Check(Local) == nil {
		t.Error("the caller of an open server is accepted where tokens are needed")
	}
}

func TestInvalidTokenListChangesNothing(t *testing.T) {
	o := tokenOptions()
	a := mustNew(t, o)
	for name, tokens := range map[string][]Token{
		"none":  nil,
		"short": {{Token: "short", Actor: o.Tokens[0].Actor, Scopes: o.Tokens[0].Scopes}},
		"twice": {o.Tokens[0], o.Tokens[0]},
	} {
		if err := a.SetTokens(tokens); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := a.Authenticate(t.Context(), aliceToken); err != nil || a.Open() {
		t.Errorf("after that: %v", err)
	}
	open := mustNew(t, Options{})
	if err := open.SetTokens(o.Tokens); err == nil || !open.Open() {
		t.Errorf("a running open server accepts tokens: %v", err)
	}
	// With JWTs the last token may be removed, and the server does not become open.
	o.JWT.Secret = hmacSecret
	both := mustNew(t, o)
	if err := both.SetTokens(nil); err != nil || both.Open() {
		t.Errorf("%v, open %v", err, both.Open())
	}
	if _, err := both.Authenticate(t.Context(), aliceToken); err == nil {
		t.Error("a removed token is accepted")
	}
}

func TestAuditReportsSignInsAndTokens(t *testing.T) {
	var events []string
	o := tokenOptions()
	o.Audit = func(event string, c chat.Caller, _ map[string]any) { events = append(events, event+" "+c.Actor.ID) }
	a := mustNew(t, o)
	a.Sign([]byte(signingKey))
	d := derive(t, a, carriers["bearer"], aliceToken)
	a.Handler(failed).ServeHTTP(httptest.NewRecorder(), request("GET", d.link))
	_, _ = a.Caller(request("GET", "/", KeyHeader, "nope"))
	if err := a.SetTokens(o.Tokens[:1]); err != nil {
		t.Fatal(err)
	}
	want := []string{"token_issued alice", "sign_in alice", "sign_in alice", "sign_in_refused ", "tokens_reloaded parley"}
	if !slices.Equal(events, want) {
		t.Errorf("%q", events)
	}
}
