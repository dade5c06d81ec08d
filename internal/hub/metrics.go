package hub

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// counters are counted whether or not they are collected.
type counters struct {
	readers   atomic.Int64
	published atomic.Uint64 // entries
	pages     atomic.Uint64 // reads of the log
	behind    atomic.Uint64 // readers that fell out of the live ring
	gaps      atomic.Uint64 // pieces that did not continue their block
}

// Collectors returns what to register with Prometheus.
func (h *Hub) Collectors() []prometheus.Collector {
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "parley_hub_" + name, Help: help}, func() float64 { return float64(value()) })
	}
	total := func(name, help string, n *atomic.Uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "parley_hub_" + name, Help: help}, func() float64 { return float64(n.Load()) })
	}
	return []prometheus.Collector{
		gauge("readers", "Readers that watch a session.", func() int { return int(h.count.readers.Load()) }),
		gauge("sessions", "Sessions of which something is kept in memory.", func() int {
			h.mu.Lock()
			defer h.mu.Unlock()
			return len(h.topics)
		}),
		total("published_total", "Events and pieces published in sessions that are watched or have open blocks.", &h.count.published),
		total("log_reads_total", "Times that old events were read from the log.", &h.count.pages),
		total("fell_behind_total", "Times that a slow reader had to go back to the log.", &h.count.behind),
		total("refused_pieces_total", "Pieces that did not continue their block.", &h.count.gaps),
	}
}
