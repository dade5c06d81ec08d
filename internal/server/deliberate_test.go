package server

import (
	"encoding/base64"
	"net/http"
	"testing"

	"github.com/parley-hq/parley/internal/auth"
)

// A link or an image in a message makes a browser send a GET with its cookie, or to an open server. Deliberate routes
// refuse such requests.
func TestDeliberateRoutesRefuseRequestsOfPages(t *testing.T) {
	handled := 0
	work := Route{Pattern: "GET /work", Deliberate: true, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled++ })}
	for name, a := range map[string]*auth.Auth{"open": openAuth(t), "with tokens": withTokens(t, nil)} {
		s := newServer(t, Options{Auth: a})
		s.Handle(work)
		var cookie string
		for _, c := range do(t, s.Handler(), req("POST", "http://localhost/auth/session", "", "Authorization", "Bearer "+adminToken)).Cookies() {
			cookie = c.Name + "=" + c.Value
		}
		basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("x:"+adminToken))
		for _, h := range [][]string{
			{"Cookie", cookie}, {"Cookie", cookie, "Sec-Fetch-Site", "same-origin"}, {"Cookie", cookie, "Sec-Fetch-Site", "cross-site"}, {"Authorization", basic},
		} {
			if got := do(t, s.Handler(), req("GET", "http://localhost/work", "", h...)); got.StatusCode != 403 {
				t.Errorf("%s, %v: %d", name, h, got.StatusCode)
			}
		}
		if handled != 0 {
			t.Errorf("%s: the handler ran %d times", name, handled)
		}
		for _, h := range [][]string{{"Authorization", "Bearer " + adminToken}, {"X-API-Key", adminToken}, {"Cookie", cookie, "X-Parley-Request", "1"}} {
			if got := do(t, s.Handler(), req("GET", "http://localhost/work", "", h...)); got.StatusCode != 200 {
				t.Errorf("%s, %v: %d", name, h, got.StatusCode)
			}
		}
		handled = 0
	}
}

func TestPagesCannotStartAProfile(t *testing.T) {
	s := newServer(t, Options{Auth: openAuth(t), Pprof: true})
	for site, want := range map[string]int{"": 200, "none": 200, "same-origin": 403, "cross-site": 403} {
		r := req("GET", "http://localhost/debug/pprof/trace?seconds=0.01", "")
		if site != "" {
			r.Header.Set("Sec-Fetch-Site", site)
		}
		if got := do(t, s.Handler(), r); got.StatusCode != want {
			t.Errorf("from %q: %d, want %d", site, got.StatusCode, want)
		}
	}
}

// Routes about the whole server need an administrator of all workspaces.
func TestServerRoutesRefuseAdministratorsOfOneWorkspace(t *testing.T) {
	for all, want := range map[bool]int{false: 403, true: 200} {
		a := withTokens(t, func(o *auth.Options) { o.Tokens[1].AllWorkspaces = all })
		s := newServer(t, Options{Auth: a, Pprof: true})
		for _, path := range []string{"/metrics", "/debug/pprof/"} {
			if got := do(t, s.Handler(), req("GET", "http://localhost"+path, "", "Authorization", "Bearer "+adminToken)); got.StatusCode != want {
				t.Errorf("%s, all workspaces %v: %d, want %d", path, all, got.StatusCode, want)
			}
		}
	}
}
