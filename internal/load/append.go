package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
	writers := min(n, 32)
	return ids, parallel(writers, func(w int) error {
		conn, err := Dial(t, HTTP{})
		if err != nil {
			return err
		}
		defer conn.Close()
		for i := w; i < n; i += writers {
			ids[i] = fmt.Sprintf("%s-%d", prefix, i)
			if _, err := conn.Do("POST", "/parley/v1/sessions", "", fmt.Appendf(nil, `{"id":%q,"agent":"none"}`, ids[i])); err != nil {
				return err
			}
		}
		return nil
	})
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

// Append appends for a while, one writer and connection per session, batch messages in each request and up to inFlight
// requests that wait for their answer. The latency is that of a request when there is one at a time.
func Append(ctx context.Context, t Target, a Appender, sessions []string, batch, inFlight int, d time.Duration) (Result, error) {
	return ask(ctx, t, a, len(sessions), batch, inFlight, d, func(i int) Request { return a.Append(t, sessions[i], texts(i, batch)) })
}

// Last reads the last messages of a session for a while, with n clients that each wait for their answer.
func Last(ctx context.Context, t Target, l Lister, session string, clients, messages int, d time.Duration) (Result, error) {
	return ask(ctx, t, l, clients, 1, 1, d, func(int) Request { return l.Last(t, session, messages) })
}

// Fill appends n different messages to a session.
func Fill(t Target, a Appender, session string, n int) error {
	const batch = 100
	c, err := Dial(t, a)
	if err != nil {
		return err
	}
	defer c.Close()
	for done := 0; done < n; done += batch {
		r := a.Append(t, session, texts(done, min(batch, n-done)))
		w := &writer{conn: c, wire: a, request: prepare(r)}
		if done == 0 {
			_, err = c.Write(r.First)
		}
		if err := errors.Join(err, w.send(), w.await(r.Answers)); err != nil {
			return err
		}
	}
	return nil
}

// ask opens all writers and then runs them at the same time for a while. A request has batch messages.
func ask(ctx context.Context, t Target, wire Wire, writers, batch, inFlight int, d time.Duration, request func(i int) Request) (rate Result, err error) {
	all, err := openWriters(t, wire, writers, request)
	defer closeWriters(all)
	if err != nil {
		return rate, err
	}
	begun := time.Now()
	for _, w := range all {
		w.at, w.until, w.most = begun, begun.Add(d), inFlight*w.request.Answers
	}
	err = runWriters(ctx, all)
	for _, w := range all {
		rate.Count += int64(w.sent * batch)
		rate.Latency.Merge(&w.latency)
	}
	rate.PerSecond = float64(rate.Count) / time.Since(begun).Seconds()
	return rate, errors.Join(err, ctx.Err())
}

// runEach runs each writer in its own goroutine.
func runEach(ctx context.Context, all []*writer) error {
	return parallel(len(all), func(i int) error {
		err := all[i].fill(ctx)
		for err == nil && all[i].open > 0 {
			err = all[i].next(ctx)
		}
		return err
	})
}

// writer sends one request again and again on its own connection.
type writer struct {
	conn    *Conn
	wire    Wire
	request *prepared
	open    int // answers that are still to come

	// Of runWriters.
	until   time.Time // when no more requests are sent
	most    int       // answers that may be open
	at      time.Time // when there was room for a request
	sent    int
	latency Histogram // from one time when there was room for a request to the next
}

func newWriter(t Target, wire Wire, r Request) (*writer, error) {
	conn, err := Dial(t, wire)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(r.First); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &writer{conn: conn, wire: wire, request: prepare(r)}, nil
}

func openWriters(t Target, wire Wire, n int, request func(i int) Request) ([]*writer, error) {
	all := make([]*writer, 0, n)
	for i := range n {
		w, err := newWriter(t, wire, request(i))
		if err != nil {
			return all, err
		}
		all = append(all, w)
	}
	return all, nil
}

func closeWriters(all []*writer) {
	for _, w := range all {
		w.conn.Close()
	}
}

func (w *writer) send() error {
	if err := w.conn.SetDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	w.open += w.request.Answers
	_, err := w.conn.Write(w.request.now())
	return err
}

// fill sends requests until as many answers are open as may be.
func (w *writer) fill(ctx context.Context) error {
	for w.open+w.request.Answers <= w.most && w.at.Before(w.until) && ctx.Err() == nil {
		if err := w.send(); err != nil {
			return err
		}
		w.sent++
	}
	return nil
}

// next waits for a message and, if there is room, sends the request that follows.
func (w *writer) next(ctx context.Context) error {
	got, err := receive(w.conn, w.wire)
	w.open -= got
	if err != nil || got == 0 || w.open+w.request.Answers > w.most {
		return err
	}
	now := time.Now()
	w.latency.Add(now.Sub(w.at))
	w.at = now
	return w.fill(ctx)
}

// await waits for n answers.
func (w *writer) await(n int) error {
	for n > 0 {
		got, err := receive(w.conn, w.wire)
		if err != nil {
			return err
		}
		n -= got
		w.open -= got
	}
	return nil
}

// receive reads a message and returns how many requests it answers.
func receive(c *Conn, w Wire) (int, error) {
	msg, err := w.Receive(c)
	if err != nil {
		return 0, err
	}
	return w.Answers(msg)
}
