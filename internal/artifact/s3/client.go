package s3

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/parley-hq/parley/internal/sleep"
)

// emptyHash is the hash of a request without a body.
const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// client makes signed requests to one bucket.
type client struct {
	at          *Location
	credentials CredentialSource
	http        *http.Client
	signer      *v4.Signer
	stall       time.Duration // without progress until an attempt ends
	tries       int
	pause       time.Duration // before the second attempt; it doubles
}

func newClient(opt *Options) *client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true
	transport.MaxIdleConnsPerHost = 32
	return &client{
		at: opt.Location, credentials: opt.Credentials, stall: opt.Stall, tries: opt.Tries, pause: opt.Pause,
		http: &http.Client{
			Transport: transport,
			// A redirect would send the request, with its signature, to an address that no flag names.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		signer: v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }),
	}
}

// request is a request that can be sent several times.
type request struct {
	method string
	key    string // "" for the bucket
	query  url.Values
	header map[string]string
	body   func() io.Reader // called for each attempt; nil means none
	size   int64            // of the body
	hash   string           // of the body
	wait   time.Duration    // for the response, after the body is sent; 0 means Options.Stall
	ended  func() bool      // whether no further attempt is wanted; nil means never
}

// statusError is an answer that is not a success. It has no text of the service: that may repeat parts of the request's signature.
type statusError struct {
	status int
	code   string // such as AccessDenied
}

func (e *statusError) Error() string {
	if e.status/100 == 3 {
		return fmt.Sprintf("the service redirects (status %d); check the endpoint and the region", e.status)
	}
	return strings.TrimSpace(fmt.Sprintf("the service answers with status %d %s", e.status, e.code))
}

// temporary reports whether a request may be sent again.
func (e *statusError) temporary() bool {
	switch e.code {
	case "XAmzContentSHA256Mismatch", "BadDigest", "IncompleteBody", "RequestTimeout":
		return true
	}
	return e.status >= 500 || e.status == http.StatusTooManyRequests || e.status == http.StatusRequestTimeout
}

func hasStatus(err error, status int) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.status == status
}

var errStalled = errors.New("the service makes no progress")

// do sends a request and returns a successful answer. The caller closes its body.
func (c *client) do(ctx context.Context, r *request) (*http.Response, error) {
	for try := 1; ; try++ {
		res, err := c.attempt(ctx, r)
		if err == nil || ctx.Err() != nil {
			return res, err
		}
		if e, ok := errors.AsType[*statusError](err); ok && !e.temporary() || try == c.tries || r.ended != nil && r.ended() {
			return nil, err
		}
		pause := c.pause << (try - 1)
		if err := sleep.For(ctx, pause/2+rand.N(pause)); err != nil {
			return nil, err
		}
	}
}

// attempt sends a request once.
func (c *client) attempt(ctx context.Context, r *request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	wait := max(r.wait, c.stall)
	watch := &watchdog{time.AfterFunc(wait, func() { cancel(errStalled) }), wait}
	res, err := c.send(ctx, r, watch)
	if err == nil && res.StatusCode/100 != 2 {
		err = &statusError{res.StatusCode, errorCode(res)}
		res.Body.Close()
	}
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
			err = cause
		}
		watch.Stop()
		cancel(nil)
		return nil, err
	}
	watch.Stop()
	res.Body = &watchedBody{res.Body, &watchdog{watch.Timer, c.stall}, cancel}
	return res, nil
}

func (c *client) send(ctx context.Context, r *request, watch *watchdog) (*http.Response, error) {
	u := *c.at.Endpoint
	u.Path += "/" + c.at.Bucket
	if r.key != "" {
		u.Path += "/" + r.key
	}
	u.RawQuery = r.query.Encode()
	body, hash := io.Reader(http.NoBody), emptyHash
	if r.body != nil {
		hash = r.hash
		if r.size > 0 {
			body = &watchedReader{r.body(), watch}
		}
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = r.size
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	req.Header.Set("X-Amz-Content-Sha256", hash)
	keys, err := c.credentials()
	if err != nil {
		return nil, err
	}
	who := aws.Credentials{AccessKeyID: keys.id, SecretAccessKey: keys.secret, SessionToken: keys.token}
	if err := c.signer.SignHTTP(ctx, who, req, hash, "s3", c.at.Region, time.Now()); err != nil {
		return nil, errors.New("the request could not be signed")
	}
	return c.http.Do(req)
}

// watchdog ends an attempt that makes no progress.
type watchdog struct {
	*time.Timer
	wait time.Duration
}

// watchedReader is a body that is sent.
type watchedReader struct {
	io.Reader
	watch *watchdog
}

func (r *watchedReader) Read(p []byte) (int, error) {
	r.watch.Reset(r.watch.wait)
	return r.Reader.Read(p)
}

// watchedBody is the body of an answer. The time between two reads does not count.
type watchedBody struct {
	io.ReadCloser
	watch  *watchdog
	cancel context.CancelCauseFunc
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.watch.Reset(b.watch.wait)
	defer b.watch.Stop()
	return b.ReadCloser.Read(p)
}

func (b *watchedBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

var codeName = regexp.MustCompile(`^[A-Za-z0-9.]+$`)

// errorCode returns the code of an error that the service answers with, if there is one.
func errorCode(res *http.Response) string {
	var e struct {
		XMLName xml.Name
		Code    string `xml:"Code"`
	}
	err := xml.NewDecoder(io.LimitReader(res.Body, 1<<16)).Decode(&e)
	if err != nil || e.XMLName.Local != "Error" || len(e.Code) > 64 || !codeName.MatchString(e.Code) {
		return ""
	}
	return e.Code
}
