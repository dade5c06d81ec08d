package auth

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

const aliceToken = "alice-0123456789abcdef"

func tokenOptions() Options {
	return Options{Tokens: []Token{
		{Token: aliceToken, Actor: chat.Actor{Kind: chat.User, ID: "alice"}, Workspace: "red", Scopes: []chat.Scope{chat.ScopeUser}},
		{Token: "worker-0123456789abcdef", Actor: chat.Actor{Kind: chat.Agent, ID: "demo"}, Scopes: []chat.Scope{chat.ScopeAgent}},
	}}
}

func mustNew(t *testing.T, o Options) *Auth {
	t.Helper()
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func request(method, target string, header ...string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func TestOpenModeAcceptsEveryRequest(t *testing.T) {
	a := mustNew(t, Options{})
	for _, r := range []*http.Request{request("GET", "/"), request("GET", "/", "Authorization", "Bearer whatever"), request("GET", "/", "Cookie", CookieName+"=old")} {
		c, err := a.Caller(r)
		if err != nil || c.Actor.Key() != "user:local" || !c.Has(chat.ScopeAdmin) || !c.Has(chat.ScopeAgent) {
			t.Errorf("%v, %v", c, err)
		}
	}
	if !a.Open() {
		t.Error("not open")
	}
}

func TestStaticTokenIdentifiesItsCaller(t *testing.T) {
	a := mustNew(t, tokenOptions())
	c, err := a.Caller(request("GET", "/", "Authorization", "bearer "+aliceToken))
	if err != nil || c.Actor.Key() != "user:alice" || c.In() != "red" || c.Has(chat.ScopeAgent) {
		t.Errorf("%v, %v", c, err)
	}
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("anything:"+aliceToken))
	for _, r := range []*http.Request{request("GET", "/", "X-API-Key", aliceToken), request("GET", "/", "Authorization", basic)} {
		if c, err := a.Caller(r); err != nil || c.Actor.ID != "alice" {
			t.Errorf("%v: %v, %v", r.Header, c, err)
		}
	}
	for name, r := range map[string]*http.Request{
		"nothing":         request("GET", "/"),
		"wrong":           request("GET", "/", "Authorization", "Bearer nope"),
		"empty":           request("GET", "/", "Authorization", "Bearer "),
		"prefix":          request("GET", "/", "Authorization", "Bearer "+aliceToken[:10]),
		"longer":          request("GET", "/", "Authorization", "Bearer "+aliceToken+"x"),
		"basic":           request("GET", "/", "Authorization", "Basic YTpi"),
		"key":             request("GET", "/", "X-API-Key", "nope"),
		"key, but header": request("GET", "/", "X-API-Key", aliceToken, "Authorization", "Bearer nope"),
		"token in query":  request("GET", "/?access_token="+aliceToken),
		"token as cookie": request("GET", "/", "Cookie", CookieName+"="+aliceToken),
	} {
		_, err := a.Caller(r)
		if chat.CodeOf(err) != chat.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		} else if !strings.Contains(err.Error(), "token") {
			t.Errorf("%s: the message does not help: %v", name, err)
		} else if strings.Contains(err.Error(), aliceToken) {
			t.Errorf("%s: the message shows the token", name)
		}
	}
	if _, c, err := a.Identify(request("GET", "/?access_token="+aliceToken), true); err != nil || c.Actor.ID != "alice" {
		t.Errorf("where the query is allowed: %v, %v", c, err)
	}
	if _, _, err := a.Identify(request("GET", "/?access_token="+aliceToken, "Authorization", "Bearer nope"), true); err == nil {
		t.Error("a wrong header was overruled by the query")
	}
}

func TestCallerIsReadFromTheContext(t *testing.T) {
	a := mustNew(t, tokenOptions())
	ctx, _, _ := a.Identify(request("GET", "/", "Authorization", "Bearer "+aliceToken), false)
	if c, err := a.Caller(request("GET", "/").WithContext(ctx)); err != nil || c.Actor.ID != "alice" {
		t.Errorf("%v, %v", c, err)
	}
	if _, ok := From(context.Background()); ok {
		t.Error("an empty context has a caller")
	}
}

func TestValidateReportsEveryProblem(t *testing.T) {
	o := Options{
		Tokens: []Token{
			{Token: "short", Actor: chat.Actor{Kind: chat.Server, ID: "x"}},
			{Token: aliceToken, Actor: chat.Actor{Kind: chat.User}, Scopes: []chat.Scope{"root"}},
		},
		JWT:          JWT{Secret: "short", JWKS: "ftp://x"},
		Hosts:        []string{"http://a", "a:80", "ok.example.com", "::1", "[fe80::1]"},
		AllowOrigins: []string{"*", "https://a/", "https://ok.example.com", "ok.example.com"},
		SessionTTL:   -1,
	}
	err := o.Validate()
	if err == nil {
		t.Fatal("nothing found")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 14 {
		t.Errorf("%d problems:\n%v", len(lines), err)
	}
	if strings.Contains(err.Error(), aliceToken) {
		t.Error("a token is shown")
	}
	if _, err := New(o); err == nil {
		t.Error("New accepts it")
	}
}

func TestReadTokens(t *testing.T) {
	got, err := ReadTokens(strings.NewReader(`
# people
` + aliceToken + `  user,admin alice
bot-0123456789abcdefg	agent demo  blue
x-0123456789abcdefghi user agent:odd
all-0123456789abcdefg admin ops *
two-0123456789abcdefg agent fleet blue agents=one,two
any-0123456789abcdefg agent fleet agents=*
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"user:alice  [user admin]", "agent:demo blue [agent]", "agent:odd  [user]", "user:ops  [admin] all", "agent:fleet blue [agent] one two", "agent:fleet  [agent] *"}
	for i, tok := range got {
		s := fmt.Sprintf("%s %s %v", tok.Actor.Key(), tok.Workspace, tok.Scopes)
		if tok.AllWorkspaces {
			s += " all"
		}
		if s := strings.TrimSpace(s + " " + strings.Join(tok.Agents, " ")); s != want[i] {
			t.Errorf("got %q, want %q", s, want[i])
		}
	}
	if err := (Options{Tokens: got}).Validate(); err != nil {
		t.Error(err)
	}
	for line, says := range map[string]string{
		"user bob *":                 "line 1: the workspace * needs the scope admin",
		"user bob agents=a":          "line 1: agents= needs the scope agent",
		"agent bob w agents=a,,b":    "line 1: agents= has an empty name",
		"agent bob w x agents=a":     "line 1: want TOKEN",
		"agent agents=a":             "line 1: want TOKEN",
		"agent bob agents=a default": "line 1: want TOKEN",
	} {
		if _, err := ReadTokens(strings.NewReader("secret-0123456789abcd " + line)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", line, err)
		}
	}
	_, err = ReadTokens(strings.NewReader("secret-secret-secret user\nother-secret-secret root bob\n"))
	if err == nil || !strings.Contains(err.Error(), "line 1") || !strings.Contains(err.Error(), "line 2") || strings.Contains(err.Error(), "secret-") {
		t.Errorf("%v", err)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	o := tokenOptions()
	o.JWT.Secret = "jwt-secret-jwt-secret-jwt-secret"
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "token", o.Tokens[0], "secret", o.JWT.Secret, "jwt", o.JWT)
	asJSON, _ := json.Marshal(o.Tokens)
	all := log.String() + string(asJSON) + fmt.Sprint(o) + fmt.Sprintf("%v %+v %#v %s %q", o, o, o, o.JWT.Secret, o.JWT.Secret)
	for _, secret := range []string{aliceToken, "jwt-secret"} {
		if strings.Contains(all, secret) {
			t.Errorf("%q is shown in %s", secret, all)
		}
	}
}

// clock is a clock that the test sets.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func TestSignInLinkWorksOnceAndCookiesExpire(t *testing.T) {
	now := &clock{time.Unix(1_700_000_000, 0)}
	o := tokenOptions()
	o.Now = now.now
	a := mustNew(t, o)
	h := a.Handler(func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusUnauthorized)
	})
	do := func(r *http.Request) *http.Response {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	open := func(url string) *http.Response { return do(request("GET", url)) }

	admin := a.keys.Load().tokens[0].caller
	url := a.SignInURL("http://127.0.0.1:8000/", admin)
	do(request("HEAD", url)) // does not use up the link
	resp := open(url)
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/" || len(resp.Cookies()) != 1 {
		t.Fatalf("%s, cookies %v", resp.Status, resp.Cookies())
	}
	cookie := resp.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.Secure {
		t.Errorf("cookie %v", cookie)
	}
	signedIn := func(cookie *http.Cookie) bool {
		r := request("GET", "/")
		r.AddCookie(cookie)
		_, err := a.Caller(r)
		return err == nil
	}
	if !signedIn(cookie) {
		t.Error("the cookie does not work")
	}
	if resp := open(url); resp.StatusCode != 401 || len(resp.Cookies()) != 0 {
		t.Error("the link works twice")
	}
	late := a.SignInURL("http://127.0.0.1:8000", admin)
	now.at = now.at.Add(10 * time.Minute)
	if resp := open(late); resp.StatusCode != 401 {
		t.Error("an old link works")
	}
	if resp := open("http://127.0.0.1:8000/auth/link?code="); resp.StatusCode != 401 {
		t.Error("an empty code works")
	}

	// A token is exchanged for a cookie, which is Secure over TLS.
	r := request("POST", "https://localhost/auth/session", "Authorization", "Bearer "+aliceToken)
	resp = do(r)
	if resp.StatusCode != 200 || len(resp.Cookies()) != 1 || !resp.Cookies()[0].Secure {
		t.Fatalf("%s, cookies %v", resp.Status, resp.Cookies())
	}
	alice := resp.Cookies()[0]
	r = request("GET", "/auth/session")
	r.AddCookie(alice)
	var who struct {
		Actor     chat.Actor
		Workspace string
	}
	json.NewDecoder(do(r).Body).Decode(&who)
	if who.Actor.ID != "alice" || who.Workspace != "red" {
		t.Errorf("signed in as %v", who)
	}
	if resp := do(request("POST", "/auth/session")); resp.StatusCode != 401 || len(resp.Cookies()) != 0 {
		t.Error("signed in without a token")
	}
	r = request("DELETE", "/auth/session")
	r.AddCookie(alice)
	if resp := do(r); resp.StatusCode != 204 || signedIn(alice) {
		t.Error("still signed in")
	}
	now.at = now.at.Add(12 * time.Hour)
	if signedIn(cookie) {
		t.Error("the cookie does not expire")
	}
}

func TestSignInsAreBounded(t *testing.T) {
	now := &clock{time.Unix(1, 0)}
	s := newSignIns(now.now)
	var keys []string
	for i := range 5 {
		keys = append(keys, s.put(s.live, 3, Local, now.at.Add(time.Duration(i+1)*time.Hour)))
	}
	var alive []int
	for i, k := range keys {
		if _, ok := s.get(k); ok {
			alive = append(alive, i)
		}
	}
	if !slices.Equal(alive, []int{2, 3, 4}) {
		t.Errorf("alive: %v", alive)
	}
}

// Somebody who signs in again and again signs out nobody else.
func TestFullSignInsMakeRoomFromTheirBusiestActor(t *testing.T) {
	now := &clock{time.Unix(1, 0)}
	s := newSignIns(now.now)
	actor := func(id string) chat.Caller { return chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: id}} }
	quiet := s.put(s.live, 10, actor("quiet"), now.at.Add(time.Minute)) // it ends first
	var busy []string
	for i := range 30 {
		busy = append(busy, s.put(s.live, 10, actor("busy"), now.at.Add(time.Hour+time.Duration(i))))
	}
	if _, ok := s.get(quiet); !ok {
		t.Error("another actor was signed out")
	}
	if _, ok := s.get(busy[0]); ok || len(s.live) != 10 {
		t.Errorf("the oldest is there: %t, %d sign-ins", ok, len(s.live))
	}
	if _, ok := s.get(busy[29]); !ok {
		t.Error("the newest is not there")
	}
}

func TestSignInsCountAsManyRequests(t *testing.T) {
	o := tokenOptions()
	o.Rate, o.Burst = 1, 2*signInCost
	a := mustNew(t, o)
	codes := []int{}
	for range 3 {
		w := httptest.NewRecorder()
		a.Handler(func(w http.ResponseWriter, _ *http.Request, err error) {
			if chat.CodeOf(err) != chat.SlowDown {
				t.Error(err)
			}
			w.WriteHeader(http.StatusTooManyRequests)
		}).ServeHTTP(w, request("POST", SessionPath, "Authorization", "Bearer "+aliceToken))
		codes = append(codes, w.Code)
	}
	if !slices.Equal(codes, []int{200, 200, 429}) {
		t.Error(codes)
	}
}

func TestRateLimitPerActor(t *testing.T) {
	now := &clock{time.Unix(1, 0)}
	o := tokenOptions()
	o.Now, o.Rate, o.Burst = now.now, 2, 3
	a := mustNew(t, o)
	alice, bob := a.keys.Load().tokens[0].caller, a.keys.Load().tokens[1].caller
	for range 3 {
		if err := a.Allow(alice); err != nil {
			t.Fatal(err)
		}
	}
	err := a.Allow(alice)
	if chat.CodeOf(err) != chat.SlowDown || chat.Public(err).Details["retry_after"] != 1 {
		t.Errorf("%v", err)
	}
	if err := a.Allow(bob); err != nil {
		t.Error("one actor's requests count for another")
	}
	now.at = now.at.Add(500 * time.Millisecond)
	if err := a.Allow(alice); err != nil {
		t.Error(err)
	}
	free := mustNew(t, Options{})
	for range 10_000 {
		if err := free.Allow(Local); err != nil {
			t.Fatal("open mode has a limit")
		}
	}
	for i := range maxBuckets + 10 {
		a.limits.bucket(fmt.Sprint(i), now.at)
	}
	if n := len(a.limits.buckets); n > maxBuckets {
		t.Errorf("%d buckets", n)
	}
}
