package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/parley-hq/parley/chat"
)

const hmacSecret = "0123456789abcdef0123456789abcdef"

func sign(t *testing.T, method jwt.SigningMethod, key any, kid string, claims jwt.MapClaims) string {
	t.Helper()
	tok := jwt.NewWithClaims(method, claims)
	if kid != "" {
		tok.Header["kid"] = kid
	}
	s, err := tok.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func pemFile(t *testing.T, public crypto.PublicKey) (path string, raw []byte) {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	raw = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	path = filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, raw
}

func claimsFor(sub string) jwt.MapClaims {
	return jwt.MapClaims{"sub": sub, "exp": time.Now().Add(time.Hour).Unix(), "iss": "issuer", "aud": []string{"parley", "other"}}
}

func with(c jwt.MapClaims, k string, v any) jwt.MapClaims {
	if v == nil {
		delete(c, k)
	} else {
		c[k] = v
	}
	return c
}

func TestJWTClaimsAreChecked(t *testing.T) {
	a := mustNew(t, Options{JWT: JWT{Secret: hmacSecret, Issuer: "issuer", Audience: "parley"}})
	hs := func(c jwt.MapClaims) string { return sign(t, jwt.SigningMethodHS256, []byte(hmacSecret), "", c) }

	full := claimsFor("u1")
	full["name"], full["email"], full["workspace"], full["scope"] = "Ann", "ann@example.com", "red", "openid user agent"
	c, err := a.Authenticate(t.Context(), hs(full))
	if err != nil || c.Actor != (chat.Actor{Kind: chat.User, ID: "u1", Name: "Ann", Email: "ann@example.com"}) || c.In() != "red" ||
		!c.Has(chat.ScopeUser) || !c.Has(chat.ScopeAgent) || c.Has(chat.ScopeAdmin) {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := a.Authenticate(t.Context(), hs(claimsFor("u1"))); err != nil || len(c.Scopes) != 1 || c.Scopes[0] != chat.ScopeUser {
		t.Errorf("without scopes: %+v, %v", c, err)
	}
	if c, err := a.Authenticate(t.Context(), hs(with(claimsFor("bot"), "scopes", []string{"agent"}))); err != nil || c.Actor.Kind != chat.Agent {
		t.Errorf("an agent: %+v, %v", c, err)
	}

	for _, agents := range []any{[]string{"one", "two"}, "one two"} {
		c, err := a.Authenticate(t.Context(), hs(with(with(claimsFor("bot"), "scope", "agent"), "agents", agents)))
		if err != nil || !c.MayServe("one") || !c.MayServe("two") || c.MayServe("bot") || c.AllWorkspaces {
			t.Errorf("agents %v: %+v, %v", agents, c, err)
		}
	}
	if c, err := a.Authenticate(t.Context(), hs(with(with(claimsFor("ops"), "scope", "admin"), "workspace", "*"))); err != nil || !c.AllWorkspaces || c.In() != chat.DefaultWorkspace {
		t.Errorf("admin of all workspaces: %+v, %v", c, err)
	}
	if c, err := a.Authenticate(t.Context(), hs(with(claimsFor("ops"), "scope", "admin"))); err != nil || c.AllWorkspaces {
		t.Errorf("admin of one workspace: %+v, %v", c, err)
	}

	for name, tc := range map[string]struct {
		token string
		says  string
		code  chat.Code
	}{
		"expired":       {hs(with(claimsFor("u"), "exp", time.Now().Add(-time.Hour).Unix())), "expired", chat.Unauthenticated},
		"just expired":  {hs(with(claimsFor("u"), "exp", time.Now().Add(-time.Second).Unix())), "expired", chat.Unauthenticated},
		"workspace *":   {hs(with(claimsFor("u"), "workspace", "*")), "admin", chat.Denied},
		"no expiry":     {hs(with(claimsFor("u"), "exp", nil)), "exp", chat.Unauthenticated},
		"before nbf":    {hs(with(claimsFor("u"), "nbf", time.Now().Add(time.Hour).Unix())), "not valid yet", chat.Unauthenticated},
		"issuer":        {hs(with(claimsFor("u"), "iss", "evil")), "another server", chat.Unauthenticated},
		"no issuer":     {hs(with(claimsFor("u"), "iss", nil)), "", chat.Unauthenticated},
		"audience":      {hs(with(claimsFor("u"), "aud", "someone")), "another server", chat.Unauthenticated},
		"no subject":    {hs(with(claimsFor("u"), "sub", nil)), "sub", chat.Unauthenticated},
		"long subject":  {hs(with(claimsFor("u"), "sub", strings.Repeat("x", 300))), "256", chat.Unauthenticated},
		"other scopes":  {hs(with(claimsFor("u"), "scope", "openid")), "scopes", chat.Denied},
		"wrong secret":  {sign(t, jwt.SigningMethodHS256, []byte(strings.Repeat("x", 32)), "", claimsFor("u")), "signature", chat.Unauthenticated},
		"alg none":      {sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "", claimsFor("u")), "signature", chat.Unauthenticated},
		"alg None":      {b64(`{"alg":"None"}`) + "." + b64(`{"sub":"u","exp":99999999999,"iss":"issuer","aud":"parley"}`) + ".", "signature", chat.Unauthenticated},
		"no signature":  {strings.Join(strings.Split(hs(claimsFor("u")), ".")[:2], ".") + ".", "signature", chat.Unauthenticated},
		"empty parts":   {"..", "signature", chat.Unauthenticated},
		"not a token":   {"hello", "token", chat.Unauthenticated},
		"changed claim": {forged(hs(claimsFor("u"))), "signature", chat.Unauthenticated},
	} {
		_, err := a.Authenticate(t.Context(), tc.token)
		if chat.CodeOf(err) != tc.code || !strings.Contains(chat.Public(err).Msg, tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func forged(token string) string {
	parts := strings.Split(token, ".")
	raw, _ := base64.RawURLEncoding.DecodeString(parts[1])
	parts[1] = b64(strings.Replace(string(raw), `"sub":"u"`, `"sub":"admin"`, 1))
	return strings.Join(parts, ".")
}

func TestJWTNeedsTheAlgorithmOfItsKey(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	edPub, edKey, _ := ed25519.GenerateKey(rand.Reader)
	for name, k := range map[string]struct {
		public crypto.PublicKey
		good   map[string]any
		bad    map[string]any
	}{
		"RSA": {&rsaKey.PublicKey, map[string]any{"RS256": rsaKey, "PS512": rsaKey}, map[string]any{"ES256": ecKey, "EdDSA": edKey}},
		"EC":  {&ecKey.PublicKey, map[string]any{"ES256": ecKey}, map[string]any{"RS256": rsaKey}},
		"Ed":  {edPub, map[string]any{"EdDSA": edKey}, map[string]any{"ES256": ecKey}},
	} {
		path, raw := pemFile(t, k.public)
		a := mustNew(t, Options{JWT: JWT{KeyFile: path}})
		for alg, key := range k.good {
			if _, err := a.Authenticate(t.Context(), sign(t, jwt.GetSigningMethod(alg), key, "", claimsFor("u"))); err != nil {
				t.Errorf("%s, %s: %v", name, alg, err)
			}
		}
		for alg, key := range k.bad {
			if _, err := a.Authenticate(t.Context(), sign(t, jwt.GetSigningMethod(alg), key, "", claimsFor("u"))); err == nil {
				t.Errorf("%s accepts %s", name, alg)
			}
		}
		// Algorithm confusion: the public key, which is known, used as an HMAC secret.
		der, _ := x509.MarshalPKIXPublicKey(k.public)
		for _, secret := range [][]byte{raw, der, []byte(strings.TrimSpace(string(raw)))} {
			if _, err := a.Authenticate(t.Context(), sign(t, jwt.SigningMethodHS256, secret, "", claimsFor("admin"))); err == nil {
				t.Errorf("%s: the public key works as a secret", name)
			}
		}
		if _, err := a.Authenticate(t.Context(), sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "", claimsFor("u"))); err == nil {
			t.Errorf("%s accepts alg none", name)
		}
	}
	private := filepath.Join(t.TempDir(), "private.pem")
	os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey)}), 0o600)
	if _, err := New(Options{JWT: JWT{KeyFile: private}}); err == nil || !strings.Contains(err.Error(), "public") {
		t.Errorf("a private key: %v", err)
	}
	if _, err := New(Options{JWT: JWT{KeyFile: private + ".missing"}}); err == nil {
		t.Error("a missing file is accepted")
	}
}

func TestJWKSKeysAreFetchedAndRotated(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	jwk := func(kid string) map[string]string {
		return map[string]string{"kty": "RSA", "kid": kid, "alg": "RS256", "use": "sig",
			"n": base64.RawURLEncoding.EncodeToString(key.N.Bytes()), "e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes())}
	}
	oct := map[string]string{"kty": "oct", "kid": "h", "alg": "HS256", "k": b64(hmacSecret)}
	var fetches atomic.Int32
	var keys atomic.Value
	keys.Store([]map[string]string{jwk("one"), oct})
	var broken atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches.Add(1)
		if broken.Load() {
			http.Error(w, "no", 500)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"keys": keys.Load()})
	}))
	defer srv.Close()
	now := &clock{time.Now()}
	a := mustNew(t, Options{JWT: JWT{JWKS: srv.URL}, Now: now.now})
	token := func(kid string) string {
		return sign(t, jwt.SigningMethodRS256, key, kid, with(claimsFor("u"), "exp", now.at.Add(100*time.Hour).Unix()))
	}
	try := func(kid string) error {
		_, err := a.Authenticate(t.Context(), token(kid))
		return err
	}

	broken.Store(true)
	if err := try("one"); chat.CodeOf(err) != chat.Unavailable {
		t.Errorf("keys cannot be fetched: %v", err)
	}
	broken.Store(false)
	now.at = now.at.Add(time.Minute)
	if err := try("one"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(t.Context(), sign(t, jwt.SigningMethodHS256, []byte(hmacSecret), "h", claimsFor("u"))); err == nil {
		t.Error("a symmetric key of the set is accepted")
	}
	before := fetches.Load()
	for range 20 {
		if try("made-up") == nil {
			t.Error("an unknown key is accepted")
		}
	}
	if n := fetches.Load() - before; n > 1 {
		t.Errorf("%d fetches for made-up key names", n)
	}
	keys.Store([]map[string]string{jwk("two")})
	now.at = now.at.Add(time.Minute)
	if err := try("two"); err != nil {
		t.Errorf("after a rotation: %v", err)
	}
	broken.Store(true)
	now.at = now.at.Add(2 * time.Hour)
	if err := try("two"); err != nil {
		t.Errorf("old keys while the issuer cannot be reached: %v", err)
	}
}

// While the issuer does not answer, only tokens with unknown keys wait.
func TestHangingIssuerDelaysOnlyUnknownKeys(t *testing.T) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	asked, answer := make(chan struct{}), make(chan struct{})
	var hangs atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hangs.Load() {
			asked <- struct{}{}
			select {
			case <-answer:
			case <-r.Context().Done():
			}
		}
		json.NewEncoder(w).Encode(map[string]any{"keys": []map[string]string{
			{"kty": "OKP", "crv": "Ed25519", "kid": "one", "alg": "EdDSA", "x": base64.RawURLEncoding.EncodeToString(public)},
		}})
	}))
	defer srv.Close()
	now := &clock{time.Now()}
	a := mustNew(t, Options{JWT: JWT{JWKS: srv.URL}, Now: now.now})
	a.jwt.set.client.Timeout = time.Minute // longer than the test
	claims := with(claimsFor("u"), "exp", now.at.Add(100*time.Hour).Unix())
	known, unknown := sign(t, jwt.SigningMethodEdDSA, key, "one", claims), sign(t, jwt.SigningMethodEdDSA, key, "made-up", claims)
	if _, err := a.Authenticate(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	hangs.Store(true)
	for _, c := range []struct {
		name  string
		later time.Duration
		waits string // the token for which the issuer is asked
	}{
		{"for a made-up key", time.Minute, unknown},
		{"for newer keys", 2 * time.Hour, known},
	} {
		now.at = now.at.Add(c.later)
		done := make(chan error, 1)
		go func() {
			_, err := a.Authenticate(t.Context(), c.waits)
			done <- err
		}()
		<-asked
		if _, err := a.Authenticate(t.Context(), known); err != nil {
			t.Errorf("asked %s: %v", c.name, err)
		}
		if a.jwt.set.mu.TryLock() {
			t.Fatalf("asked %s: a token with a known key waited for the issuer", c.name)
		}
		answer <- struct{}{}
		if err := <-done; (err == nil) != (c.waits == known) {
			t.Errorf("the request %s: %v", c.name, err)
		}
	}
}

func TestCookieExpiresWithItsJWT(t *testing.T) {
	now := &clock{time.Now()}
	a := mustNew(t, Options{JWT: JWT{Secret: hmacSecret}, Now: now.now})
	h := a.Handler(func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusUnauthorized)
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request("POST", "/auth/session", "Authorization", "Bearer "+sign(t, jwt.SigningMethodHS256, []byte(hmacSecret), "", claimsFor("u"))))
	if w.Code != 200 || len(w.Result().Cookies()) != 1 {
		t.Fatal(w.Code, w.Body)
	}
	now.at = now.at.Add(2 * time.Hour)
	r := request("GET", "/")
	r.AddCookie(w.Result().Cookies()[0])
	if _, err := a.Caller(r); err == nil {
		t.Error("the cookie is accepted after the token has expired")
	}
}
