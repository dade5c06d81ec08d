package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"
)

// WatchWS adds readers of the sessions, one socket each.
func (r *Readers) WatchWS(t Target, p Protocol, sessions []string) error {
	for _, id := range sessions {
		ws, err := OpenWS(t, p)
		if err != nil {
			return err
		}
		msg, wait := p.Watch(id)
		if err = ws.Send(msg); err == nil && wait {
			err = ws.await(p)
		}
		if err != nil {
			return errors.Join(err, ws.Close())
		}
		if err := r.Add(ws.conn, buffered(ws.r)); err != nil {
			return err
		}
	}
	return nil
}

// await waits until a watch has begun.
func (w *WS) await(p Protocol) error {
	for {
		msg, err := w.Receive()
		if err != nil {
			return err
		}
		if ok, err := p.Watching(msg); ok || err != nil {
			return err
		}
	}
}

func buffered(r *bufio.Reader) []byte {
	b, _ := r.Peek(r.Buffered()) // cannot fail: the bytes are there
	return b
}

// WatchSSE adds readers of the sessions, one event stream each. path returns the path of a session's stream; nil means the
// native stream from now on.
func (r *Readers) WatchSSE(t Target, sessions []string, path func(session string) string) error {
	if path == nil {
		path = func(id string) string { return "/parley/v1/sessions/" + id + "/stream" }
	}
	for _, id := range sessions {
		conn, buf, err := t.open(path(id), 200, "")
		if err != nil {
			return err
		}
		if err := r.Add(conn, buffered(buf)); err != nil {
			return err
		}
	}
	return nil
}

// FanOut appends to one session for a while and waits until all readers, which all watch it, have everything. Count and
// PerSecond are of deliveries. A writer waits for the answer before it sends again, and while readers are more than lag
// messages behind on average.
func FanOut(ctx context.Context, t Target, p Protocol, c *Readers, session string, writers, batch, lag int, d time.Duration) (Result, error) {
	all := make([]*writer, writers)
	defer func() {
		for _, w := range all {
			if w != nil {
				w.ws.Close()
			}
		}
	}()
	for i := range all {
		var err error
		if all[i], err = newWriter(t, p, session, batch); err != nil {
			return Result{}, err
		}
	}
	c.Take()
	from, readers := c.Seen(), int64(c.Len())
	sent := make([]int64, writers)
	begun := time.Now()
	err := parallel(writers, func(i int) error {
		for time.Since(begun) < d && ctx.Err() == nil {
			if err := all[i].send(); err != nil {
				return err
			}
			sent[i] += int64(batch)
			if err := all[i].await(all[i].open); err != nil {
				return err
			}
			// Every writer has sent about as much as this one.
			for (sent[i]*int64(writers)-int64(lag))*readers > c.Seen()-from && time.Since(begun) < d {
				time.Sleep(200 * time.Microsecond)
			}
		}
		return nil
	})
	if err = errors.Join(err, ctx.Err()); err != nil {
		return Result{}, err
	}
	var n int64
	for _, s := range sent {
		n += s
	}
	if err := c.Wait(from + n*readers); err != nil {
		return Result{}, err
	}
	took := time.Since(begun).Seconds()
	return Result{PerSecond: float64(n*readers) / took, Count: n * readers, Latency: c.Take()}, nil
}

// Quiet sends messages one by one with pauses and measures the time until the only reader receives each.
func Quiet(ctx context.Context, t Target, p Protocol, c *Readers, session string, messages int, pause time.Duration) (Result, error) {
	if c.Len() != 1 {
		return Result{}, fmt.Errorf("one reader is needed, there are %d", c.Len())
	}
	w, err := newWriter(t, p, session, 1)
	if err != nil {
		return Result{}, err
	}
	defer w.ws.Close()
	from := c.Seen()
	c.Take()
	for i := range messages {
		if err := errors.Join(w.send(), ctx.Err()); err != nil {
			return Result{}, err
		}
		if err := w.await(w.open); err != nil {
			return Result{}, err
		}
		if err := c.Wait(from + int64(i) + 1); err != nil {
			return Result{}, err
		}
		time.Sleep(pause)
	}
	return Result{Count: int64(messages), Latency: c.Take()}, nil
}

// Previews sends previews to many sessions at the same time, rate a second to each, evenly over time. Each session has one
// reader, and all previews must arrive. Count and PerSecond are of deliveries.
func Previews(ctx context.Context, t Target, p Protocol, c *Readers, sessions []string, rate int, d time.Duration) (Result, error) {
	const sockets = 8 // like agents that serve many sessions
	perSession := time.Second / time.Duration(rate)
	conns := make([]*WS, sockets)
	for i := range conns {
		var err error
		if conns[i], err = OpenWS(t, p); err != nil {
			return Result{}, err
		}
		defer conns[i].Close()
	}
	failed := make(chan error, sockets)
	for _, ws := range conns {
		go func() { failed <- refusals(ws, p) }() // ends when the socket is closed
	}
	offsets := make([]int, len(sessions))
	piece := make([]byte, 0, 64)
	frames := make([][]byte, sockets)
	c.Take()
	from, sent, next := c.Seen(), 0, 0
	begun := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for now := begun; now.Sub(begun) < d && ctx.Err() == nil; now = time.Now() {
		for ; next < int(float64(now.Sub(begun))/float64(perSession)*float64(len(sessions))); next++ {
			i := next % len(sessions)
			piece = append(AppendStamp(piece[:0], time.Now()), " a few words more"...)
			frames[i%sockets] = p.Preview(frames[i%sockets], sessions[i], offsets[i], piece)
			offsets[i] += len(piece)
			sent++
		}
		for i, ws := range conns {
			if len(frames[i]) > 0 {
				if err := ws.SendFrames(frames[i]); err != nil {
					return Result{}, err
				}
				frames[i] = frames[i][:0]
			}
		}
		select {
		case <-tick.C:
		case err := <-failed:
			return Result{}, err
		}
	}
	if err := errors.Join(c.Wait(from+int64(sent)), ctx.Err()); err != nil {
		return Result{}, err
	}
	took, seen := time.Since(begun).Seconds(), c.Seen()-from
	return Result{PerSecond: float64(seen) / took, Count: seen, Latency: c.Take()}, nil
}

// refusals reads answers until the server refuses a request or the socket ends.
func refusals(ws *WS, p Protocol) error {
	for {
		msg, err := ws.Receive()
		if err == nil {
			_, err = p.Answers(msg)
		}
		if err != nil {
			return err
		}
	}
}
