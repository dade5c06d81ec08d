package clustertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/internal/cluster"
)

// Conform tests what every cluster.Log must do. The log must be empty and have partitions 0 and 1.
func Conform(t *testing.T, log cluster.Log) {
	t.Helper()
	const writers, each = 4, 50
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if first, last, err := log.Ends(ctx, 0); err != nil || first != 1 || last != 0 {
		t.Fatalf("an empty log is from %d to %d, %v", first, last, err)
	}
	early := Read(ctx, log, 0, 0, writers*each)
	var tasks sync.WaitGroup
	for w := range writers {
		tasks.Go(func() {
			for i := range each {
				if err := log.Append(ctx, 0, fmt.Appendf(nil, "%d %d", w, i)); err != nil {
					t.Errorf("append: %v", err)
				}
			}
		})
	}
	tasks.Wait()
	all := <-early
	if all.Err != nil {
		t.Fatal(all.Err)
	}
	var next [writers]int
	for i, e := range all.Entries {
		var w, n int
		if _, err := fmt.Sscan(string(e.Frame), &w, &n); err != nil || e.Pos != cluster.Pos(i+1) || n != next[w] {
			t.Fatalf("entry %d is %q at position %d", i, e.Frame, e.Pos)
		}
		next[w]++
	}
	if late := <-Read(ctx, log, 0, 100, writers*each-100); late.Err != nil || text(late.Entries) != text(all.Entries[100:]) {
		t.Fatalf("a later reader got something else: %v", late.Err)
	}
	if first, last, err := log.Ends(ctx, 0); err != nil || first != 1 || last != writers*each {
		t.Fatalf("the log is from %d to %d, %v", first, last, err)
	}
	if first, last, err := log.Ends(ctx, 1); err != nil || first != 1 || last != 0 {
		t.Fatalf("the other partition is from %d to %d, %v", first, last, err)
	}

	if err := log.Trim(ctx, 0, 120); err != nil {
		t.Fatal(err)
	}
	if first, last, err := log.Ends(ctx, 0); err != nil || first != 121 || last != writers*each {
		t.Fatalf("the trimmed log is from %d to %d, %v", first, last, err)
	}
	if got := <-Read(ctx, log, 0, 119, 1); !errors.Is(got.Err, cluster.ErrTrimmed) {
		t.Fatalf("a reader of trimmed entries got %q, %v", text(got.Entries), got.Err)
	}
	if rest := <-Read(ctx, log, 0, 120, writers*each-120); rest.Err != nil || text(rest.Entries) != text(all.Entries[120:]) {
		t.Fatalf("after the trim a reader got something else: %v", rest.Err)
	}
	if err := log.Trim(ctx, 0, writers*each); err != nil {
		t.Fatal(err)
	}
	if first, last, err := log.Ends(ctx, 0); err != nil || first != writers*each+1 || last != writers*each {
		t.Fatalf("the log without entries is from %d to %d, %v", first, last, err)
	}
	if err := log.Append(ctx, 0, []byte("after the trim")); err != nil {
		t.Fatal(err)
	}
	if got := <-Read(ctx, log, 0, writers*each, 1); got.Err != nil || got.Entries[0].Pos != writers*each+1 || string(got.Entries[0].Frame) != "after the trim" {
		t.Fatalf("%q, %v", text(got.Entries), got.Err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	if got := <-Read(ended, log, 0, writers*each+1, 1); !errors.Is(got.Err, context.Canceled) {
		t.Fatalf("a reader that is cancelled ends with %v", got.Err)
	}
}

// Result is what Read got.
type Result struct {
	Entries []cluster.Entry
	Err     error
}

// Read reads n entries after a position in the background.
func Read(ctx context.Context, log cluster.Log, part int, after cluster.Pos, n int) <-chan Result {
	out := make(chan Result, 1)
	go func() {
		var r Result
		for e, err := range log.Tail(ctx, part, after) {
			if r.Err = err; err != nil {
				break
			}
			if r.Entries = append(r.Entries, e); len(r.Entries) == n {
				break
			}
		}
		out <- r
	}()
	return out
}

func text(entries []cluster.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "%d:%s\n", e.Pos, e.Frame)
	}
	return b.String()
}
