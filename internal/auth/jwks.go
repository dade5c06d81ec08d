package auth

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"

	"github.com/parley-hq/parley/chat"
)

const (
	keysFresh   = time.Hour        // after that the set is fetched again when it is needed
	keysPause   = 30 * time.Second // between two fetches, whatever tokens ask for
	keysTimeout = 10 * time.Second
	keysMax     = 1 << 20
)

// keySet holds the keys of a JWKS address. It is fetched on first use, when it
// is an hour old, and when a token names a key that it lacks (issuers rotate),
// the latter at most twice a minute, so that invented key names do not cause requests.
type keySet struct {
	url    string
	now    func() time.Time
	client *http.Client // the address is the operator's, so it may be private

	have atomic.Pointer[keys] // nil before the first success

	mu    sync.Mutex // held during a fetch; others wait for its result
	tried time.Time  // of the last fetch
	err   error      // of the last fetch
}

// keys is a fetched key set.
type keys struct {
	find keyfunc.Keyfunc
	at   time.Time
}

func newKeySet(url string, now func() time.Time) *keySet {
	return &keySet{url: url, now: now, client: &http.Client{
		Timeout:   keysTimeout,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true},
	}}
}

func (s *keySet) key(ctx context.Context, t *jwt.Token) (any, error) {
	keys, err := s.current(false)
	if err != nil {
		return nil, err
	}
	key, err := keys.KeyfuncCtx(ctx)(t)
	if err == nil {
		return key, nil
	}
	if keys, err = s.current(true); err != nil {
		return nil, err
	}
	return keys.KeyfuncCtx(ctx)(t)
}

// current returns the set, fetched again when it is old or when more is true. A call
// with more, or without a set, waits for a fetch in progress. All others use the set
// that exists, so that a slow issuer or invented key names do not block them.
func (s *keySet) current(more bool) (keyfunc.Keyfunc, error) {
	now, have := s.now(), s.have.Load()
	if more || have == nil {
		s.mu.Lock()
	} else if now.Sub(have.at) <= keysFresh || !s.mu.TryLock() {
		return have.find, nil
	}
	defer s.mu.Unlock()
	if s.tried.IsZero() || now.Sub(s.tried) > keysPause {
		s.tried = now
		var find keyfunc.Keyfunc
		if find, s.err = s.fetch(); s.err == nil {
			s.have.Store(&keys{find, now})
		}
	}
	if have = s.have.Load(); have == nil {
		return nil, chat.Errorf(chat.Unavailable, "the keys to check tokens with cannot be fetched now: try again in a minute").Because(s.err)
	}
	return have.find, nil // old keys are used while the issuer is unreachable
}

func (s *keySet) fetch() (keyfunc.Keyfunc, error) {
	resp, err := s.client.Get(s.url) // it does not end with one request: others wait for it
	if err != nil {
		return nil, fmt.Errorf("fetch the key set: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch the key set: the answer was %s", resp.Status)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, keysMax))
	if err != nil {
		return nil, fmt.Errorf("fetch the key set: %w", err)
	}
	return keyfunc.NewJWKSetJSON(raw)
}
