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
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/internal/bus"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/cluster/clustertest"
	"github.com/parley-hq/parley/internal/freeport"
	"github.com/parley-hq/parley/internal/sleep"
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
		if err := logs[0].Append(ctx, 1, frame); err != nil {
			t.Fatal(err)
		}
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

// appendAll appends numbered frames until each is acknowledged.
func appendAll(t *testing.T, l *Log, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			err := l.Append(ctx, 0, []byte(strconv.Itoa(i)))
			cancel()
			if err == nil {
				break
			}
			if sleep.For(t.Context(), 50*time.Millisecond) != nil {
				t.Fatal(err)
			}
		}
	}
}

// texts returns the frames without those that are repeated.
func texts(entries []cluster.Entry) (all []string) {
	for _, e := range entries {
		if s := string(e.Frame); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

func numbers(n int) (all []string) {
	for i := range n {
		all = append(all, strconv.Itoa(i))
	}
	return all
}

func TestReadersSeeEveryFrameWhenTheLeaderChanges(t *testing.T) {
	t.Parallel() // it waits for elections
	logs, nodes := three(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	type seen struct {
		i int
		e cluster.Entry
	}
	got := make(chan seen, 1000)
	var readers sync.WaitGroup
	reading, stop := context.WithCancel(ctx)
	for i, l := range logs {
		readers.Go(func() {
			for e, err := range l.Tail(reading, 0, 0) {
				if err != nil {
					if reading.Err() == nil {
						t.Errorf("reader %d: %v", i, err)
					}
					return
				}
				got <- seen{i, e}
			}
		})
	}
	go func() { readers.Wait(); close(got) }()
	appendAll(t, logs[0], 0, 30)
	before, err := logs[0].Status(ctx, 0)
	if err != nil || before.Leader == "" {
		t.Fatal(before, err)
	}
	prefer := "n1"
	if before.Leader == prefer {
		prefer = "n2"
	}
	if err := logs[0].StepDown(ctx, 0, prefer); err != nil {
		t.Fatal(err)
	}
	appendAll(t, logs[0], 30, 60)
	if after, err := logs[0].Status(ctx, 0); err != nil || after.Leader != prefer {
		t.Fatalf("the leader is %v after it was to be %s, %v", after, prefer, err)
	}
	// The next leader ends without a word, and its reader with it.
	lost := int(prefer[1] - '0')
	nodes[lost].Close()
	rest := (lost + 1) % 3
	appendAll(t, logs[rest], 60, 90)
	var all [3][]cluster.Entry
	done := func(i int) bool { return len(all[i]) > 0 && string(all[i][len(all[i])-1].Frame) == "89" }
	for !done(rest) || !done(3-lost-rest) {
		select {
		case s := <-got:
			all[s.i] = append(all[s.i], s.e)
		case <-ctx.Done():
			t.Fatalf("%d and %d entries were read", len(all[rest]), len(all[3-lost-rest]))
		}
	}
	stop()
	for range got {
	}
	for i, entries := range all {
		for n, e := range entries {
			if e.Pos != cluster.Pos(n+1) {
				t.Fatalf("reader %d got position %d as entry %d", i, e.Pos, n)
			}
		}
		if i != lost && !slices.Equal(texts(entries), numbers(90)) {
			t.Errorf("reader %d got %v", i, texts(entries))
		}
	}
}

func TestWritesGoOnWhenALeaderYieldsAndEnds(t *testing.T) {
	t.Parallel() // it waits for elections
	logs, nodes := three(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	appendAll(t, logs[0], 0, 5)
	before, err := logs[0].Status(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	i := int(before.Leader[1] - '0')
	for { // a follower may not be current yet
		if err := logs[i].Yield(ctx, before.Leader); err == nil {
			break
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
		sleep.For(ctx, 100*time.Millisecond)
	}
	other := logs[(i+1)%3]
	next := Status{Leader: before.Leader}
	for next.Leader == before.Leader || next.Leader == "" {
		if next, err = other.Status(ctx, 0); ctx.Err() != nil {
			t.Fatal(next, err)
		}
	}
	nodes[i].Close()
	appendAll(t, other, 5, 6)
	if after, err := other.Status(ctx, 0); err != nil || after.Leader != next.Leader {
		t.Errorf("%s was elected after %s ended, although %s was leader; %v", after.Leader, before.Leader, next.Leader, err)
	}
}

// A reader that does not get all republished messages asks the leader for them.
func TestSlowReadersMissNothing(t *testing.T) {
	l, _ := single(t)
	l.pending = 3
	const n = 500
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	started, blocked := make(chan struct{}), make(chan struct{})
	var got []cluster.Entry
	done := make(chan error, 1)
	go func() {
		for e, err := range l.Tail(ctx, 0, 0) {
			if err != nil {
				done <- err
				return
			}
			if got = append(got, e); len(got) == 1 {
				close(started)
				<-blocked
			}
			if len(got) == n {
				break
			}
		}
		done <- nil
	}()
	appendAll(t, l, 0, 1)
	<-started
	appendAll(t, l, 1, n-1)
	close(blocked)
	appendAll(t, l, n-1, n)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(texts(got), numbers(n)) || got[n-1].Pos != n {
		t.Fatalf("got %d entries, the last at %d", len(got), got[len(got)-1].Pos)
	}
}

func TestReadersContinueAfterARestartOfTheServer(t *testing.T) {
	addr, dir := freeport.Addr(t), t.TempDir()
	first := start(t, bus.Options{Addr: addr, Dir: dir})
	conn, err := bus.Dial(first.URL(), "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	l := open(t, conn, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	appendAll(t, l, 0, 10)
	got := clustertest.Read(ctx, l, 0, 0, 20)
	first.Close()
	start(t, bus.Options{Addr: addr, Dir: dir})
	appendAll(t, l, 10, 20)
	if r := <-got; r.Err != nil || !slices.Equal(texts(r.Entries), numbers(20)) {
		t.Fatal(texts(r.Entries), r.Err)
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
	for { // a later frame shows the hole
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
