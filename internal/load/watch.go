package load

import (
	"context"
	"errors"
	"time"
)

// Watch adds readers of the sessions, one connection each.
func (r *Readers) Watch(t Target, s Subscriber, sessions []string) error {
	for _, id := range sessions {
		if err := r.watch(t, s, s.Subscribe(t, id)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Readers) watch(t Target, wire Wire, s Subscription) error {
	c, err := Dial(t, wire)
	if err != nil {
		return err
	}
	_, err = c.Write(s.Request)
	for n := 0; n < s.Answers && err == nil; {
		var got int
		got, err = receive(c, wire)
		n += got
	}
	if err = errors.Join(err, c.SetDeadline(time.Time{})); err != nil {
		return errors.Join(err, c.Close())
	}
	first, _ := c.R.Peek(c.R.Buffered()) // cannot fail: the bytes are there
	return r.Add(c.Conn, first, s.Next)
}

// Flow is how writers send to the readers of one session.
type Flow struct {
	Writers int
	Batch   int // messages in a request
	Rate    int // requests a second of each writer; 0 means as fast as Lag allows
	Lag     int // a writer pauses while readers are more messages behind on average
}

// FanOut appends to one session for a while and waits until all readers, which all watch it, have everything. A writer waits
// for the answer before it sends again. Count and PerSecond are of deliveries.
func FanOut(ctx context.Context, t Target, a Appender, c *Readers, session string, f Flow, d time.Duration) (Result, error) {
	all, err := openWriters(t, a, f.Writers, func(i int) Request { return a.Append(t, session, texts(i, f.Batch)) })
	defer closeWriters(all)
	if err != nil {
		return Result{}, err
	}
	c.Take()
	from, readers := c.Seen(), int64(c.Len())
	sent := make([]int64, f.Writers)
	begun := time.Now()
	err = parallel(f.Writers, func(i int) error {
		for time.Since(begun) < d && ctx.Err() == nil {
			if err := all[i].send(); err != nil {
				return err
			}
			sent[i] += int64(f.Batch)
			if err := all[i].await(all[i].open); err != nil {
				return err
			}
			if f.Rate > 0 {
				time.Sleep(time.Until(begun.Add(time.Duration(sent[i]) * time.Second / time.Duration(f.Rate*f.Batch))))
				continue
			}
			// Every writer has sent about as much as this one.
			for (sent[i]*int64(f.Writers)-int64(f.Lag))*readers > c.Seen()-from && time.Since(begun) < d {
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
	return c.result(from, from+n*readers, begun)
}

// result waits until so many stamps were received and returns what was measured since begun, when there were from.
func (r *Readers) result(from, stamps int64, begun time.Time) (Result, error) {
	if err := r.Wait(stamps); err != nil {
		return Result{}, err
	}
	took, seen := time.Since(begun).Seconds(), r.Seen()-from
	return Result{PerSecond: float64(seen) / took, Count: seen, Latency: r.Take()}, nil
}

// Pieces sends pieces to many sessions at the same time, rate a second to each, evenly over time. Each session has one
// reader, and all pieces must arrive. Count and PerSecond are of deliveries.
func Pieces(ctx context.Context, t Target, p Publisher, c *Readers, sessions []string, rate int, d time.Duration) (Result, error) {
	const sockets = 8 // like agents that serve many sessions
	perSession := time.Second / time.Duration(rate)
	conns := make([]*Conn, sockets)
	for i := range conns {
		var err error
		if conns[i], err = Dial(t, p); err != nil {
			return Result{}, err
		}
		defer conns[i].Close()
		if err := conns[i].SetDeadline(time.Now().Add(d + wait)); err != nil {
			return Result{}, err
		}
	}
	failed := make(chan error, sockets)
	for _, c := range conns {
		go func() { failed <- refusals(c, p) }() // ends when the connection is closed
	}
	offsets := make([]int, len(sessions))
	piece := make([]byte, 0, 64)
	requests := make([][]byte, sockets)
	c.Take()
	from, sent, next := c.Seen(), 0, 0
	begun := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for now := begun; now.Sub(begun) < d && ctx.Err() == nil; now = time.Now() {
		for ; next < int(float64(now.Sub(begun))/float64(perSession)*float64(len(sessions))); next++ {
			i := next % len(sessions)
			piece = append(AppendStamp(piece[:0], time.Now()), " a few words more"...)
			requests[i%sockets] = p.Piece(requests[i%sockets], sessions[i], offsets[i], piece)
			offsets[i] += len(piece)
			sent++
		}
		for i, c := range conns {
			if len(requests[i]) > 0 {
				if _, err := c.Write(requests[i]); err != nil {
					return Result{}, err
				}
				requests[i] = requests[i][:0]
			}
		}
		select {
		case <-tick.C:
		case err := <-failed:
			return Result{}, err
		}
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	return c.result(from, from+int64(sent), begun)
}

// refusals reads answers until the server refuses a request or the connection ends.
func refusals(c *Conn, w Wire) error {
	for {
		if _, err := receive(c, w); err != nil {
			return err
		}
	}
}
