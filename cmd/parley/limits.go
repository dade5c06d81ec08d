package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/parley-hq/parley/chat"
)

// newRefusals counts what limits refuse behind HTTP; the server counts there.
func newRefusals() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_refused_total",
		Help: "Messages and writes refused or held back by a limit, by the limit.",
	}, []string{"limit"})
}

// allow counts what a caller asks for otherwise than by an HTTP request.
func (p *parley) allow(c chat.Caller, requests int) error {
	err := p.auth.AllowN(c, requests)
	if err != nil {
		p.refused.WithLabelValues("rate").Inc()
	}
	return err
}
