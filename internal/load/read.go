package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// WatchWS adds readers of the sessions to a crowd, one socket each.
func (c *Crowd) WatchWS(t Target, sp Speech, sessions []string) error {
	for _, id := range sessions {
		ws, err := OpenWS(t, sp)
		if err != nil {
			return err
		}
		if err := ws.follow(sp, id); err != nil {
			return errors.Join(err, ws.Close())
		}
		if err := c.Add(ws.conn, buffered(ws.r)); err != nil {
			return err
		}
	}
	return nil
}

// JoinWS adds readers like WatchWS, but does not wait for the answer, which the
// crowd reads with all that follows: it may hold what a reader has missed.
func (c *Crowd) JoinWS(t Target, sp Speech, sessions []string) error {
	for _, id := range sessions {
		ws, err := OpenWS(t, sp)
		if err != nil {
			return err
		}
		if err := ws.Send(sp.Watch(id)); err != nil {
			return errors.Join(err, ws.Close())
		}
		if err := c.Add(ws.conn, buffered(ws.r)); err != nil {
			return err
		}
	}
	return nil
}

func (w *WS) follow(sp Speech, session string) error {
	if err := w.Send(sp.Watch(session)); err != nil {
		return err
	}
	for {
		msg, err := w.Receive()
		if err != nil {
			return err
		}
		if ok, err := sp.Watching(msg); ok || err != nil {
			return err
		}
	}
}

func buffered(r *bufio.Reader) []byte {
	b, _ := r.Peek(r.Buffered()) // what is there cannot fail
	return b
}

// WatchSSE adds readers of the sessions, one event stream each, from a cursor
// on; "" means from now on.
func (c *Crowd) WatchSSE(t Target, sessions []string, after string) error {
	return c.WatchPaths(t, sessions, func(id string) string {
		path := "/parley/v1/sessions/" + id + "/stream"
		if after != "" {
			path += "?after=" + after
		}
		return path
	})
}

// WatchPaths adds readers of event streams whose addresses depend on the session.
func (c *Crowd) WatchPaths(t Target, sessions []string, path func(session string) string) error {
	for _, id := range sessions {
		conn, r, err := openSSE(t, path(id))
		if err != nil {
			return err
		}
		if err := c.Add(conn, buffered(r)); err != nil {
			return err
		}
	}
	return nil
}

// openSSE opens a stream and reads up to its first frame.
func openSSE(t Target, path string) (net.Conn, *bufio.Reader, error) {
	conn, err := t.dial()
	if err != nil {
		return nil, nil, err
	}
	r := bufio.NewReaderSize(conn, 4<<10)
	if _, err = conn.Write(append(t.head("GET", path), "\r\n"...)); err == nil {
		err = skipHead(r, "200")
	}
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, r, nil
}

// Spread is how fast messages reached many readers.
type Spread struct {
	PerSecond  float64 // deliveries
	Sent       float64 // messages a second
	Deliveries int64
	Latency    Hist
}

// FanOut lets writers append to one session for a while and waits until all
// readers of the crowd, which all watch it, have everything. A writer waits for
// the answer before it sends again, and while readers are more than lag
// messages behind on average.
func FanOut(ctx context.Context, t Target, sp Speech, c *Crowd, session string, writers, batch, lag int, d time.Duration) (Spread, error) {
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
		if all[i], err = newWriter(t, sp, session, batch); err != nil {
			return Spread{}, err
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
		return Spread{}, err
	}
	var n int64
	for _, s := range sent {
		n += s
	}
	if err := c.Wait(from + n*readers); err != nil {
		return Spread{}, err
	}
	took := time.Since(begun).Seconds()
	return Spread{PerSecond: float64(n*readers) / took, Sent: float64(n) / took, Deliveries: n * readers, Latency: c.Take()}, nil
}

// Quiet sends messages one by one with pauses and returns how long each took to
// be seen by the crowd's one reader.
func Quiet(ctx context.Context, t Target, sp Speech, c *Crowd, session string, messages int, pause time.Duration) (Hist, error) {
	if c.Len() != 1 {
		return Hist{}, fmt.Errorf("one reader is needed, there are %d", c.Len())
	}
	w, err := newWriter(t, sp, session, 1)
	if err != nil {
		return Hist{}, err
	}
	defer w.ws.Close()
	from := c.Seen()
	c.Take()
	for i := range messages {
		if err := errors.Join(w.send(), ctx.Err()); err != nil {
			return Hist{}, err
		}
		if err := w.await(w.open); err != nil {
			return Hist{}, err
		}
		if err := c.Wait(from + int64(i) + 1); err != nil {
			return Hist{}, err
		}
		time.Sleep(pause)
	}
	return c.Take(), nil
}

// Typing shows pieces of a text in many sessions at once, rate a second in
// each, spread evenly over time. Each session has readers in the crowd, and as
// many pieces must arrive as were sent.
func Typing(ctx context.Context, t Target, sp Speech, c *Crowd, sessions []string, rate int, d time.Duration) (Spread, error) {
	const sockets = 8 // as agents that work on many sessions would have
	perSession := time.Second / time.Duration(rate)
	conns := make([]*WS, sockets)
	for i := range conns {
		var err error
		if conns[i], err = OpenWS(t, sp); err != nil {
			return Spread{}, err
		}
		defer conns[i].Close()
	}
	failed := make(chan error, sockets)
	for _, ws := range conns {
		go func() { failed <- refusals(ws, sp) }() // ends when the socket is closed
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
			frames[i%sockets] = sp.Piece(frames[i%sockets], sessions[i], offsets[i], piece)
			offsets[i] += len(piece)
			sent++
		}
		for i, ws := range conns {
			if len(frames[i]) > 0 {
				if err := ws.SendFrames(frames[i]); err != nil {
					return Spread{}, err
				}
				frames[i] = frames[i][:0]
			}
		}
		select {
		case <-tick.C:
		case err := <-failed:
			return Spread{}, err
		}
	}
	if err := errors.Join(c.Wait(from+int64(sent)), ctx.Err()); err != nil {
		return Spread{}, err
	}
	took, seen := time.Since(begun).Seconds(), c.Seen()-from
	return Spread{PerSecond: float64(seen) / took, Sent: float64(sent) / took, Deliveries: seen, Latency: c.Take()}, nil
}

// refusals reads answers until one refuses or the socket ends.
func refusals(ws *WS, sp Speech) error {
	for {
		msg, err := ws.Receive()
		if err == nil {
			_, err = sp.Answers(msg)
		}
		if err != nil {
			return err
		}
	}
}
