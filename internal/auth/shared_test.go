package auth_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
)

// signInLog is the log of sign-ins of a cluster.
type signInLog struct {
	mu    sync.Mutex
	used  map[string]bool
	nodes []*auth.Auth
	err   error
}

func (l *signInLog) UseLink(_ context.Context, id string, _ time.Time) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false, l.err
	}
	used := l.used[id]
	l.used[id] = true
	return used, nil
}

func (l *signInLog) SignOut(_ context.Context, id string, until time.Time) error {
	if l.err != nil {
		return l.err
	}
	for _, a := range l.nodes {
		a.SignedOut(id, until)
	}
	return nil
}

// cluster is two nodes with the same tokens, clock and log.
type cluster struct {
	t     *testing.T
	now   time.Time
	log   *signInLog
	nodes []*auth.Auth
}

const annsToken = "ann-0123456789abcdef"

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, now: time.Now(), log: &signInLog{used: map[string]bool{}}}
	for range 2 {
		a, err := auth.New(auth.Options{Now: func() time.Time { return c.now }, Tokens: []auth.Token{
			{Token: annsToken, Actor: chat.Actor{Kind: chat.User, ID: "ann"}, Scopes: []chat.Scope{chat.ScopeUser}},
			{Token: "bob-0123456789abcdef", Actor: chat.Actor{Kind: chat.User, ID: "bob"}, Scopes: []chat.Scope{chat.ScopeUser}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		a.Sign([]byte("the key of issued tokens"))
		a.ShareSignIns([]byte("the key of sign-ins"), c.log)
		c.nodes = append(c.nodes, a)
	}
	c.log.nodes = c.nodes
	return c
}

// do sends a request to a node, with a cookie or a token.
func (c *cluster) do(node int, method, path, cookie, token string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	if cookie != "" {
		r.AddCookie(&http.Cookie{Name: auth.CookieName, Value: cookie})
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	c.nodes[node].Handler(func(w http.ResponseWriter, _ *http.Request, err error) {
		status := http.StatusUnauthorized
		if chat.CodeOf(err) == chat.Unavailable {
			status = http.StatusServiceUnavailable
		}
		http.Error(w, err.Error(), status)
	}).ServeHTTP(w, r)
	return w.Result()
}

// signIn signs ann in on a node and returns the cookie.
func (c *cluster) signIn(node int) string {
	c.t.Helper()
	return cookieOf(c.t, c.do(node, "POST", auth.SessionPath, "", annsToken))
}

func cookieOf(t *testing.T, res *http.Response) string {
	t.Helper()
	for _, k := range res.Cookies() {
		if k.Name == auth.CookieName {
			return k.Value
		}
	}
	t.Fatal("no cookie, status ", res.StatusCode)
	return ""
}

func (c *cluster) want(node int, cookie string, status int) {
	c.t.Helper()
	if res := c.do(node, "GET", auth.SessionPath, cookie, ""); res.StatusCode != status {
		c.t.Errorf("node %d answers %d, want %d", node, res.StatusCode, status)
	}
}

func TestCookieIsValidOnAllNodes(t *testing.T) {
	c := newCluster(t)
	cookie := c.signIn(0)
	c.want(1, cookie, 200)
	c.want(1, cookie[:len(cookie)-2], 401)
	// It is neither a token nor a link.
	if res := c.do(1, "GET", auth.SessionPath, "", cookie); res.StatusCode != 401 {
		t.Errorf("as a token: %d", res.StatusCode)
	}
	if res := c.do(1, "GET", auth.LinkPath+"?code="+cookie, "", ""); res.StatusCode != 401 {
		t.Errorf("as a link: %d", res.StatusCode)
	}
	c.now = c.now.Add(13 * time.Hour)
	c.want(1, cookie, 401)
}

func TestSignOutEndsTheCookieOnAllNodes(t *testing.T) {
	c := newCluster(t)
	cookie, other := c.signIn(0), c.signIn(0)
	r := httptest.NewRequest("GET", "/", nil)
	r.AddCookie(&http.Cookie{Name: auth.CookieName, Value: cookie})
	caller, err := c.nodes[1].Caller(r)
	if err != nil {
		t.Fatal(err)
	}
	connection, done := c.nodes[1].Context(t.Context(), caller)
	defer done()
	var told [2]int
	for i, a := range c.nodes {
		a.OnRevoked(func() { told[i]++ })
	}
	// Without the log the other nodes cannot be told; the request can be repeated.
	c.log.err = errors.New("no owner")
	if res := c.do(0, "DELETE", auth.SessionPath, cookie, ""); res.StatusCode != 503 {
		t.Fatalf("without the log: %d", res.StatusCode)
	}
	c.want(0, cookie, 401)
	c.log.err = nil
	if res := c.do(0, "DELETE", auth.SessionPath, cookie, ""); res.StatusCode != 204 {
		t.Fatalf("again: %d", res.StatusCode)
	}
	c.want(1, cookie, 401)
	c.want(1, other, 200)
	select {
	case <-connection.Done():
	case <-time.After(10 * time.Second):
		t.Error("the connection on the other node is open")
	}
	if c.nodes[1].Check(caller) == nil {
		t.Error("the caller is still valid on the other node")
	}
	if told != [2]int{1, 1} {
		t.Errorf("OnRevoked was called %d times", told)
	}
}

func TestCookieEndsWithItsTokenOnEachNode(t *testing.T) {
	c := newCluster(t)
	cookie := c.signIn(0)
	link := c.nodes[0].SignInURL("", mustAuthenticate(t, c.nodes[0]))
	for _, a := range c.nodes {
		if err := a.SetTokens([]auth.Token{{Token: "bob-0123456789abcdef", Actor: chat.Actor{Kind: chat.User, ID: "bob"}, Scopes: []chat.Scope{chat.ScopeUser}}}); err != nil {
			t.Fatal(err)
		}
	}
	c.want(0, cookie, 401)
	c.want(1, cookie, 401)
	if res := c.do(1, "GET", link, "", ""); res.StatusCode != 401 {
		t.Errorf("a link of the token: %d", res.StatusCode)
	}
}

func mustAuthenticate(t *testing.T, a *auth.Auth) chat.Caller {
	t.Helper()
	c, err := a.Authenticate(t.Context(), annsToken)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLinkIsUsedOnceInTheCluster(t *testing.T) {
	c := newCluster(t)
	link := c.nodes[0].SignInURL("", mustAuthenticate(t, c.nodes[0]))
	if !strings.HasPrefix(link, auth.LinkPath) {
		t.Fatal(link)
	}
	// While the log cannot be written nobody signs in, and the link stays valid.
	c.log.err = chat.Errorf(chat.Unavailable, "no owner")
	if res := c.do(1, "GET", link, "", ""); res.StatusCode != 503 {
		t.Fatalf("without the log: %d", res.StatusCode)
	}
	c.log.err = nil
	var wg sync.WaitGroup
	results := make([]*http.Response, 20)
	for i := range results {
		wg.Go(func() { results[i] = c.do(i%2, "GET", link, "", "") })
	}
	wg.Wait()
	signedIn := 0
	for _, res := range results {
		if res.StatusCode == http.StatusSeeOther {
			signedIn++
			c.want(0, cookieOf(t, res), 200)
		}
	}
	if signedIn != 1 {
		t.Errorf("%d browsers were signed in", signedIn)
	}
	late := c.nodes[0].SignInURL("", mustAuthenticate(t, c.nodes[0]))
	c.now = c.now.Add(11 * time.Minute)
	if res := c.do(1, "GET", late, "", ""); res.StatusCode != 401 {
		t.Errorf("after ten minutes: %d", res.StatusCode)
	}
}
