// Package otlp sends spans to an OpenTelemetry collector with OTLP over HTTP, as binary protobuf, which every collector accepts.
//
// An [Exporter] is the last part of a tracer provider; the SDK's batcher queues spans, bounds the queue and calls it. It replaces the exporter of the
// OpenTelemetry project, which links gRPC and templates even when only HTTP is used. It reads the same environment variables, except those
// that set the address: OTEL_EXPORTER_OTLP_HEADERS, _TIMEOUT (in milliseconds), _COMPRESSION (gzip or none), _CERTIFICATE, and _CLIENT_CERTIFICATE with
// _CLIENT_KEY. Each also has a form for traces only, such as OTEL_EXPORTER_OTLP_TRACES_HEADERS, which takes precedence.
package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/parley-hq/parley/internal/retry"
	"github.com/parley-hq/parley/internal/sleep"
)

const (
	defaultTimeout = 10 * time.Second
	firstPause     = 5 * time.Second
	maxPause       = 30 * time.Second
	maxElapsed     = time.Minute // from the first attempt to the beginning of the last one
	maxAnswer      = 4 << 20     // a longer answer of the collector is an error
	maxErrorText   = 1 << 10     // of an answer, in an error
)

// Exporter sends spans to one collector. Its methods can be called at the same time.
type Exporter struct {
	url    string
	header http.Header
	gzip   bool
	client *http.Client
	log    *slog.Logger
	pause  time.Duration // before the second attempt; it grows with each further one

	ended context.Context
	end   context.CancelFunc
}

// New returns an exporter. The path of endpoint is that of traces; without one it is /v1/traces.
func New(endpoint string, log *slog.Logger) (*Exporter, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	u = &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	s, err := readSettings()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = s.tls
	e := &Exporter{
		url: u.String(), header: s.header, gzip: s.gzip, log: log, pause: firstPause,
		client: &http.Client{Transport: transport, Timeout: s.timeout, CheckRedirect: noRedirects},
	}
	e.ended, e.end = context.WithCancel(context.Background())
	return e, nil
}

// noRedirects makes a redirect an answer that is an error. A client would follow most of them with a GET that has no spans, and would send the headers
// of the environment, which may be secrets, to another host.
func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Shutdown interrupts a call of ExportSpans that is running.
func (e *Exporter) Shutdown(context.Context) error {
	e.end()
	e.client.CloseIdleConnections()
	return nil
}

// ExportSpans sends spans. It repeats the request after a timeout and when the collector is overloaded. Spans that the collector has refused are logged.
func (e *Exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	body := appendRequest(nil, spans)
	if e.gzip {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(body); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		body = b.Bytes()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ended, cancel)()

	begin := time.Now()
	for pause := e.pause; ; pause = min(pause*3/2, maxPause) {
		err := e.send(ctx, body)
		again, ok := errors.AsType[*retryError](err)
		if !ok {
			return err
		}
		wait := again.after
		if wait < 0 {
			wait = pause/2 + rand.N(pause)
		}
		if time.Since(begin)+wait > maxElapsed {
			return fmt.Errorf("given up after %s: %w", time.Since(begin).Round(time.Second), err)
		}
		if sleep.For(ctx, wait) != nil {
			return err
		}
	}
}

// retryError is a failure after which the same request may succeed.
type retryError struct {
	cause error
	after time.Duration // what the collector has asked for; negative if it has not
}

func (e *retryError) Error() string { return e.cause.Error() }
func (e *retryError) Unwrap() error { return e.cause }

// send makes one attempt.
func (e *Exporter) send(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = e.header.Clone()
	req.Header.Set("Content-Type", contentType)
	if e.gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	res, err := e.client.Do(req)
	if err != nil {
		if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() && ctx.Err() == nil {
			return &retryError{cause: err, after: -1}
		}
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(http.MaxBytesReader(nil, res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("the answer of %s cannot be read: %w", e.url, err)
	}
	if res.StatusCode/100 == 2 {
		if strings.HasPrefix(res.Header.Get("Content-Type"), contentType) {
			e.report(answer)
		}
		return nil
	}
	err = fmt.Errorf("%s answered %s", e.url, res.Status)
	if at, bad := res.Location(); bad == nil && res.StatusCode/100 == 3 {
		err = fmt.Errorf("%w: the collector is at %s", err, at.Redacted())
	}
	if text := strings.Join(strings.Fields(string(answer[:min(len(answer), maxErrorText)])), " "); text != "" {
		err = fmt.Errorf("%w: %q", err, text)
	}
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		after, ok := retry.After(res.Header)
		if !ok {
			after = -1
		}
		return &retryError{cause: err, after: after}
	}
	return err
}

// report logs what the collector says about a request that it has accepted.
func (e *Exporter) report(answer []byte) {
	refused, message, err := readAnswer(answer)
	switch {
	case err != nil:
		e.log.Warn("the answer of the collector cannot be read", "collector", e.url, "err", err)
	case refused > 0:
		e.log.Warn("the collector refused some spans", "collector", e.url, "spans", refused, "err", message)
	case message != "":
		e.log.Warn("the collector has a warning about the spans", "collector", e.url, "warning", message)
	}
}
