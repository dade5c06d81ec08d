package node

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/cluster/natslog"
)

// metrics are counted whether or not they are collected. They are a cluster.Meter for all partitions.
type metrics struct {
	queue, quorum, apply, records, purge prometheus.Histogram

	void, takeovers, handovers, forwarded, gaps, resent prometheus.Counter
}

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "parley_cluster_" + name, Help: help})
	}
	histogram := func(name, help string, start float64, count int) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "parley_cluster_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(start, 2, count)})
	}
	return &metrics{
		queue:     histogram("queue_seconds", "Time that a change waited at the owner for its frame.", 0.0001, 16),
		quorum:    histogram("quorum_seconds", "Time from the first append of a frame of this node until it was read back from the log.", 0.0001, 18),
		apply:     histogram("apply_seconds", "Time to store a frame of the log on this node.", 0.0001, 16),
		records:   histogram("frame_records", "Changes, most of them commits, in a frame that was applied.", 1, 12),
		purge:     histogram("purge_seconds", "Time that the writes of a partition waited while erased text was removed from its log.", 0.001, 12),
		void:      counter("void_frames_total", "Frames of the logs that did not count: repeated ones, and those of owners before."),
		takeovers: counter("takeovers_total", "Claims of a partition whose owner had not given it up."),
		handovers: counter("handovers_total", "Claims of a partition that its owner had given up."),
		forwarded: counter("forwarded_total", "Calls and changes that were sent to the node that owns their session."),
		gaps:      counter("preview_gaps_total", "Times that text of another node was missing, and the owner was asked for it."),
		resent:    counter("previews_resent_total", "Messages with text that this node sent again, because too few nodes had stored them in time."),
	}
}

// Queued implements cluster.Meter.
func (m *metrics) Queued(d time.Duration) { m.queue.Observe(d.Seconds()) }

// Stored implements cluster.Meter.
func (m *metrics) Stored(d time.Duration) { m.quorum.Observe(d.Seconds()) }

// Applied implements cluster.Meter.
func (m *metrics) Applied(v cluster.Verdict, records int, took time.Duration) {
	if v == cluster.Void {
		m.void.Inc()
		return
	}
	m.apply.Observe(took.Seconds())
	if records > 0 {
		m.records.Observe(float64(records))
	}
}

// Claimed implements cluster.Meter.
func (m *metrics) Claimed(handover bool) {
	if handover {
		m.handovers.Inc()
	} else {
		m.takeovers.Inc()
	}
}

// Collectors returns what to register with Prometheus.
func (n *Node) Collectors() []prometheus.Collector {
	m := n.metrics
	all := []prometheus.Collector{m.queue, m.quorum, m.apply, m.records, m.purge, m.void, m.takeovers, m.handovers, m.forwarded, m.gaps, m.resent, partsCollector{n}}
	gauge := func(name, help string, value func() int) {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "parley_cluster_" + name, Help: help}, func() float64 { return float64(value()) }))
	}
	gauge("nodes_heard", "Other nodes that are present.", n.CountPresent)
	gauge("copies_sending", "Copies of its store that this node is sending to other nodes.", n.outgoing.count)
	if f := n.files; f != nil {
		gauge("files_pinned", "Files whose bytes wait for the log to name them, or are in use.", func() int { return f.count(func() int { return len(f.pins) }) })
		gauge("files_unused", "Files whose bytes are to be removed if nothing needs them.", func() int { return f.count(func() int { return len(f.unused) + f.later }) })
		if d := f.disk; d != nil {
			gauge("file_transfers", "Files whose bytes this node is getting from another one.", func() int {
				d.mu.Lock()
				defer d.mu.Unlock()
				return len(d.incoming)
			})
		}
	}
	return all
}

// count calls value with the lock.
func (f *Files) count(value func() int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return value()
}

// partsCollector collects the state of the partitions. The labels are numbers of partitions and ids of nodes.
type partsCollector struct{ *Node }

// desc describes a gauge of a partition.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("parley_cluster_"+name, help, append([]string{"partition"}, labels...), nil)
}

var (
	descOwner    = desc("owner", "1 for the node that owns the partition, as far as this node has read the log.", "node")
	descEpoch    = desc("epoch", "Number of owners that the partition has had.")
	descPosition = desc("position", "Last position of the log that this node has applied.")
	descSynced   = desc("synced_position", "Last position of the log that the disk of this node has.")
	descLag      = desc("lag", "Positions of the log that another node has applied and this one has not.")
	descErased   = desc("erased_in_log", "1 if this node owns the partition and its log may still have text of erased sessions.")
	descLeader   = desc("log_leader", "1 for the server that leads the log of the partition.", "node")
	descStored   = desc("log_servers", "Servers that store the log of the partition and are current.")
	descBytes    = desc("log_bytes", "Bytes of the log of the partition.")
	descMissing  = desc("log_missing_frames", "Frames that the leader of the log has lost.")
)

// Describe implements prometheus.Collector.
func (c partsCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descOwner, descEpoch, descPosition, descSynced, descLag, descErased, descLeader, descStored, descBytes, descMissing} {
		out <- d
	}
}

// logTime is how long a collection waits for the leaders of the logs.
const logTime = 500 * time.Millisecond

// Collect implements prometheus.Collector.
func (c partsCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	logs, _ := c.partitions().(interface {
		Status(ctx context.Context, part int) (natslog.Status, error)
	})
	ctx, cancel := context.WithTimeout(context.Background(), logTime)
	defer cancel()
	var wait sync.WaitGroup
	defer wait.Wait()
	for _, st := range c.Status() {
		number := strconv.Itoa(st.Partition)
		if st.Copy.Claim.Node != "" {
			gauge(descOwner, 1, number, st.Copy.Claim.Node)
		}
		furthest := st.Copy.Pos
		for _, h := range st.Peers {
			furthest = max(furthest, h.Pos)
		}
		gauge(descEpoch, float64(st.Copy.Epoch), number)
		gauge(descPosition, float64(st.Copy.Pos), number)
		gauge(descSynced, float64(st.Synced), number)
		gauge(descLag, float64(furthest-st.Copy.Pos), number)
		erased := 0.0
		if st.Owns && c.parts[st.Partition].erasedPos() > 0 {
			erased = 1
		}
		gauge(descErased, erased, number)
		if logs == nil {
			continue
		}
		wait.Go(func() {
			s, err := logs.Status(ctx, st.Partition)
			if err != nil {
				return // no leader
			}
			stored := len(s.Followers)
			if s.Leader != "" {
				stored++
				gauge(descLeader, 1, number, s.Leader)
			}
			gauge(descStored, float64(stored), number)
			gauge(descBytes, float64(s.Bytes), number)
			gauge(descMissing, float64(s.Missing), number)
		})
	}
}
