package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/parley-hq/parley/internal/sleep"
)

const (
	writersPerNode = 2 // for each partition
	appendLimit    = 2 * time.Second
	settleTime     = 4 * time.Minute // for readers to get to the end
	reread         = 300             // entries that a reader reads again after it was interrupted
	keepEntries    = 20000           // that are not trimmed
)

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}

// errRefused is the answer to a commit that is certainly not applied.
var errRefused = errors.New("refused")

// load is the writers and readers of a run.
type load struct {
	tasks sync.WaitGroup
}

func (l *load) wait() { l.tasks.Wait() }

func (c *campaign) startLoad(ctx context.Context) *load {
	l := &load{}
	for i := range c.nodes {
		for p := range c.parts {
			for range writersPerNode {
				w := c.record.newWriter(i, p)
				l.tasks.Go(func() { c.write(ctx, w) })
			}
			l.tasks.Go(func() {
				for ctx.Err() == nil {
					c.read(ctx, i, p, 0)
					sleep.For(ctx, 100*time.Millisecond)
				}
			})
		}
	}
	if !c.replicas { // a node that starts again reads the log from its last copy
		l.tasks.Go(func() { c.trim(ctx) })
	}
	return l
}

// write appends numbered frames until ctx ends. It waits for the answer to the last one.
func (c *campaign) write(ctx context.Context, w *writer) {
	filler := bytes.Repeat([]byte{'x'}, 200)
	for n := 0; ctx.Err() == nil; n++ {
		called := c.record.now()
		body := fmt.Appendf(nil, "%d %d %s", w.id, n, filler)
		var what outcome
		var pos int
		if c.replicas {
			what, pos = c.commit(ctx, w, body)
		} else {
			what = c.append(ctx, w, body)
		}
		c.record.answered(w, called, what, pos)
		if what == acknowledged {
			sleep.For(ctx, c.pace)
		} else {
			sleep.For(ctx, 50*time.Millisecond)
		}
	}
}

func (c *campaign) append(ctx context.Context, w *writer, body []byte) outcome {
	one, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendLimit+2*time.Second)
	defer cancel()
	if err := request(one, http.MethodPost, fmt.Sprintf("http://%s/append?part=%d", c.nodes[w.node].HTTP, w.part), body, nil); err != nil {
		return unknown
	}
	return acknowledged
}

// request sends a request; out gets the body of the answer.
func request(ctx context.Context, method, url string, body []byte, out *[]byte) error {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	a, err := client.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		return err
	}
	if a.StatusCode == http.StatusConflict {
		return errRefused
	}
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", a.Status, bytes.TrimSpace(text))
	}
	if out != nil {
		*out = text
	}
	return nil
}

// read reads a partition at a node until the connection ends or the entry upTo is read, 0 for no end.
func (c *campaign) read(ctx context.Context, node, part, upTo int) {
	after := c.record.resume(node, part)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/tail?part=%d&after=%d", c.nodes[node].HTTP, part, after), nil)
	if err != nil {
		return
	}
	a, err := client.Do(r)
	if err != nil {
		return
	}
	defer a.Body.Close()
	lines := bufio.NewScanner(a.Body)
	lines.Buffer(nil, 4<<20)
	for pos := after + 1; lines.Scan(); pos++ {
		if text, failed := bytes.CutPrefix(lines.Bytes(), []byte("error ")); failed {
			if ctx.Err() == nil {
				c.record.complain("the reader of partition %d at n%d ended: %s", part, node, text)
			}
			return
		}
		c.record.entry(node, part, pos, lines.Text())
		if pos == upTo {
			return
		}
	}
}

// trim removes what all readers have read, as a cluster does.
func (c *campaign) trim(ctx context.Context) {
	for sleep.For(ctx, 20*time.Second) == nil {
		for p := range c.parts {
			to := c.record.readByAll(p) - keepEntries
			if to <= 0 {
				continue
			}
			one, cancel := context.WithTimeout(ctx, appendLimit)
			if request(one, http.MethodPost, fmt.Sprintf("http://%s/trim?part=%d&to=%d", c.nodes[p%nodeCount].HTTP, p, to), nil, nil) == nil {
				c.record.trimmed(p, to)
			}
			cancel()
		}
	}
}

// settle waits until every node has read all partitions to their end.
func (c *campaign) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for p := range c.parts {
		last, err := c.end(ctx, p)
		if err != nil {
			return err
		}
		c.record.end(p, last)
		for i := range c.nodes {
			for c.record.readBy(i, p) < last {
				c.read(ctx, i, p, last)
				if ctx.Err() != nil {
					return fmt.Errorf("n%d has read %d of %d entries of partition %d", i, c.record.readBy(i, p), last, p)
				}
			}
		}
	}
	if c.replicas {
		return c.compareCopies(ctx)
	}
	return nil
}

// end returns the last position of a partition when all nodes say the same three times: a leader that was just replaced may
// answer with an older one.
func (c *campaign) end(ctx context.Context, part int) (last int, err error) {
	for same := 0; same < 3*nodeCount; {
		var out []byte
		one, cancel := context.WithTimeout(ctx, appendLimit)
		err := request(one, http.MethodGet, fmt.Sprintf("http://%s/ends?part=%d", c.nodes[same%nodeCount].HTTP, part), nil, &out)
		cancel()
		var first, now int
		if err == nil {
			_, err = fmt.Sscan(string(out), &first, &now)
		}
		if err == nil && now == last {
			same++
		} else {
			same = 0
			last = max(last, now)
		}
		if sleep.For(ctx, 200*time.Millisecond) != nil {
			return 0, fmt.Errorf("the nodes do not agree on the end of partition %d: %w", part, err)
		}
	}
	return last, nil
}
