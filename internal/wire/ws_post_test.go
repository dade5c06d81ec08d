package wire

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// Everything that is posted goes out once, whole, however many post at once.
func TestPostsFromManyGoroutines(t *testing.T) {
	const posters, each = 50, 40
	srv, _, _ := wsServer(t, WSOptions{}, func(ctx context.Context, c *Conn) error {
		pool := NewStackPool()
		var wg sync.WaitGroup
		for p := range posters {
			wg.Add(1)
			pool.Go(func() {
				defer wg.Done()
				for i := range each {
					c.Post(func(b []byte) []byte { return fmt.Appendf(b, "%d/%d %0*d", p, i, p*i, 0) })
					if _, wait := c.Flush(ctx); wait != nil {
						wait()
					}
				}
			})
		}
		wg.Wait()
		_, err := c.Read(ctx) // until the client has seen all
		return err
	})
	c := dial(t, srv)
	seen := map[string]bool{}
	for range posters * each {
		_, msg, err := c.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var p, i int
		if _, err := fmt.Sscanf(string(msg), "%d/%d", &p, &i); err != nil || seen[string(msg)] {
			t.Fatalf("got %q (%v)", msg, err)
		}
		seen[string(msg)] = true
	}
}

// Functions that are started from within a function of the pool run, too.
func TestStackPoolRunsEveryFunction(t *testing.T) {
	c := NewStackPool()
	var wg sync.WaitGroup
	var mu sync.Mutex
	n := 0
	wg.Add(200)
	for range 100 {
		c.Go(func() {
			defer wg.Done()
			c.Go(func() {
				defer wg.Done()
				mu.Lock()
				defer mu.Unlock()
				n++
			})
		})
	}
	wg.Wait()
	if n != 100 {
		t.Errorf("%d of 100 were done", n)
	}
}
