package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Result is the result of a measurement.
type Result struct {
	PerSecond float64
	Count     int64     // messages, or deliveries
	Latency   Histogram // of each request, or of each delivery
}

// Sessions creates sessions without an agent and returns their ids.
func Sessions(t Target, prefix string, n int) ([]string, error) {
	ids := make([]string, n)
	var next atomic.Int64
	err := parallel(min(n, 32), func(int) error {
		conn, err := DialHTTP(t)
		if err != nil {
			return err
		}
		defer conn.Close()
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			ids[i] = fmt.Sprintf("%s-%d", prefix, i)
			if _, err := conn.Do("POST", "/parley/v1/sessions", "", fmt.Appendf(nil, `{"id":%q,"agent":"none"}`, ids[i])); err != nil {
				return err
			}
		}
		return nil
	})
	return ids, err
}

// parallel runs n workers and waits for them.
func parallel(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// AppendHTTP appends for a while, one writer and connection per session, batch
// messages in each request.
func AppendHTTP(ctx context.Context, t Target, sessions []string, batch int, d time.Duration) (Result, error) {
	return measure(ctx, len(sessions), batch, d, func(i int) (step func() error, end func(), err error) {
		conn, err := DialHTTP(t)
		if err != nil {
			return nil, nil, err
		}
		head := t.head("POST", "/parley/v1/sessions/"+sessions[i]+"/events")
		body := newRequest(drafts(texts(batch)))
		return func() error {
			_, err := conn.exchange(append(conn.out[:0], head...), body.now())
			return err
		}, func() { conn.Close() }, nil
	})
}

// AppendWS appends for a while, one writer and socket per session, batch
// messages in each frame and up to inFlight frames that wait for their answer.
func AppendWS(ctx context.Context, t Target, p Protocol, sessions []string, batch, inFlight int, d time.Duration) (Result, error) {
	return measure(ctx, len(sessions), batch, d, func(i int) (step func() error, end func(), err error) {
		w, err := newWriter(t, p, sessions[i], batch)
		if err != nil {
			return nil, nil, err
		}
		return func() error {
			if err := w.send(); err != nil || w.open < inFlight*w.acks {
				return err
			}
			return w.await(w.open - inFlight*w.acks + 1)
		}, func() { _ = w.await(w.open); w.ws.Close() }, nil
	})
}

// measure opens all writers and then runs them at the same time for a while. step sends one request.
func measure(ctx context.Context, writers, batch int, d time.Duration, open func(i int) (step func() error, end func(), err error)) (Result, error) {
	var total atomic.Int64
	var rate Result
	var mu sync.Mutex
	steps, ends := make([]func() error, writers), make([]func(), writers)
	defer func() {
		for _, end := range ends {
			if end != nil {
				end()
			}
		}
	}()
	for i := range writers {
		var err error
		if steps[i], ends[i], err = open(i); err != nil {
			return rate, err
		}
	}
	begun := time.Now()
	err := parallel(writers, func(i int) error {
		var h Histogram
		n := 0
		for at := time.Now(); at.Sub(begun) < d && ctx.Err() == nil; {
			if err := steps[i](); err != nil {
				return err
			}
			n++
			now := time.Now()
			h.Add(now.Sub(at))
			at = now
		}
		total.Add(int64(n * batch))
		mu.Lock()
		rate.Latency.Merge(&h)
		mu.Unlock()
		return nil
	})
	rate.Count = total.Load()
	rate.PerSecond = float64(rate.Count) / time.Since(begun).Seconds()
	return rate, errors.Join(err, ctx.Err())
}

// writer appends to one session over a socket.
type writer struct {
	ws      *WS
	p       Protocol
	request *request
	acks    int // answers to one request
	open    int // answers that are still to come
}

func newWriter(t Target, p Protocol, session string, batch int) (*writer, error) {
	ws, err := OpenWS(t, p)
	if err != nil {
		return nil, err
	}
	frames, acks := p.Append(nil, session, texts(batch))
	return &writer{ws: ws, p: p, request: newRequest(frames), acks: acks}, nil
}

// OpenWS connects and sends the first message of the protocol.
func OpenWS(t Target, p Protocol) (*WS, error) {
	ws, err := DialWS(t, p.Path())
	if err != nil {
		return nil, err
	}
	if hello := p.Hello(); hello != nil {
		err = ws.Send(hello)
		if err == nil {
			_, err = ws.Receive()
		}
	}
	if err != nil {
		return nil, errors.Join(err, ws.Close())
	}
	return ws, nil
}

func (w *writer) send() error {
	w.open += w.acks
	return w.ws.SendFrames(w.request.now())
}

// await waits for n answers.
func (w *writer) await(n int) error {
	for n > 0 {
		msg, err := w.ws.Receive()
		if err != nil {
			return err
		}
		got, err := w.p.Answers(msg)
		if err != nil {
			return err
		}
		n -= got
		w.open -= got
	}
	return nil
}
