package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster"
)

// contains returns the file below a folder that contains a text, "" if there is none.
func contains(t *testing.T, dir, text string) (name string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		var b []byte
		if err == nil && !d.IsDir() {
			b, err = os.ReadFile(path)
		}
		if bytes.Contains(b, []byte(text)) {
			name = path
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the engine removes files that it has merged
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// purgeSlowly lets a busy machine take its time for a purge.
func (c *testCluster) purgeSlowly() {
	for _, m := range c.members {
		m.purgeTime = limit
	}
}

func TestErasureRemovesSessionFromAllNodesAndFromLog(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.purgeSlowly()
	id := c.session(1)
	const secret = "the-erased-text-of-a-person"
	if _, err := c.members[1].sessions.Append(t.Context(), ada, id, []chat.Draft{text(secret)}); err != nil {
		t.Fatal(err)
	}
	receipt, err := c.members[1].sessions.Erase(t.Context(), ada, id)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(receipt.Nodes)
	if want := []string{"n0", "n1", "n2"}; !slices.Equal(receipt.Nodes, want) || len(receipt.Pending) > 0 {
		t.Errorf("the receipt names %v and %v, want %v", receipt.Nodes, receipt.Pending, want)
	}
	for i, m := range c.members {
		if _, err := m.sessions.Get(t.Context(), ada, id); chat.CodeOf(err) != chat.Gone {
			t.Errorf("node %d: %v", i, err)
		}
		if file := contains(t, m.dir, secret); file != "" {
			t.Errorf("node %d still has the text in %s", i, file)
		}
	}
	part := c.members[0].Partition(id)
	for _, frame := range c.log.Entries(part) {
		if bytes.Contains(frame, []byte(secret)) {
			t.Error("the log still has the text")
		}
	}
	// The partition goes on after the trim.
	other := c.sessionIn(part)
	if _, err := c.members[1].sessions.Append(t.Context(), ada, other, []chat.Draft{text("after")}); err != nil {
		t.Fatal(err)
	}
	for i := range c.members {
		eventually(t, "after", func() string { return c.texts(i, other) })
	}
}

// A node that has lost the partition must not send the erasure to the new owner as it is: the rules there have not decided it, and
// would not end the streams of its readers.
// A former owner was paused. Its last frame comes to the log after the session was erased, with text of the session.
func TestFrameOfAFormerOwnerDoesNotBringErasedTextBack(t *testing.T) {
	t.Parallel()
	c := newClusterWith(t, func(o *Options) { o.Trim.Keep = trimPart * 2 * time.Second })
	id := c.session(1)
	const secret = "the-erased-text-of-a-person"
	if _, err := c.members[1].sessions.Append(t.Context(), ada, id, []chat.Draft{text(secret)}); err != nil {
		t.Fatal(err)
	}
	part := c.members[0].Partition(id)
	has := func() (late []byte) {
		for _, frame := range c.log.Entries(part) {
			if bytes.Contains(frame, []byte(secret)) {
				late = frame
			}
		}
		return late
	}
	late := has()
	if late == nil {
		t.Fatal("the log does not have the text")
	}
	if _, err := c.members[1].sessions.Erase(t.Context(), ada, id); err != nil {
		t.Fatal(err)
	}
	if err := c.members[0].port.Log.Append(t.Context(), part, late); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the log does not have the text", func() string {
		if has() == nil {
			return "the log does not have the text"
		}
		return "the log has the text"
	})
}

func TestErasureIsStoredOnlyByTheNodeThatDecidedIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.session(1)
	if _, err := c.members[1].Node.journal.BeginErase(t.Context(), id, 0, 0); chat.ReasonOf(err) != chat.OwnerChanged {
		t.Fatalf("another node stored an erasure: %v", err)
	}
	for i, m := range c.members {
		if _, err := m.sessions.Get(t.Context(), ada, id); err != nil {
			t.Errorf("node %d: %v", i, err)
		}
	}
}

// lateFrame is a log that gets a frame of another node just before it is trimmed for the first time.
type lateFrame struct {
	cluster.Log
	frame []byte
	once  *sync.Once
}

func (l lateFrame) Trim(ctx context.Context, part int, upTo cluster.Pos) (err error) {
	l.once.Do(func() { err = l.Append(ctx, part, l.frame) })
	if err != nil {
		return err
	}
	return l.Log.Trim(ctx, part, upTo)
}

// A log that keeps a frame keeps the file with it, and what was before it in that file.
func TestPurgedLogKeepsNoFrameThatCameMeanwhile(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.purgeSlowly()
	id := c.session(1)
	owner := c.members[c.owner(id)]
	part := owner.Partition(id)
	const mark = "a-node-that-claims-an-old-epoch"
	late := cluster.Frame{Cluster: "c1", Partition: uint16(part), Epoch: 1, Claim: cluster.Claim{Node: mark, Process: 1}}
	owner.Node.mu.Lock()
	owner.logs = lateFrame{owner.logs, late.Append(nil), &sync.Once{}}
	owner.Node.mu.Unlock()
	if r, err := owner.sessions.Erase(t.Context(), ada, id); err != nil || len(r.Pending) > 0 {
		t.Fatal(r, err)
	}
	for _, frame := range c.log.Entries(part) {
		if bytes.Contains(frame, []byte(mark)) {
			t.Error("the log still has the frame")
		}
	}
}

func TestReceiptNamesNodeThatIsDown(t *testing.T) {
	t.Parallel()
	c := newClusterWith(t, func(o *Options) { o.Trim = cluster.TrimRule{Keep: 4 * time.Minute, Nodes: 3} })
	id := c.session(2)
	const secret = "another-erased-text"
	if _, err := c.members[2].sessions.Append(t.Context(), ada, id, []chat.Draft{text(secret)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, secret, func() string { return c.texts(2, id) })
	dir := c.members[2].dir
	c.stop(2)
	receipt, err := c.members[c.owner(id)].sessions.Erase(t.Context(), ada, id)
	if err != nil {
		t.Fatal(err)
	}
	if len(receipt.Nodes) != 2 || !slices.Equal(receipt.Pending, []string{"n2"}) {
		t.Fatalf("the receipt names %v and %v", receipt.Nodes, receipt.Pending)
	}
	c.start(2, dir)
	c.settle()
	eventually(t, string(chat.Gone), func() string {
		_, err := c.members[2].sessions.Get(t.Context(), ada, id)
		return string(chat.CodeOf(err))
	})
	eventually(t, "", func() string { return contains(t, filepath.Join(dir, "store"), secret) })
	part := c.members[2].Partition(id)
	eventually(t, "false", func() string {
		return fmt.Sprint(slices.ContainsFunc(c.log.Entries(part), func(frame []byte) bool { return bytes.Contains(frame, []byte(secret)) }))
	})
}

// sessionIn creates a session of a partition.
func (c *testCluster) sessionIn(part int) chat.SessionID {
	c.t.Helper()
	for n := 0; ; n++ {
		id := chat.SessionID(fmt.Sprintf("in-%d-%d", part, n))
		if c.members[0].Partition(id) != part {
			continue
		}
		if _, _, err := c.members[0].sessions.Create(c.t.Context(), ada, chat.NewSession{ID: id, Agent: chat.NoAgent}); err != nil {
			c.t.Fatal(err)
		}
		return id
	}
}

func TestErasuresAtTheSameTimeShareOnePause(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.purgeSlowly()
	const count = 20
	var ids []chat.SessionID
	for n := 0; len(ids) < count; n++ {
		id := chat.SessionID(fmt.Sprint("erase-", n))
		if c.members[0].Partition(id) != 0 {
			continue
		}
		if _, _, err := c.members[0].sessions.Create(t.Context(), ada, chat.NewSession{ID: id, Agent: chat.NoAgent}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	owner := c.members[c.owner(ids[0])]
	before := values(t, owner)["parley_cluster_purge_seconds"]
	owner.parts[0].purging.Lock() // a purge is running
	receipts := make(chan chat.Receipt, count)
	for _, id := range ids {
		go func() {
			r, err := owner.sessions.Erase(t.Context(), ada, id)
			if err != nil {
				t.Error(err)
			}
			receipts <- r
		}()
	}
	for _, id := range ids {
		eventually(t, string(chat.Gone), func() string {
			_, err := owner.sessions.Get(t.Context(), ada, id)
			return string(chat.CodeOf(err))
		})
	}
	owner.parts[0].purging.Unlock()
	for range count {
		if r := <-receipts; len(r.Nodes) != 3 || len(r.Pending) > 0 {
			t.Errorf("the receipt names %v and %v", r.Nodes, r.Pending)
		}
	}
	if pauses := values(t, owner)["parley_cluster_purge_seconds"] - before; pauses != 1 {
		t.Errorf("%d erasures have paused the writes of their partition %v times", count, pauses)
	}
}

// Erasures in a loop leave the writes of their partition most of the time.
func TestErasuresInALoopLeaveTimeForWrites(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	const part, erasures = 0, 10
	var m *member
	begun := time.Now()
	for n, done := 0, 0; done < erasures; n++ {
		id := chat.SessionID(fmt.Sprint("loop-", n))
		if c.members[0].Partition(id) != part {
			continue
		}
		if m == nil {
			m = c.members[c.owner(id)]
		}
		done++
		if _, _, err := m.sessions.Create(t.Context(), ada, chat.NewSession{ID: id, Agent: chat.NoAgent}); err != nil {
			t.Fatal(err)
		}
		if _, err := m.sessions.Erase(t.Context(), ada, id); err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(begun)
	m.parts[part].purging.Lock()
	defer m.parts[part].purging.Unlock()
	count, sum := m.metrics.pauses(t)
	if most := took/purgeRest + 2*purgeTime; sum > most || count == 0 {
		t.Errorf("%d pauses of %s in %s, want at most %s", count, sum, took, most)
	}
}

// pauses returns how often and for how long writes were paused.
func (m *metrics) pauses(t *testing.T) (count uint64, sum time.Duration) {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(m.purge)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	h := families[0].GetMetric()[0].GetHistogram()
	return h.GetSampleCount(), time.Duration(h.GetSampleSum() * float64(time.Second))
}
