package server

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/wire"
)

// metrics counts requests. Labels are small sets: the dialect, the class of the
// status, and standard methods.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	refused  *prometheus.CounterVec
}

func newMetrics(reg *prometheus.Registry, conns *wire.Conns, a *auth.Auth) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_http_requests_total",
			Help: "Requests by dialect, method and class of the status; a stream counts when it is opened.",
		}, []string{"dialect", "method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "parley_http_request_seconds",
			Help:    "Time until the handler returned; for a stream on HTTP/1.1 that is until it was opened.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"dialect"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_http_refused_total",
			Help: "Requests refused before they reached a dialect, by the rule.",
		}, []string{"rule"}),
	}
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "parley_streams_open",
		Help: "SSE streams and WebSocket connections that are open.",
	}, func() float64 { return float64(conns.Len()) })
	all := []prometheus.Collector{m.requests, m.seconds, m.refused, open}
	for _, carrier := range auth.Carriers {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name:        "parley_sign_ins_refused_total",
			Help:        "Wrong, expired or revoked credentials, by the part of the request that has them.",
			ConstLabels: prometheus.Labels{"carrier": string(carrier)},
		}, func() float64 { return float64(a.Failures(carrier)) }))
	}
	for _, c := range all {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the server's metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) observe(dialect, method string, status int, took time.Duration) {
	m.requests.WithLabelValues(dialect, methodLabel(method), classLabel(status)).Inc()
	m.seconds.WithLabelValues(dialect).Observe(took.Seconds())
}

func methodLabel(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	}
	return "other" // a client can make up any method, and each label costs memory for ever
}

func classLabel(status int) string {
	if status < 100 || status > 599 {
		return "other"
	}
	return [...]string{"1xx", "2xx", "3xx", "4xx", "5xx"}[status/100-1]
}
