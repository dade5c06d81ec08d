package auth

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/parley-hq/parley/chat"
)

func from(address string, r *http.Request) *http.Request {
	r.RemoteAddr = address
	return r
}

func TestWrongCredentialsAreRateLimited(t *testing.T) {
	var log bytes.Buffer
	now := &clock{time.Unix(1_700_000_000, 0)}
	o := tokenOptions()
	o.Now, o.Logger = now.now, slog.New(slog.NewTextHandler(&log, nil))
	a := mustNew(t, o)
	wrong := func(address string) chat.Code {
		_, err := a.Caller(from(address, request("GET", "/", "Authorization", "Bearer wrong-secret-0123456789")))
		if e := chat.Public(err); e.Code == chat.SlowDown && e.Details["retry_after"] != 1 {
			t.Errorf("%v", e.Details)
		}
		return chat.CodeOf(err)
	}
	for i := range 20 {
		if code := wrong(fmt.Sprintf("192.0.2.1:%d", i+1)); code != chat.Unauthenticated {
			t.Fatalf("attempt %d: %s", i, code)
		}
	}
	for range 3 {
		if code := wrong("192.0.2.1:99"); code != chat.SlowDown {
			t.Errorf("after 20 attempts: %s", code)
		}
	}
	if _, err := a.Caller(from("192.0.2.1:7", request("GET", "/", KeyHeader, aliceToken))); err != nil {
		t.Errorf("a right token from the same address: %v", err)
	}
	if code := wrong("192.0.2.2:1"); code != chat.Unauthenticated {
		t.Errorf("another address: %s", code)
	}
	now.at = now.at.Add(time.Second)
	if code := wrong("192.0.2.1:99"); code != chat.Unauthenticated {
		t.Errorf("a second later: %s", code)
	}
	if code := wrong("192.0.2.1:99"); code != chat.SlowDown {
		t.Errorf("and again: %s", code)
	}
	if n := strings.Count(log.String(), "address=192.0.2.1"); n != 1 || !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("%d lines:\n%s", n, &log)
	}
	now.at = now.at.Add(time.Minute)
	wrong("192.0.2.1:99")
	if !strings.Contains(log.String(), "refused=25") || strings.Contains(log.String(), "wrong-secret") {
		t.Errorf("a minute later:\n%s", &log)
	}
	if n := a.Failures(CarrierHeader); n != 27 {
		t.Errorf("%d refused", n)
	}
}

// An expired credential is not a guess: each request gets the reason, so that the client
// signs in again.
func TestExpiredCredentialsAreNotRateLimited(t *testing.T) {
	a := mustNew(t, Options{JWT: JWT{Secret: hmacSecret}, Tokens: tokenOptions().Tokens})
	old := sign(t, jwt.SigningMethodHS256, []byte(hmacSecret), "", with(claimsFor("u"), "exp", time.Now().Add(-time.Second).Unix()))
	for i := range 50 {
		for _, r := range []*http.Request{request("GET", "/", KeyHeader, old), request("GET", "/", "Cookie", CookieName+"=of-yesterday")} {
			if _, err := a.Caller(r); chat.CodeOf(err) != chat.Unauthenticated {
				t.Fatalf("attempt %d: %v", i, err)
			}
		}
	}
	if a.Failures(CarrierKey) != 50 || a.Failures(CarrierCookie) != 50 {
		t.Errorf("counted %d and %d", a.Failures(CarrierKey), a.Failures(CarrierCookie))
	}
}

func TestFailedRequestIsCountedOnce(t *testing.T) {
	a := mustNew(t, tokenOptions())
	r := request("GET", "/?access_token=nope")
	ctx, _, err := a.Identify(r, true)
	if chat.CodeOf(err) != chat.Unauthenticated {
		t.Fatal(err)
	}
	r = r.WithContext(ctx)
	for range 3 {
		if _, err := a.Caller(r); chat.CodeOf(err) != chat.Unauthenticated {
			t.Fatal(err)
		}
	}
	if n := a.Failures(CarrierQuery); n != 1 {
		t.Errorf("%d", n)
	}
	if _, ok := From(ctx); ok {
		t.Error("a caller that was refused")
	}
	// A frame on the same connection is another attempt.
	if _, err := a.Authenticate(ctx, "nope"); err == nil || a.Failures(CarrierFrame) != 1 {
		t.Errorf("%v, %d", err, a.Failures(CarrierFrame))
	}
	if _, err := a.Caller(request("GET", "/")); err == nil || a.Failures(CarrierHeader) != 0 {
		t.Error("a request without a credential counts as a wrong one")
	}
}

func TestAddressesOfFailuresAreBounded(t *testing.T) {
	now := &clock{time.Unix(1, 0)}
	f := newFailures(now.now)
	for i := range maxAddresses + 100 {
		f.add(fmt.Sprint(i))
	}
	if n := len(f.addresses); n != maxAddresses {
		t.Errorf("%d addresses are kept", n)
	}
	now.at = now.at.Add(time.Hour)
	f.add("later")
	if n := len(f.addresses); n != 1 {
		t.Errorf("%d addresses are kept after an hour", n)
	}
}
