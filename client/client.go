package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// DefaultURL is the default address of a server.
const DefaultURL = "http://127.0.0.1:8000"

// ErrUnreachable is wrapped by every error of the network.
var ErrUnreachable = errors.New("the server cannot be reached")

// Options configures a Client. The zero value connects to a local server.
type Options struct {
	URL         string        // of the server, or of the nodes of a cluster with commas between; "" means DefaultURL
	Token       string        // sent as a bearer token when not empty
	HTTP        *http.Client  // nil means a new one; it must not have a Timeout, which would cut streams
	Logger      *slog.Logger  // nil means none
	Backoff     Backoff       // between attempts
	Retries     int           // of a call that is safe to repeat; 0 means 5, negative none
	IdleTimeout time.Duration // a connection that receives nothing for so long is opened again; 0 means 45 s
}

// Validate returns all problems of o.
func (o Options) Validate() error {
	var problems []error
	for _, address := range addresses(o.URL) {
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			problems = append(problems, chat.Errorf(chat.Invalid, "%q is not the address of a server: use something like %s", address, DefaultURL))
		}
	}
	if strings.ContainsAny(o.Token, "\r\n") {
		problems = append(problems, chat.Errorf(chat.Invalid, "the token has a line break in it"))
	}
	if o.HTTP != nil && o.HTTP.Timeout != 0 {
		problems = append(problems, chat.Errorf(chat.Invalid, "the HTTP client has a Timeout, which would cut streams; use contexts instead"))
	}
	return errors.Join(problems...)
}

func (o Options) withDefaults() Options {
	if o.HTTP == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = 16
		o.HTTP = &http.Client{Transport: t}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Retries = cmp.Or(o.Retries, 5)
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = 45 * time.Second
	}
	o.Backoff = o.Backoff.withDefaults()
	return o
}

// Client calls one server, or one of several nodes and the next one when that is down.
type Client struct {
	opt   Options
	nodes []string     // their addresses
	node  atomic.Int64 // the number of the one in use; it grows, and wraps around
}

// New returns a client. It does not connect.
func New(opt Options) (*Client, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	opt = opt.withDefaults()
	return &Client{opt: opt, nodes: addresses(opt.URL)}, nil
}

// URL is the address of the server, or of the node that is in use.
func (c *Client) URL() string { return c.address(c.node.Load()) }

// Close closes idle connections. Running calls are not affected.
func (c *Client) Close() { c.opt.HTTP.CloseIdleConnections() }

// call is one request that is answered with JSON.
type call struct {
	method string
	path   string // behind /parley/v1, unless root is set
	root   bool
	query  url.Values
	in     any  // encoded as JSON when not nil
	safe   bool // may be sent again when its response was lost
}

// do sends a call and returns the answer.
func do[T any](ctx context.Context, c *Client, r call) (out T, err error) {
	err = c.do(ctx, r, &out)
	return out, err
}

// do sends a call and decodes the answer into out, which may be nil.
func (c *Client) do(ctx context.Context, r call, out any) error {
	var body []byte
	if r.in != nil {
		var err error
		if body, err = json.Marshal(r.in); err != nil {
			return chat.Errorf(chat.Invalid, "the request cannot be written as JSON").Because(err)
		}
	}
	return c.repeat(ctx, r.safe, func() error {
		ctx, cancel := c.limit(ctx, r.safe)
		defer cancel()
		path := apiPath + r.path
		if r.root {
			path = r.path
		}
		req, err := c.requestAt(ctx, r.method, path, r.query, body)
		if err != nil {
			return err
		}
		res, err := c.send(req)
		if err != nil {
			return err
		}
		defer drain(res.Body)
		if out == nil {
			return nil
		}
		if err := json.NewDecoder(res.Body).Decode(out); err != nil {
			return c.broken(ctx, err)
		}
		return nil
	})
}

// request returns a request whose path is behind /parley/v1.
func (c *Client) request(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Request, error) {
	return c.requestAt(ctx, method, apiPath+path, query, body)
}

func (c *Client) requestAt(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Request, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	target := c.URL() + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, reader)
	if err != nil {
		return nil, chat.Errorf(chat.Invalid, "the request cannot be made").Because(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("X-Parley-Request", "1") // tells the server that this is not a link on a page
	c.authorize(req.Header)
	return req, nil
}

func (c *Client) authorize(h http.Header) {
	if c.opt.Token != "" {
		h.Set("Authorization", "Bearer "+c.opt.Token)
	}
}

// send returns a successful response, or the error of the server or the network.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	res, err := c.opt.HTTP.Do(req)
	if err != nil {
		return nil, c.broken(req.Context(), err)
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer drain(res.Body)
	return nil, refusal(res)
}

// broken is the error of a connection.
func (c *Client) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err // the text below has the address
	}
	return chat.Errorf(chat.Unavailable, "cannot reach the server at %s", c.URL()).Because(fmt.Errorf("%w: %w", ErrUnreachable, err))
}

// drain reads the rest of a body, so that the connection can be reused.
func drain(body io.ReadCloser) {
	io.CopyN(io.Discard, body, 64<<10)
	body.Close()
}

// wireError is the native form of an error.
type wireError struct {
	Code    chat.Code      `json:"code"`
	Reason  chat.Reason    `json:"reason"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"`
}

func (e *wireError) err() *chat.Error {
	return &chat.Error{Code: e.Code, Reason: e.Reason, Msg: e.Message, Details: e.Details}
}

// refusal reads an error response.
func refusal(res *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	var in struct {
		Error wireError `json:"error"`
	}
	var e *chat.Error
	if mediaType(res.Header) == "application/json" && json.Unmarshal(raw, &in) == nil && in.Error.Code != "" {
		e = in.Error.err()
	} else {
		// A proxy, or another server on that port.
		e = chat.Errorf(codeOf(res.StatusCode), "the server answered %s", res.Status)
		if line, _, _ := strings.Cut(strings.TrimSpace(string(raw)), "\n"); line != "" && line[0] != '<' { // not a page
			e.Msg += fmt.Sprintf(": %.200q", line)
		}
	}
	if s := res.Header.Get("Retry-After"); s != "" {
		if n, err := strconv.Atoi(s); err == nil && n >= 0 {
			e = e.With("retry_after", n)
		}
	}
	return e
}

func mediaType(h http.Header) string {
	t, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return t
}

func codeOf(status int) chat.Code {
	switch status {
	case http.StatusUnauthorized:
		return chat.Unauthenticated
	case http.StatusForbidden, http.StatusMisdirectedRequest:
		return chat.Denied
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return chat.NotFound
	case http.StatusConflict:
		return chat.Conflict
	case http.StatusGone:
		return chat.Gone
	case http.StatusRequestEntityTooLarge:
		return chat.TooLarge
	case http.StatusTooManyRequests:
		return chat.SlowDown
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return chat.Unavailable
	}
	if status >= 500 {
		return chat.Internal
	}
	return chat.Invalid
}
