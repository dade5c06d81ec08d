package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// spans are one span with a name.
func spans(name string) []sdktrace.ReadOnlySpan {
	return tracetest.SpanStubs{{Name: name}}.Snapshots()
}

// collector starts a collector.
func collector(t *testing.T, handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return s
}

// open returns an exporter that waits for a millisecond where the real one waits for seconds, and its log.
func open(t *testing.T, endpoint string) (*Exporter, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	e, err := New(endpoint, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	e.pause = time.Millisecond
	t.Cleanup(func() { e.Shutdown(context.Background()) })
	return e, &log
}

// names reads the names of the spans in a request.
func names(t *testing.T, body []byte) (names []string) {
	t.Helper()
	var got tracepb.TracesData
	if err := proto.Unmarshal(body, &got); err != nil {
		t.Errorf("the request cannot be read: %v", err)
	}
	for _, r := range got.ResourceSpans {
		for _, s := range r.ScopeSpans {
			for _, span := range s.Spans {
				names = append(names, span.Name)
			}
		}
	}
	return names
}

func TestSpansArePosted(t *testing.T) {
	for path, want := range map[string]string{"": "/v1/traces", "/": "/v1/traces", "/v1/traces": "/v1/traces", "/api/v2/otlp/v1/traces": "/api/v2/otlp/v1/traces", "/x/": "/x/"} {
		var got []string
		c := collector(t, func(_ http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil || r.Method != "POST" || r.Header.Get("Content-Type") != "application/x-protobuf" || r.Header.Get("User-Agent") != "parley" {
				t.Errorf("%s with %v: %v", r.Method, r.Header, err)
			}
			got = append(names(t, body), r.URL.Path)
		})
		e, log := open(t, c.URL+path)
		if err := e.ExportSpans(t.Context(), spans("turn")); err != nil {
			t.Fatal(err)
		}
		if strings.Join(got, " ") != "turn "+want || log.Len() > 0 {
			t.Errorf("%q: the collector got %q, want the span at %s; log %s", path, got, want, log)
		}
	}
}

// The variables of the OpenTelemetry project, those for traces before those for everything.
func TestEnvironmentIsHonoured(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20all")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=Bearer%20secret%2C1, x-tenant = a=b")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1/ignored") // it is a default of the flag
	c := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret,1" || r.Header.Get("X-Tenant") != "a=b" || r.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("the collector got %v", r.Header)
		}
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		if body, err := io.ReadAll(z); err != nil || strings.Join(names(t, body), " ") != "turn" {
			t.Errorf("the body is %q, %v", body, err)
		}
	}))
	defer c.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", file)
	e, _ := open(t, c.URL)
	if err := e.ExportSpans(t.Context(), spans("turn")); err != nil {
		t.Fatal(err)
	}
}

func TestWrongEnvironmentIsRefused(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_HEADERS":            "secret",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS":     "a=%secret",
		"OTEL_EXPORTER_OTLP_TIMEOUT":            "10s",
		"OTEL_EXPORTER_OTLP_CERTIFICATE":        filepath.Join(t.TempDir(), "missing.pem"),
		"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE": empty,
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			_, err := New("http://127.0.0.1:4318", slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s=%s: %v", name, value, err)
			}
		})
	}
}

func TestOverloadedCollectorIsTriedAgain(t *testing.T) {
	statuses := []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusAccepted}
	var calls atomic.Int32
	c := collector(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Join(names(t, body), " ") != "turn" {
			t.Error("an attempt has another body")
		}
		w.WriteHeader(statuses[calls.Add(1)-1])
	})
	e, _ := open(t, c.URL)
	if err := e.ExportSpans(t.Context(), spans("turn")); err != nil || int(calls.Load()) != len(statuses) {
		t.Errorf("%v after %d attempts", err, calls.Load())
	}
}

func TestOtherStatusIsReportedAtOnce(t *testing.T) {
	calls := 0
	c := collector(t, func(w http.ResponseWriter, _ *http.Request) {
		calls++
		http.Error(w, "only\nwith a key", http.StatusForbidden)
	})
	e, _ := open(t, c.URL)
	err := e.ExportSpans(t.Context(), spans("turn"))
	if err == nil || calls != 1 || !strings.Contains(err.Error(), "403") || !strings.Contains(err.Error(), "only with a key") || !strings.Contains(err.Error(), c.URL) {
		t.Errorf("%v after %d attempts", err, calls)
	}
}

// A redirect is not followed: the spans would not arrive, and another host would get the headers.
func TestRedirectIsReported(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=secret")
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		other := collector(t, func(_ http.ResponseWriter, r *http.Request) {
			t.Errorf("%d: the other host got %s with %v", status, r.Method, r.Header)
		})
		c := collector(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+"/v1/traces", status) })
		e, _ := open(t, c.URL)
		err := e.ExportSpans(t.Context(), spans("turn"))
		if err == nil || !strings.Contains(err.Error(), strconv.Itoa(status)) || !strings.Contains(err.Error(), "the collector is at "+other.URL+"/v1/traces") {
			t.Errorf("%d: %v", status, err)
		}
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	var times []time.Time
	c := collector(t, func(w http.ResponseWriter, _ *http.Request) {
		if times = append(times, time.Now()); len(times) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	e, _ := open(t, c.URL)
	if err := e.ExportSpans(t.Context(), spans("turn")); err != nil || len(times) != 2 || times[1].Sub(times[0]) < time.Second {
		t.Errorf("%v, attempts at %v", err, times)
	}
	// Longer than the exporter waits in all: it is given up at once, not tried early.
	calls := 0
	c = collector(t, func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.Header().Set("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusTooManyRequests)
	})
	e, _ = open(t, c.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := e.ExportSpans(ctx, spans("turn")); err == nil || ctx.Err() != nil || calls != 1 || !strings.Contains(err.Error(), "429") {
		t.Errorf("%v after %d attempts", err, calls)
	}
}

func TestSlowCollectorIsTriedAgain(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "2000")
	var calls atomic.Int32
	c := collector(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if calls.Add(1) == 1 {
			<-r.Context().Done()
		}
	})
	e, _ := open(t, c.URL)
	if err := e.ExportSpans(t.Context(), spans("turn")); err != nil || calls.Load() != 2 {
		t.Errorf("%v after %d attempts", err, calls.Load())
	}
}

func TestShutdownInterruptsWaiting(t *testing.T) {
	asked := make(chan struct{}, 1)
	c := collector(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "50")
		w.WriteHeader(http.StatusServiceUnavailable)
		asked <- struct{}{}
	})
	e, _ := open(t, c.URL)
	ended := make(chan error, 1)
	go func() { ended <- e.ExportSpans(context.Background(), spans("turn")) }()
	<-asked
	e.Shutdown(t.Context())
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the spans were not sent, and no error says so")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it still waits")
	}
}

func TestRefusedSpansAreLogged(t *testing.T) {
	// partial_success {rejected_spans: 3, error_message: "too old"}
	answer := append([]byte{10, 11, 8, 3, 18, 7}, "too old"...)
	for name, c := range map[string]struct {
		answer []byte
		want   string
	}{
		"some refused": {answer, `msg="the collector refused some spans" collector=URL spans=3 err="too old"`},
		"a warning":    {append([]byte{10, 6, 18, 4}, "slow"...), `msg="the collector has a warning about the spans" collector=URL warning=slow`},
		"cut":          {answer[:5], "cannot be read"},
		"none refused": {[]byte{10, 0}, ""},
		"empty":        {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := collector(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/x-protobuf")
				w.Write(c.answer)
			})
			e, log := open(t, s.URL+"/t")
			if err := e.ExportSpans(t.Context(), spans("turn")); err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll(log.String(), s.URL+"/t", "URL")
			if !strings.Contains(got, c.want) || (c.want == "") != (got == "") || c.want != "" && !strings.Contains(got, "level=WARN") {
				t.Errorf("the log is %q, want %q", got, c.want)
			}
		})
	}
}

func TestLongAnswerIsAnError(t *testing.T) {
	c := collector(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.Write(make([]byte, maxAnswer+1))
	})
	e, _ := open(t, c.URL)
	err := e.ExportSpans(t.Context(), spans("turn"))
	if _, ok := errors.AsType[*http.MaxBytesError](err); !ok {
		t.Errorf("%v", err)
	}
}
