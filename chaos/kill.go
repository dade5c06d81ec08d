package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// settle is how long work that was begun may take after the last start.
const settle = 90 * time.Second

// kills runs the load and kills the server at random moments, while it works and
// while it starts. Once, in the middle, it stops the server in order and copies
// the data folder: the damage later puts files of that copy in place of newer ones.
func (c *campaign) kills(ctx context.Context) error {
	at, err := newPlace(c.data)
	if err != nil {
		return err
	}
	cl, err := connect("http://" + at.addr)
	if err != nil {
		return err
	}
	defer cl.Close()
	l := newLoad(cl)
	s, err := c.start(ctx, at)
	if err != nil {
		return err
	}
	defer func() { s.kill() }()

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
		pause(ends, time.Duration(50+c.random.IntN(1500))*time.Millisecond)
		if !copied && time.Now().After(middle) {
			copied = true
			c.counts.stops++
			if err := s.stop(); err != nil {
				return err
			}
			if err := os.CopyFS(c.older(), os.DirFS(c.data)); err != nil {
				return err
			}
		} else {
			c.counts.kills++
			s.kill()
		}
		if c.random.IntN(4) == 0 { // once more, during the start
			if s, err = c.launch(at); err != nil {
				return err
			}
			pause(ctx, time.Duration(c.random.IntN(300))*time.Millisecond)
			c.counts.kills++
			s.kill()
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
		c.counts.fault(&c.counts.stuck, "the work did not end within %s after the last start", settle)
		return nil
	}
	if err := c.check(ctx, l); err != nil {
		return err
	}
	if said, ok := c.verify(ctx, s.url); !ok {
		c.counts.fault(&c.counts.lost, "verify reports damage after kills: %s", said)
	}
	c.counts.stops++
	if err := s.stop(); err != nil {
		return err
	}
	return c.search(l)
}

func (c *campaign) older() string { return filepath.Join(c.dir, "older") }
