package model

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/parley-hq/parley/internal/agents/tool"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/sse"
)

const (
	maxEvent = 32 << 20 // bytes of one event of a stream
	maxError = 64 << 10 // bytes of the body of a response that is not a success
	maxDrain = 4 << 10  // bytes to read after the end of an answer
)

// protocol contains the differences between the providers.
type protocol struct {
	address     string // of the provider's own servers
	keyVariable string
	models      string // path and query of the request that lists the models
	// authorize sets the headers for a key, "" for none.
	authorize func(h http.Header, key string)
	// open converts a request.
	open func(opt *Options, r *llm.Request) (apiRequest, error)
	// doneEnds says that the event [DONE] ends an answer: some Chat Completions
	// endpoints send no other end.
	doneEnds bool
}

// apiRequest is one request to an endpoint.
type apiRequest struct {
	path   string // path and query below the endpoint's address
	body   any    // written as JSON
	stream stream // reads the answer
}

// stream reads the events of an answer.
type stream interface {
	Add(data []byte) ([]llm.Delta, error)
	Ended() bool
	Answer() (*llm.Answer, error)
}

// endpoint asks a model over HTTP.
type endpoint struct {
	protocol
	opt    *Options
	base   string
	client *http.Client
}

func newEndpoint(opt *Options, client *http.Client) *endpoint {
	e := &endpoint{protocol: protocols[opt.Provider], opt: opt}
	e.base = cmp.Or(opt.Endpoint, e.address)
	c := *client
	c.CheckRedirect = tool.SameOrigin
	e.client = &c
	return e
}

// ask sends a request and passes every delta of the answer to see. It calls alive for
// every event. Its errors are of type *Failure, except for errors returned by see and
// the cause of a canceled context.
func (e *endpoint) ask(ctx context.Context, key string, r *llm.Request, alive func(), see func(llm.Delta) error) (*llm.Answer, error) {
	q, err := e.open(e.opt, r)
	if err != nil {
		return nil, err
	}
	response, err := e.send(ctx, http.MethodPost, key, q.path, q.body)
	if err != nil {
		return nil, failure(ctx, err)
	}
	defer response.Body.Close()
	events := sse.NewReader(response.Body, maxEvent)
	begun, done := false, false
	for end := error(nil); end == nil && !done; {
		var frame sse.Frame
		frame, end = events.Next()
		if end != nil && end != io.EOF && end != io.ErrUnexpectedEOF {
			return nil, failure(ctx, end)
		}
		if len(frame.Data) == 0 || end != nil && !json.Valid(frame.Data) {
			continue
		}
		alive()
		begun = true
		if done = bytes.HasPrefix(frame.Data, []byte("[DONE]")); done {
			continue
		}
		deltas, err := q.stream.Add(frame.Data)
		if err != nil {
			return nil, failure(ctx, err)
		}
		for _, d := range deltas {
			if err := see(d); err != nil {
				return nil, err
			}
		}
	}
	if !q.stream.Ended() && !(done && e.doneEnds) {
		return nil, incomplete(ctx, response, begun)
	}
	// Read the body to its end, so that the connection is reused and the next request
	// needs no handshake.
	_, _ = io.CopyN(io.Discard, response.Body, maxDrain) // an error only prevents the reuse
	return q.stream.Answer()
}

// list requests the list of models, to check that the endpoint accepts the key.
func (e *endpoint) list(ctx context.Context, key string) error {
	response, err := e.send(ctx, http.MethodGet, key, e.models, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.CopyN(io.Discard, response.Body, maxEvent)
	if err == io.EOF {
		return nil
	}
	return err
}

// send sends a request. For a status other than success it returns an
// *llm.EndpointError.
func (e *endpoint) send(ctx context.Context, method, key, path string, body any) (*http.Response, error) {
	base, err := url.Parse(e.base)
	if err != nil {
		return nil, err
	}
	path, query, _ := strings.Cut(path, "?")
	u := base.JoinPath(path)
	u.RawQuery = query
	var b []byte
	if body != nil {
		if b, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "parley")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	e.authorize(request.Header, key)
	for name, value := range e.opt.Headers {
		request.Header.Set(name, value)
	}
	response, err := e.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		defer response.Body.Close()
		b, err := io.ReadAll(io.LimitReader(response.Body, maxError))
		if err != nil {
			return nil, err
		}
		return nil, llm.ResponseError(response.StatusCode, b, retryAfter(response.Header))
	}
	return response, nil
}
