package auth

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
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
// the latter at most twice a minute, so that made-up key names do not become
// requests.
type keySet struct {
	url    string
	now    func() time.Time
	client *http.Client // the address is the operator's, so it may be private

	mu    sync.Mutex
	keys  keyfunc.Keyfunc // nil before the first success
	at    time.Time       // of the last success
	tried time.Time       // of the last fetch
	err   error           // of the last fetch
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

// current returns the set, fetched again when it is old or when more is true.
// The lock is held during the fetch: those who need the keys can only wait, and
// one fetch is enough for all of them.
func (s *keySet) current(more bool) (keyfunc.Keyfunc, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	old := s.keys == nil || now.Sub(s.at) > keysFresh
	if (old || more) && (s.tried.IsZero() || now.Sub(s.tried) > keysPause) {
		s.tried = now
		keys, err := s.fetch()
		if s.err = err; err == nil {
			s.keys, s.at = keys, now
		}
	}
	if s.keys == nil {
		return nil, chat.Errorf(chat.Unavailable, "the keys to check tokens with cannot be fetched now: try again in a minute").Because(s.err)
	}
	return s.keys, nil // old keys are better than none while the issuer is away
}

func (s *keySet) fetch() (keyfunc.Keyfunc, error) {
	ctx, cancel := context.WithTimeout(context.Background(), keysTimeout) // for all who wait, not for one request
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
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
