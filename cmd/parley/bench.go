package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/load"
)

// BenchCmd puts load on a running server and prints rates and latencies.
type BenchCmd struct {
	serverFlags `embed:""`
	Writers     int           `help:"Writers that append at once, each to a session of its own." default:"64"`
	Batch       int           `help:"Events in an array." default:"32"`
	Readers     int           `help:"Readers of one session." default:"100"`
	Span        time.Duration `help:"Length of each measurement." default:"3s"`
	Keep        bool          `help:"Do not erase the sessions afterwards."`
}

// Run makes one measurement after the other and prints a line for each.
func (c *BenchCmd) Run(ctx context.Context, std *stdio) (err error) {
	if c.Writers < 1 || c.Readers < 1 || c.Batch < 1 || c.Batch > 1000 || c.Span <= 0 {
		return usageError("--writers, --readers and --span are at least 1, --batch is 1 to 1000")
	}
	target, err := load.ParseTarget(c.URL, c.Token)
	if err != nil {
		return usageError(err.Error())
	}
	cl, err := c.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	// The client has clear errors for a server that is not reachable or needs a token; the connections of package load do not.
	for _, err := range cl.Sessions(ctx, client.SessionQuery{Limit: 1}) {
		if err != nil {
			return err
		}
		break
	}
	sessions, err := load.Sessions(target, "bench-"+rand.Text()[:8], c.Writers)
	if err != nil {
		return err
	}
	if !c.Keep {
		defer func() {
			// Also after an interrupt.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel()
			// All at once, because each erasure may wait for other copies.
			var wg sync.WaitGroup
			errs := make([]error, len(sessions))
			for i, id := range sessions {
				wg.Go(func() { _, errs[i] = cl.Delete(ctx, chat.SessionID(id)) })
			}
			wg.Wait()
			if gone := errors.Join(errs...); gone != nil && err == nil {
				err = fmt.Errorf("the measured sessions could not all be erased: %w", gone)
			}
		}()
	}
	// The columns are fixed, because each line is printed as soon as it is measured.
	const columns = "%-52s %20s %10s %10s\n"
	fmt.Fprintf(std.out, columns, "WORK", "RATE", "P50", "P99")
	for _, m := range c.measurements(target, sessions) {
		what, rate, latency, err := m(ctx)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(std.out, columns, what, rate, took(latency.Quantile(.5)), took(latency.Quantile(.99))); err != nil {
			return err
		}
	}
	return nil
}

// measurement is one line: what was done, how fast, and how long each took.
type measurement func(ctx context.Context) (what, rate string, latency load.Histogram, err error)

func (c *BenchCmd) measurements(t load.Target, sessions []string) []measurement {
	appends := func(what string, run func(ctx context.Context) (load.Result, error)) measurement {
		return func(ctx context.Context) (string, string, load.Histogram, error) {
			r, err := run(ctx)
			return what, fmt.Sprintf("%.0f events/s", r.PerSecond), r.Latency, err
		}
	}
	return []measurement{
		appends(fmt.Sprintf("append, one event per HTTP request, %d writers", c.Writers), func(ctx context.Context) (load.Result, error) {
			return load.Append(ctx, t, load.NativeHTTP{}, sessions, 1, 1, c.Span)
		}),
		appends(fmt.Sprintf("append, arrays of %d over HTTP, %d writers", c.Batch, c.Writers), func(ctx context.Context) (load.Result, error) {
			return load.Append(ctx, t, load.NativeHTTP{}, sessions, c.Batch, 1, c.Span)
		}),
		appends(fmt.Sprintf("append, one event per WebSocket frame, %d writers", c.Writers), func(ctx context.Context) (load.Result, error) {
			return load.Append(ctx, t, load.Native{}, sessions, 1, 1, c.Span)
		}),
		c.fanOut(t, fmt.Sprintf("fan-out to %d readers over WebSocket", c.Readers), load.Native{}, sessions[0], c.Readers, load.Flow{Writers: 1, Batch: 1, Lag: 32}),
		c.fanOut(t, fmt.Sprintf("fan-out to %d readers over SSE", c.Readers), load.SSE{}, sessions[0], c.Readers, load.Flow{Writers: 1, Batch: 1, Lag: 32}),
		c.fanOut(t, "append to seen, no other load", load.Native{}, sessions[0], 1, load.Flow{Writers: 1, Batch: 1, Rate: 50}),
	}
}

// fanOut has one writer append to a session with readers.
func (c *BenchCmd) fanOut(t load.Target, what string, by load.Subscriber, session string, readers int, flow load.Flow) measurement {
	return func(ctx context.Context) (_, rate string, latency load.Histogram, err error) {
		r, err := load.NewReaders()
		if err != nil {
			return what, "", latency, err
		}
		defer r.Close()
		if err := r.Watch(t, by, slices.Repeat([]string{session}, readers)); err != nil {
			return what, "", latency, err
		}
		s, err := load.FanOut(ctx, t, load.Native{}, r, session, flow, c.Span)
		if flow.Rate == 0 {
			rate = fmt.Sprintf("%.0f deliveries/s", s.PerSecond)
		}
		return what, rate, s.Latency, err
	}
}

// took formats a duration for the table.
func took(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}
