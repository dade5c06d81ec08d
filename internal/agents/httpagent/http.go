package httpagent

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/retry"
	"github.com/parley-hq/parley/internal/sleep"
)

// newClient returns the HTTP client of one agent. The operator chose the address,
// so it may be private; redirects are not followed, because the endpoint chooses
// their targets.
func newClient(o *Options) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: o.Connect, KeepAlive: 30 * time.Second}).DialContext
	t.TLSHandshakeTimeout = o.Connect
	t.ResponseHeaderTimeout = o.Wait
	t.MaxIdleConnsPerHost = 8
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// post sends a JSON body to an address of the endpoint and returns the streamed
// response.
func (a *Agent) post(ctx context.Context, address string, body any, accept string, header http.Header) (s *stream, err error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, chat.Errorf(chat.Internal, "the request to the agent's endpoint cannot be written as JSON").Because(err)
	}
	err = a.retry(ctx, func() (delay time.Duration, err error) {
		s, delay, err = a.postOnce(ctx, address, b, accept, header)
		return delay, err
	})
	return s, err
}

// retry calls connect until it succeeds, at most Retries times more. connect
// returns the time to wait before the next try: negative means that another try
// is useless, 0 means the default delay.
func (a *Agent) retry(ctx context.Context, connect func() (delay time.Duration, err error)) error {
	for try := 0; ; try++ {
		delay, err := connect()
		if ctx.Err() != nil {
			return err
		}
		if err == nil || delay < 0 || try >= a.opt.Retries {
			a.setHealth(err)
			return err
		}
		a.opt.Logger.WarnContext(ctx, "an agent's endpoint did not accept a call; trying again", "endpoint", a.address(), "err", err)
		if delay == 0 {
			delay = 500 * time.Millisecond << try
		}
		if err := sleep.For(ctx, delay); err != nil {
			return err
		}
	}
}

func (a *Agent) postOnce(ctx context.Context, address string, body []byte, accept string, header http.Header) (_ *stream, delay time.Duration, err error) {
	s := &stream{a: a, turnCtx: ctx, left: a.opt.Max}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	req, err := http.NewRequestWithContext(s.ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, -1, chat.Errorf(chat.Internal, "the address of the agent's endpoint cannot be called").Because(err)
	}
	if err := a.authorize(req.Header); err != nil {
		return nil, -1, err
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", accept)
	s.idle = time.AfterFunc(a.opt.Wait+a.opt.Connect, func() { s.cancel(errIdle) })
	s.limit = time.AfterFunc(a.opt.Limit, func() { s.cancel(errLimit) })
	if s.res, err = a.client.Do(req); err != nil {
		return nil, dialDelay(err), s.connectionError(err)
	}
	if s.res.StatusCode >= 300 {
		return nil, retryAfter(s.res), a.refusal(s.res)
	}
	s.idle.Reset(a.opt.Idle)
	return s, 0, nil
}

// dialDelay allows another try only if the call cannot have reached the endpoint.
func dialDelay(err error) time.Duration {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return 0
	}
	return -1
}

// maxRetryAfter is the longest Retry-After that is waited for.
const maxRetryAfter = 30 * time.Second

// retryAfter returns when a refused call may be repeated.
func retryAfter(res *http.Response) time.Duration {
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable:
	default:
		return -1
	}
	wait, _ := retry.After(res.Header)
	if wait > maxRetryAfter {
		return -1
	}
	return wait
}

// authorize sets the key and the configured headers.
func (a *Agent) authorize(h http.Header) error {
	h.Set("User-Agent", "parley")
	for k, v := range a.opt.Headers {
		h.Set(k, v)
	}
	if a.opt.Key == nil {
		return nil
	}
	key, err := a.opt.Key()
	if err != nil {
		return agent.Failf(agent.CodeNoKey, chat.Unavailable, "the key of the agent's endpoint is missing: %s; set it, then ask again", err).Because(err)
	}
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
	return nil
}
