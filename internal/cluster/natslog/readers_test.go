package natslog

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/internal/bus"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/cluster/clustertest"
	"github.com/parley-hq/parley/internal/freeport"
	"github.com/parley-hq/parley/internal/sleep"
)

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
