package natslog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/internal/bus"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/cluster/clustertest"
	"github.com/parley-hq/parley/internal/freeport"
)

func start(t testing.TB, opt bus.Options) *bus.Server {
	t.Helper()
	s, err := bus.Start(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// open opens a log with two partitions.
func open(t testing.TB, conn *nats.Conn, replicas int) *Log {
	t.Helper()
	t.Cleanup(conn.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := Open(ctx, conn, Options{Cluster: "c1", Partitions: 2, Replicas: replicas, MaxBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// single returns a log on one server that is reached by its URL, as an external one.
func single(t *testing.T) (*Log, *bus.Server) {
	t.Helper()
	s := start(t, bus.Options{Addr: "127.0.0.1:0", Dir: t.TempDir()})
	conn, err := bus.Dial(s.URL(), "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, conn, 1), s
}

// three returns three servers of a cluster and the log at each.
func three(t testing.TB) (logs [3]*Log, nodes [3]*bus.Server) {
	t.Helper()
	return threeIn(t, t.TempDir())
}

func threeIn(t testing.TB, dir string) (logs [3]*Log, nodes [3]*bus.Server) {
	t.Helper()
	secret, err := cluster.ParseSecret([]byte("the secret of this test"))
	if err != nil {
		t.Fatal(err)
	}
	peers := []string{freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)}
	for i := range nodes {
		nodes[i] = start(t, bus.Options{Addr: "127.0.0.1:0", Dir: filepath.Join(dir, strconv.Itoa(i)), Cluster: &bus.Cluster{
			Name: "c1", Node: "n" + strconv.Itoa(i), Listen: peers[i], Peers: peers, Key: secret.Key("nats routes"),
		}})
	}
	for i := range nodes {
		conn, err := nodes[i].ConnectNodes("test")
		if err != nil {
			t.Fatal(err)
		}
		logs[i] = open(t, conn, 3)
	}
	return logs, nodes
}

// store appends a frame, as a replica does: a leader that steps down meanwhile drops it without an answer, so it is appended again.
func store(ctx context.Context, t testing.TB, l *Log, partition int, frame []byte) {
	t.Helper()
	for {
		once, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := l.Append(once, partition, frame)
		cancel()
		if err == nil {
			return
		}
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
}

func TestLogOnAnExternalServerConforms(t *testing.T) {
	l, _ := single(t)
	clustertest.Conform(t, l)
}

// It is not parallel: with the race detector its large frames would delay the elections that other tests wait for.
func TestLogOfThreeNodesConforms(t *testing.T) {
	logs, _ := three(t)
	clustertest.Conform(t, logs[0])
	largest(t, logs[:])
}

// largest appends frames with the largest record. Every node reads them as new ones and as old ones, without the loss of its
// connection.
func largest(t *testing.T, logs []*Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	f := cluster.Frame{Cluster: "c1", Partition: 1, Epoch: 1, Number: 1, Records: []cluster.Record{{Kind: 1, Data: bytes.Repeat([]byte("large"), cluster.MaxRecord/5)}}}
	frame := f.Append(nil)
	const frames = 2
	var readers []<-chan clustertest.Result
	for _, l := range logs {
		readers = append(readers, clustertest.Read(ctx, l, 1, 0, frames))
	}
	for range frames {
		store(ctx, t, logs[0], 1, frame)
	}
	for _, l := range logs {
		readers = append(readers, clustertest.Read(ctx, l, 1, 0, frames))
	}
	for i, r := range readers {
		got := <-r
		if got.Err != nil {
			t.Fatalf("reader %d: %v", i, got.Err)
		}
		for _, e := range got.Entries {
			if !bytes.Equal(e.Frame, frame) {
				t.Fatalf("reader %d has another frame at position %d", i, e.Pos)
			}
		}
	}
	for i, l := range logs {
		if n := l.conn.Stats().Reconnects; n > 0 {
			t.Errorf("node %d had to connect again %d times", i, n)
		}
	}
}

func TestALogThatIsShorterThanBeforeIsNoticed(t *testing.T) {
	l, _ := single(t)
	l.persist = 100 * time.Millisecond
	appendAll(t, l, 0, 3)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if r := <-clustertest.Read(ctx, l, 0, 9, 1); !errors.Is(r.Err, cluster.ErrShort) {
		t.Fatal(r.Err)
	}
}

func TestARenewedLogBeginsAfterAPosition(t *testing.T) {
	t.Parallel() // it waits for elections
	logs, _ := three(t)
	appendAll(t, logs[0], 0, 3)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := logs[1].Renew(ctx, 0, 9); err != nil {
		t.Fatal(err)
	}
	if first, last, err := logs[2].Ends(ctx, 0); err != nil || first != 10 || last != 9 {
		t.Fatal(first, last, err)
	}
	got := clustertest.Read(ctx, logs[2], 0, 9, 2)
	appendAll(t, logs[0], 0, 2)
	if r := <-got; r.Err != nil || r.Entries[0].Pos != 10 || !slices.Equal(texts(r.Entries), numbers(2)) {
		t.Fatal(r.Entries, r.Err)
	}
	if r := <-clustertest.Read(ctx, logs[2], 0, 3, 1); !errors.Is(r.Err, cluster.ErrTrimmed) {
		t.Fatal(r.Err)
	}
}

func TestAFrameThatTheLeaderHasLostIsNoticed(t *testing.T) {
	l, s := single(t)
	l.persist = 100 * time.Millisecond
	appendAll(t, l, 0, 3)
	conn, err := s.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cfg := l.config(1)
	cfg.DenyDelete = false // of the other partition, which has no frames yet
	if err := js.DeleteStream(ctx, cfg.Name); err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := l.Append(ctx, 1, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.DeleteMsg(ctx, 2); err != nil {
		t.Fatal(err)
	}
	got := clustertest.Read(ctx, l, 1, 0, 3)
	for { // a later frame shows the gap
		if err := l.Append(ctx, 1, []byte("y")); err != nil {
			t.Fatal(err)
		}
		select {
		case r := <-got:
			if !errors.Is(r.Err, ErrMissing) || len(r.Entries) != 1 {
				t.Fatal(texts(r.Entries), r.Err)
			}
			if status, err := l.Status(ctx, 1); err != nil || status.Missing != 1 {
				t.Fatal(status, err)
			}
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestStreamsWithOtherSettingsAreRefused(t *testing.T) {
	_, s := single(t)
	conn, err := s.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = Open(ctx, conn, Options{Cluster: "c1", Partitions: 1, Replicas: 3, MaxBytes: 1 << 30})
	if err == nil || !strings.Contains(err.Error(), "number of replicas is 1 and must be 3") {
		t.Fatal(err)
	}
	if _, err = Open(ctx, conn, Options{Cluster: "c2", Partitions: 1, MaxBytes: 1 << 20}); err == nil || !strings.Contains(err.Error(), "not part of a cluster") {
		t.Fatal(err)
	}
	for _, id := range []string{"", "a.b", "a b", "*"} {
		if _, err := Open(ctx, conn, Options{Cluster: id, Partitions: 1, Replicas: 1}); err == nil {
			t.Errorf("%q is accepted as an id", id)
		}
	}
}

func TestAFullLogRefusesFrames(t *testing.T) {
	_, s := single(t)
	conn, err := s.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := Open(ctx, conn, Options{Cluster: "small", Partitions: 1, Replicas: 1, MaxBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, 10<<10)
	stored := 0
	for ; stored < 20; stored++ {
		if err = l.Append(ctx, 0, frame); err != nil {
			break
		}
	}
	if err == nil || stored < 5 {
		t.Fatalf("%d frames were stored, then %v", stored, err)
	}
	if err := l.Trim(ctx, 0, 3); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(ctx, 0, frame); err != nil {
		t.Fatal(err)
	}
	if _, last, err := l.Ends(ctx, 0); err != nil || last != cluster.Pos(stored+1) {
		t.Fatal(fmt.Sprint(last, stored), err)
	}
}
