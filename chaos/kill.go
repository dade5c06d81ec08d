package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/parley-hq/parley/internal/sleep"
)

// settle is the time for requests and turns to finish after the last start.
const settle = 4 * time.Minute

// kills runs the load and kills the server at random times, while it serves and while it starts. Once, in the middle, it
// stops the server in order and copies the data folder; damages later replaces newer files by files of that copy.
func (c *campaign) kills(ctx context.Context) error {
	at, err := newLocation(c.data)
	if err != nil {
		return err
	}
	cl, err := connect(at.url())
	if err != nil {
		return err
	}
	defer cl.Close()
	l := newLoad(cl)
	s, err := c.start(ctx, at)
	if err != nil {
		return err
	}
	defer func() { s.Kill() }()

	ctx, cancel := context.WithTimeout(ctx, c.kill+settle)
	ends, stop := context.WithTimeout(ctx, c.kill)
	defer stop()
	var working, reading sync.WaitGroup
	defer reading.Wait()
	defer working.Wait()
	defer cancel()
	if err := l.start(ctx, ends, &working, &reading); err != nil {
		return err
	}
	middle := time.Now().Add(c.kill / 2)
	for copied := false; ends.Err() == nil; {
		sleep.For(ends, time.Duration(50+c.random.IntN(1500))*time.Millisecond)
		if !copied && time.Now().After(middle) {
			copied = true
			c.counts.stops++
			if err := s.Stop(); err != nil {
				return err
			}
			if err := os.CopyFS(c.older(), os.DirFS(c.data)); err != nil {
				return err
			}
		} else {
			c.counts.kills++
			s.Kill()
		}
		if c.random.IntN(4) == 0 { // once more, during the start
			if s, err = c.launch(at); err != nil {
				return err
			}
			sleep.For(ctx, time.Duration(c.random.IntN(300))*time.Millisecond)
			c.counts.kills++
			s.Kill()
		}
		if s, err = c.start(ctx, at); err != nil {
			return fmt.Errorf("after kill %d: %w", c.counts.kills, err)
		}
	}
	done := make(chan struct{})
	go func() { working.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		c.counts.fail(&c.counts.stuck, "the work did not end within %s after the last start", settle)
		return nil
	}
	if err := c.check(ctx, l); err != nil {
		return err
	}
	if said, ok := c.verify(ctx, at.url()); !ok {
		c.counts.fail(&c.counts.lost, "verify reports damage after kills: %s", said)
	}
	c.counts.stops++
	if err := s.Stop(); err != nil {
		return err
	}
	return c.search(l)
}

func (c *campaign) older() string { return filepath.Join(c.dir, "older") }
