package hub

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// counters are kept by the hub whether or not anybody collects them.
type counters struct {
	readers   atomic.Int64
	published atomic.Uint64 // entries
	pages     atomic.Uint64 // readings of the log
	behind    atomic.Uint64 // readers that fell out of the live ring
	holes     atomic.Uint64 // pieces that did not continue their block
}

// Collector gives the hub's numbers to a Prometheus registry.
func (h *Hub) Collector() prometheus.Collector { return collector{h} }

type collector struct{ h *Hub }

var (
	descReaders   = prometheus.NewDesc("parley_hub_readers", "Readers that watch a session.", nil, nil)
	descTopics    = prometheus.NewDesc("parley_hub_sessions", "Sessions of which something is kept in memory.", nil, nil)
	descPublished = prometheus.NewDesc("parley_hub_published_total", "Facts and pieces passed on in sessions that are watched or have open blocks.", nil, nil)
	descPages     = prometheus.NewDesc("parley_hub_log_reads_total", "Times that old events were read from the log.", nil, nil)
	descBehind    = prometheus.NewDesc("parley_hub_fell_behind_total", "Times that a slow reader had to go back to the log.", nil, nil)
	descHoles     = prometheus.NewDesc("parley_hub_refused_pieces_total", "Pieces that did not continue their block.", nil, nil)
)

func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descReaders, descTopics, descPublished, descPages, descBehind, descHoles} {
		out <- d
	}
}

func (c collector) Collect(out chan<- prometheus.Metric) {
	n := &c.h.count
	c.h.mu.Lock()
	topics := len(c.h.topics)
	c.h.mu.Unlock()
	gauge := func(d *prometheus.Desc, v float64) { out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	total := func(d *prometheus.Desc, v uint64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v))
	}
	gauge(descReaders, float64(n.readers.Load()))
	gauge(descTopics, float64(topics))
	total(descPublished, n.published.Load())
	total(descPages, n.pages.Load())
	total(descBehind, n.behind.Load())
	total(descHoles, n.holes.Load())
}
