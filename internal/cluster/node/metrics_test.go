package node

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parley-hq/parley/chat"
)

// values returns the metrics of a node by name and labels. The value of a histogram is its count.
func values(t *testing.T, m *member) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(m.Collectors()...)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, v := range f.GetMetric() {
			name := f.GetName()
			for _, l := range v.GetLabel() {
				name += fmt.Sprintf(" %s=%s", l.GetName(), l.GetValue())
			}
			got[name] = v.GetGauge().GetValue() + v.GetCounter().GetValue() + float64(v.GetHistogram().GetSampleCount())
		}
	}
	return got
}

func TestMetricsShowPartitionsAndTheirWork(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.session(1)
	const messages = 5
	for range messages {
		if _, err := c.members[1].sessions.Append(t.Context(), ada, id, []chat.Draft{text("hello")}); err != nil {
			t.Fatal(err)
		}
	}
	part, owner := c.members[1].Partition(id), c.owner(id)
	caller, decider := values(t, c.members[1]), values(t, c.members[owner])
	for name, least := range map[string]float64{
		"parley_cluster_forwarded_total": messages, "parley_cluster_apply_seconds": messages, "parley_cluster_frame_records": messages, "parley_cluster_takeovers_total": partitions,
		fmt.Sprintf("parley_cluster_owner node=n%d partition=%d", owner, part): 1, fmt.Sprintf("parley_cluster_position partition=%d", part): messages,
		fmt.Sprintf("parley_cluster_epoch partition=%d", part): 1, "parley_cluster_nodes_heard": 2,
	} {
		if caller[name] < least {
			t.Errorf("%s is %v at the node that was called, want at least %v", name, caller[name], least)
		}
	}
	for _, name := range []string{"parley_cluster_queue_seconds", "parley_cluster_quorum_seconds"} {
		if decider[name] < messages {
			t.Errorf("%s has %v values at the owner, want at least %d", name, decider[name], messages)
		}
	}
	c.stop(owner)
	before := caller["parley_cluster_takeovers_total"]
	c.settle()
	if after := values(t, c.members[1])["parley_cluster_takeovers_total"]; after <= before {
		t.Errorf("%v takeovers after the owner was lost, %v before", after, before)
	}
}
