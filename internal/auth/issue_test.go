package auth

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

func TestIssuedTokenIdentifiesTheSameCaller(t *testing.T) {
	now := time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC)
	key := []byte("0123456789abcdef0123456789abcdef")
	alice := Token{Token: "sk-alice-0123456789", Actor: chat.Actor{Kind: chat.User, ID: "alice", Name: "Alice"}, Workspace: "w", Scopes: []chat.Scope{chat.ScopeUser}}
	make := func(tokens ...Token) *Auth {
		a, err := New(Options{Tokens: tokens, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		a.Sign(key)
		return a
	}
	a := make(alice)
	r := httptest.NewRequest("POST", "/token/issue", nil)
	r.Header.Set("Authorization", "Bearer sk-alice-0123456789")
	token, err := a.Issue(r)
	if err != nil {
		t.Fatal(err)
	}
	c, err := a.Authenticate(t.Context(), token)
	if err != nil || c.Actor != alice.Actor || c.Workspace != "w" || len(c.Scopes) != 1 || c.Scopes[0] != chat.ScopeUser {
		t.Fatalf("%+v %v", c, err)
	}
	if _, err := make(alice).Authenticate(t.Context(), token); err != nil {
		t.Errorf("after a restart: %v", err)
	}

	bob := alice
	bob.Token = "sk-bob-0123456789ab"
	refused := map[string]func() error{
		"of a removed key": func() error { _, err := make(bob).Authenticate(t.Context(), token); return err },
		"changed": func() error {
			parts := strings.Split(token, ".")
			_, err := a.Authenticate(t.Context(), parts[0]+"."+parts[1]+"x."+parts[2])
			return err
		},
		"signed with another key": func() error {
			other := make(alice)
			other.Sign([]byte("another key of thirty-two bytes!"))
			_, err := other.Authenticate(t.Context(), token)
			return err
		},
		"exchanged again": func() error {
			r := httptest.NewRequest("POST", "/token/issue", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			_, err := a.Issue(r)
			return err
		},
		"for an unknown key": func() error {
			r := httptest.NewRequest("POST", "/token/issue", nil)
			r.Header.Set("Authorization", "Bearer sk-nobody-0123456789")
			_, err := a.Issue(r)
			return err
		},
		"expired": func() error {
			now = now.Add(issuedFor + time.Second)
			defer func() { now = now.Add(-issuedFor - time.Second) }()
			_, err := a.Authenticate(t.Context(), token)
			return err
		},
	}
	for name, try := range refused {
		if err := try(); err == nil {
			t.Errorf("a token %s is accepted", name)
		}
	}

	open := make()
	r = httptest.NewRequest("POST", "/token/issue", nil)
	r.Header.Set("Authorization", "Bearer sk-anything")
	if token, err = open.Issue(r); err != nil || strings.Count(token, ".") != 2 {
		t.Errorf("open mode: %q %v", token, err)
	}
	if _, err := a.Authenticate(t.Context(), token); err == nil {
		t.Error("a token of an open server is accepted where keys are needed")
	}
}
