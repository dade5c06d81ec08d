package vertesia

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// signedPath is where files go in and out by an address that speaks for itself:
// clients send no credentials there.
const signedPath = "/api/v1/signed/"

// signedFor is how long such an address serves.
const signedFor = 15 * time.Minute

// sealText writes a permit and its seal. It is strict: a seal has one spelling,
// so that no changed address passes.
var sealText = base64.RawURLEncoding.Strict()

// permit is what a signed address allows: one method on one file, as somebody.
type permit struct {
	Method      string         `json:"m"`
	Session     chat.SessionID `json:"s"`
	Path        string         `json:"p"`
	Type        string         `json:"t,omitempty"`
	Name        string         `json:"n,omitempty"` // of the file when it is downloaded
	Disposition string         `json:"d,omitempty"`
	Caller      chat.Caller    `json:"c"`
	Expires     int64          `json:"e"` // seconds since the epoch
}

// signedURL makes the address.
func (d *Dialect) signedURL(r *http.Request, p permit) (string, error) {
	until := d.opt.Now().Add(signedFor)
	if end := p.Caller.Expires; !end.IsZero() && end.Before(until) {
		until = end // no longer than the credential that asked for it
	}
	p.Expires = until.Unix()
	b, err := marshal(p)
	if err != nil {
		return "", err
	}
	token := sealText.EncodeToString(b) + "." + sealText.EncodeToString(d.seal(b))
	u := url.URL{Scheme: d.scheme(r), Host: r.Host, Path: signedPath + p.Path}
	// The name of the parameter is one that never reaches a log.
	u.RawQuery = url.Values{"access_token": {token}}.Encode()
	return u.String(), nil
}

func (d *Dialect) seal(b []byte) []byte {
	mac := hmac.New(sha256.New, d.opt.Secret)
	mac.Write([]byte("vertesia signed address\x00"))
	mac.Write(b)
	return mac.Sum(nil)
}

func (d *Dialect) scheme(r *http.Request) string {
	if r.TLS != nil || d.opt.TrustedProxy && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		return "https"
	}
	return "http"
}

// permitOf checks a signed address.
func (d *Dialect) permitOf(r *http.Request) (p permit, err error) {
	bad := chat.Errorf(chat.Denied, "this address is not signed by this server, or was changed: ask for a new one")
	text, sum, ok := strings.Cut(r.URL.Query().Get("access_token"), ".")
	if !ok || len(d.opt.Secret) == 0 {
		return p, bad
	}
	b, err := sealText.DecodeString(text)
	if err != nil {
		return p, bad
	}
	given, err := sealText.DecodeString(sum)
	if err != nil || !hmac.Equal(given, d.seal(b)) || json.Unmarshal(b, &p) != nil {
		return p, bad
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if method != p.Method || r.PathValue("path") != p.Path {
		return p, bad
	}
	if d.opt.Now().Unix() >= p.Expires {
		return p, chat.Errorf(chat.Denied, "this address has expired: ask for a new one")
	}
	if d.opt.Check(p.Caller) != nil {
		return p, chat.Errorf(chat.Denied, "the credential that asked for this address is not valid any more: sign in again and ask for a new address")
	}
	return p, nil
}
