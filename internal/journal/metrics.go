package journal

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parley-hq/parley/internal/core"
)

// Metrics are the journal's numbers. They count from the moment the store is
// opened; Collectors registers them.
type Metrics struct {
	commits   prometheus.Counter
	seconds   prometheus.Histogram
	events    prometheus.Counter
	bytes     prometheus.Counter
	refused   prometheus.Counter
	conflicts prometheus.Counter
	previews  prometheus.Counter
	pieces    prometheus.Counter
	erased    prometheus.Counter
}

func newMetrics() *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "parley_journal_" + name, Help: help})
	}
	return &Metrics{
		commits: counter("commits_total", "Commits that were acknowledged."),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "parley_journal_commit_seconds", Help: "Time from the call to the acknowledgement of a commit.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}),
		events:    counter("events_total", "Events in acknowledged commits."),
		bytes:     counter("bytes_total", "Bytes of events in acknowledged commits."),
		refused:   counter("refused_total", "Writes refused for lack of space or while flushes fail."),
		conflicts: counter("conflicts_total", "Commits that did not follow the last event."),
		previews:  counter("preview_writes_total", "Write calls on the preview file."),
		pieces:    counter("preview_pieces_total", "Preview pieces written."),
		erased:    counter("erased_total", "Sessions erased."),
	}
}

// Collectors returns what to register with Prometheus.
func (j *Journal) Collectors() []prometheus.Collector {
	m := j.metrics
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "parley_journal_" + name, Help: help}, value)
	}
	return []prometheus.Collector{
		m.commits, m.seconds, m.events, m.bytes, m.refused, m.conflicts, m.previews, m.pieces, m.erased,
		gauge("disk_bytes", "Bytes the store takes on disk.", func() float64 {
			if j.closing.Load() {
				return 0
			}
			return float64(j.db.Metrics().DiskSpaceUsage())
		}),
		gauge("preview_file_bytes", "Bytes of the preview file.", func() float64 { return float64(j.previews.fileSize()) }),
		gauge("writable", "1 when appends are accepted.", func() float64 {
			if j.failure.Load() != nil || j.low.Load() != nil || j.background.Load() != nil {
				return 0
			}
			return 1
		}),
	}
}

func (m *Metrics) committed(c *core.Commit, took time.Duration) {
	var size int
	for i := range c.Facts {
		size += len(c.Facts[i].JSON)
	}
	m.commits.Inc()
	m.events.Add(float64(len(c.Facts)))
	m.bytes.Add(float64(size))
	m.seconds.Observe(took.Seconds())
}
