package clustertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-hq/parley/internal/cluster"
)

func TestLogInMemoryConforms(t *testing.T) {
	Conform(t, New(1, 2, Faults{}).View("n"))
}

func TestDelayedLogConforms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { Conform(t, New(1, 2, Faults{Delay: 50 * time.Millisecond}).View("n")) })
}

// faulty appends through a log with faults and returns the log and what Append returned.
func faulty(t *testing.T, seed uint64) (history string, failed int) {
	synctest.Test(t, func(t *testing.T) {
		l := New(seed, 1, Faults{Delay: 20 * time.Millisecond, LostAck: .1, Late: .1, Lost: .1, Repeat: .1})
		v := l.View("n")
		for i := range 200 {
			if err := v.Append(t.Context(), 0, fmt.Append(nil, i)); err != nil {
				failed++
			}
		}
		time.Sleep(time.Second)
		var b strings.Builder
		for _, f := range l.History(0) {
			fmt.Fprintf(&b, "%s ", f)
		}
		history = b.String()
	})
	return history, failed
}

func TestFaultsFollowFromTheSeed(t *testing.T) {
	one, failed := faulty(t, 7)
	again, _ := faulty(t, 7)
	other, _ := faulty(t, 8)
	if one != again || one == other {
		t.Errorf("seed 7 gave\n%s\nand\n%s\nseed 8\n%s", one, again, other)
	}
	var times [200]int
	for _, f := range strings.Fields(one) {
		var n int
		if _, err := fmt.Sscan(f, &n); err != nil {
			t.Fatal(err)
		}
		times[n]++
	}
	var never, twice int
	for _, n := range times {
		switch {
		case n == 0:
			never++
		case n > 1:
			twice++
		}
	}
	if never == 0 || twice == 0 || failed <= never {
		t.Errorf("%d of 200 frames were lost and %d repeated, %d appends failed", never, twice, failed)
	}
}

func TestCutProcessesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New(1, 1, Faults{}).View("n")
		v.Cut(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := v.Append(ctx, 0, []byte("x")); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		got := Read(t.Context(), v, 0, 0, 1)
		time.AfterFunc(time.Minute, func() { v.Cut(false) })
		if err := v.Append(t.Context(), 0, []byte("y")); err != nil {
			t.Fatal(err)
		}
		if r := <-got; r.Err != nil || string(r.Entries[0].Frame) != "y" {
			t.Fatal(r)
		}
		if r := <-Read(t.Context(), v, 0, 5, 1); !errors.Is(r.Err, cluster.ErrShort) {
			t.Fatal(r.Err)
		}
	})
}
