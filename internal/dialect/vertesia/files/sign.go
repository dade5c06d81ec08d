package files

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/wire"
)

// signedPath is the beginning of signed addresses.
const signedPath = "/api/v1/signed/"

// signedFor is how long a signed address is valid.
const signedFor = 15 * time.Minute

// encoding writes a permit and its signature. It is strict: a signature has one
// spelling, so that a changed address is never valid.
var encoding = base64.RawURLEncoding.Strict()

// permit is what a signed address allows: one method on one file, for one caller.
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

// signedURL makes the address. It expires with the credential of its caller at
// the latest.
func (s *Service) signedURL(r *http.Request, p permit) (string, error) {
	until := s.opt.Now().Add(signedFor)
	if end := p.Caller.Expires; !end.IsZero() && end.Before(until) {
		until = end
	}
	p.Expires, p.Name, p.Disposition = until.Unix(), text.Clip(p.Name, 200), text.Clip(p.Disposition, 20)
	b, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	scheme := "http"
	if r.TLS != nil || s.opt.TrustedProxy && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		scheme = "https"
	}
	u := url.URL{Scheme: scheme, Host: r.Host, Path: signedPath + p.Path}
	// Logs leave this parameter out.
	u.RawQuery = url.Values{"access_token": {encoding.EncodeToString(b) + "." + encoding.EncodeToString(s.sign(b))}}.Encode()
	return u.String(), nil
}

func (s *Service) sign(b []byte) []byte {
	mac := hmac.New(sha256.New, s.opt.Secret)
	mac.Write([]byte("vertesia signed address\x00"))
	mac.Write(b)
	return mac.Sum(nil)
}

// permitOf checks a signed address.
func (s *Service) permitOf(r *http.Request) (p permit, err error) {
	bad := chat.Errorf(chat.Denied, "this address is not signed by this server, or was changed: ask for a new one")
	payload, signature, ok := strings.Cut(r.URL.Query().Get("access_token"), ".")
	if !ok || len(s.opt.Secret) == 0 {
		return p, bad
	}
	b, err := encoding.DecodeString(payload)
	if err != nil {
		return p, bad
	}
	given, err := encoding.DecodeString(signature)
	if err != nil || !hmac.Equal(given, s.sign(b)) || json.Unmarshal(b, &p) != nil {
		return p, bad
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if method != p.Method || r.PathValue("path") != p.Path {
		return p, bad
	}
	if s.opt.Now().Unix() >= p.Expires {
		return p, chat.Errorf(chat.Denied, "this address has expired: ask for a new one")
	}
	if s.opt.Check(p.Caller) != nil {
		return p, chat.Errorf(chat.Denied, "the credential that asked for this address is not valid any more: sign in again and ask for a new address")
	}
	return p, nil
}

// serveSigned uploads or downloads by a signed address.
func (s *Service) serveSigned(w http.ResponseWriter, r *http.Request) {
	if err := s.useSigned(w, r); err != nil {
		s.http.Fail(w, r, err)
	}
}

// useSigned checks the rights of the caller that the address was made for again. The
// request counts as one of the caller, and ends with the caller's credential.
func (s *Service) useSigned(w http.ResponseWriter, r *http.Request) (err error) {
	p, err := s.permitOf(r)
	if err == nil {
		err = s.opt.Allow(p.Caller, 1)
	}
	if err != nil {
		return err
	}
	ctx, release := s.opt.Bind(r.Context(), p.Caller)
	defer release()
	defer func() {
		if err != nil {
			err = wire.Reason(ctx, err)
		}
	}()
	r = r.WithContext(ctx)
	defer wire.BindBody(w, r)()
	sess, err := s.opt.Sessions.Get(r.Context(), p.Caller, p.Session)
	if err != nil {
		return err
	}
	if p.Method != http.MethodPut {
		return s.sendFile(w, r, p)
	}
	if err := s.upload(w, r, p.Caller, file{sess, p.Path}, cmp.Or(p.Type, r.Header.Get("Content-Type"))); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// sendFile sends a file to a caller whose rights were checked.
func (s *Service) sendFile(w http.ResponseWriter, r *http.Request, p permit) error {
	body, info, err := s.open(r.Context(), p.Caller, p.Session, p.Path)
	if err != nil {
		return err
	}
	defer body.Close()
	h, name := w.Header(), cmp.Or(p.Name, info.Path)
	wire.StoredHeaders(h, name, info.MediaType, info.SHA256)
	h.Del("Cross-Origin-Resource-Policy") // the client's page may have another origin
	if info.SHA256 == "" {
		h.Del("ETag")
	}
	if p.Disposition == "attachment" {
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": wire.SafeName(name)}))
	}
	wire.ServeStored(w, r, info.StoredAt.Time(), body, func(err error) {
		s.http.Log.ErrorContext(r.Context(), "a file could not be sent whole", "session", p.Session, "path", info.Path, "err", err)
	})
	return nil
}
