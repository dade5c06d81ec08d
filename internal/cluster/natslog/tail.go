package natslog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/sleep"
)

const (
	poll   = 500 * time.Millisecond // without a message until the leader is asked
	follow = 50 * time.Millisecond  // after an own append until the leader is asked
	window = 32                     // requests to the leader at the same time, at most
	enough = 4 << 20                // bytes of the answers at the same time; only a single frame may be larger

	codeNotFound = 10037 // of JetStream: no message with that sequence
)

// ErrMissing means that the leader of the stream does not have a frame that it should have. Its files are damaged; another
// leader may have it.
var ErrMissing = errors.New("the log has lost a frame")

// reader is a running Tail.
type reader struct {
	log   *Log
	part  int
	next  cluster.Pos
	yield func(cluster.Entry, error) bool
	live  chan *nats.Msg
	acked chan cluster.Pos // of own appends

	missing since // the leader lacks a frame that it must have
	short   since // the log ends too early
	polls   int

	width int           // frames that the leader is asked for at the same time
	limit time.Duration // for its answers
}

// errDone ends a tail whose caller wants nothing more.
var errDone = errors.New("done")

// Tail implements cluster.Log.
func (l *Log) Tail(ctx context.Context, part int, after cluster.Pos) iter.Seq2[cluster.Entry, error] {
	return func(yield func(cluster.Entry, error) bool) {
		r := &reader{log: l, part: part, next: after + 1, yield: yield, live: make(chan *nats.Msg), acked: make(chan cluster.Pos, 1), width: 1, limit: attempt}
		if err := r.run(ctx); err != nil && !errors.Is(err, errDone) {
			yield(cluster.Entry{}, err)
		}
	}
}

// acknowledged tells the readers of a partition that the log has a position.
func (l *Log) acknowledged(part int, pos cluster.Pos) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.readers {
		if r.part == part {
			select {
			case r.acked <- pos:
			default:
			}
		}
	}
}

func (r *reader) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sub, err := r.log.conn.Subscribe(r.log.live(r.part), func(m *nats.Msg) {
		select {
		case r.live <- m:
		case <-ctx.Done():
		}
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", r.log.Stream(r.part), err)
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be closed
	// What does not fit is dropped; the leader is asked for it.
	if err := sub.SetPendingLimits(r.log.pending, 32<<20); err != nil {
		return fmt.Errorf("read %s: %w", r.log.Stream(r.part), err)
	}
	r.log.mu.Lock()
	r.log.readers[r] = true
	r.log.mu.Unlock()
	defer func() {
		r.log.mu.Lock()
		delete(r.log.readers, r)
		r.log.mu.Unlock()
	}()
	timer := time.NewTimer(0) // what is stored already
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-r.live:
			if err := r.message(ctx, m); err != nil {
				return err
			}
			timer.Reset(poll)
		case pos := <-r.acked:
			if pos >= r.next {
				timer.Reset(follow)
			}
		case <-timer.C:
			if err := r.ask(ctx); err != nil {
				return err
			}
			timer.Reset(poll)
		}
	}
}

// message takes a republished message.
func (r *reader) message(ctx context.Context, m *nats.Msg) error {
	pos, ok := sequence(m)
	if !ok {
		return nil
	}
	for r.next < pos {
		if err := r.fill(ctx, pos-1); err != nil {
			return err
		}
		if r.next < pos && sleep.For(ctx, backoff) != nil {
			return ctx.Err()
		}
	}
	if r.next > pos {
		return nil // seen
	}
	return r.emit(m.Data)
}

func (r *reader) emit(frame []byte) error {
	if !r.yield(cluster.Entry{Pos: r.next, Frame: frame}, nil) {
		return errDone
	}
	r.next++
	r.missing, r.short = since{}, since{}
	return nil
}

// ask reads what the leader has and republished messages did not bring.
func (r *reader) ask(ctx context.Context) error {
	before := r.next
	if err := r.fill(ctx, 0); err != nil {
		return err
	}
	if r.polls++; r.next > before || r.polls%10 != 1 {
		return nil
	}
	return r.checkGap(ctx)
}

// since measures how long a condition has held. The zero value means that it does not hold.
type since struct{ begun time.Time }

// longer notes that the condition holds now, and reports whether it has held for longer than limit.
func (s *since) longer(limit time.Duration) bool {
	if s.begun.IsZero() {
		s.begun = time.Now()
	}
	return time.Since(s.begun) > limit
}

// checkGap finds out why the leader does not have the next frame. A new leader may not have applied everything yet, and one that
// was replaced may still answer, so a missing frame is reported only after leaders have said so for Log.persist.
func (r *reader) checkGap(ctx context.Context) error {
	once, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	first, last, err := r.log.Ends(once, r.part)
	switch {
	case err != nil: // no leader
		return ctx.Err()
	case r.next < first:
		return fmt.Errorf("%w: position %d is needed, the first one is %d", cluster.ErrTrimmed, r.next, first)
	case r.next > last+1:
		r.polls = 0 // look again soon
		if r.missing = (since{}); r.short.longer(r.log.persist) {
			return fmt.Errorf("%w: it ends at %d, and %d was read", cluster.ErrShort, last, r.next-1)
		}
		return nil
	case r.next == last+1:
		r.missing, r.short = since{}, since{}
		return nil
	}
	r.short = since{}
	frame, err := r.log.get(once, r.part, r.next)
	switch {
	case err == nil:
		return r.emit(frame)
	case !errors.Is(err, errNotFound):
		return ctx.Err()
	case r.missing.longer(r.log.persist):
		return fmt.Errorf("%w: position %d of %d", ErrMissing, r.next, last)
	}
	r.polls = 0
	return nil
}

// fill asks the leader for what follows, up to a position, or for all that it has if the position is 0. It returns without an
// error when there is no more or the leader does not answer.
func (r *reader) fill(ctx context.Context, upTo cluster.Pos) error {
	for upTo == 0 || r.next <= upTo {
		n := r.width
		if upTo == 0 && r.polls > 0 {
			n = 1 // usually there is nothing
		} else if upTo > 0 {
			n = min(n, int(upTo-r.next+1))
		}
		found, err := r.fetch(ctx, n)
		r.adapt(ctx, found, err)
		for _, frame := range found {
			if err := r.emit(frame); err != nil {
				return err
			}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			r.log.log.Debug("the leader of the stream does not answer", "stream", r.log.Stream(r.part), "err", err)
			return nil
		case len(found) == n:
			if upTo == 0 {
				r.polls = 0
			}
			continue
		case upTo == 0:
			return nil // the end
		}
		return r.checkGap(ctx)
	}
	return nil
}

// adapt chooses how much the next fetch asks for. Answers that are too large together end the connection, and a large one takes
// longer than the time in which a leader usually answers.
func (r *reader) adapt(ctx context.Context, found [][]byte, err error) {
	if err != nil {
		r.width = 1
		if !errors.Is(err, context.DeadlineExceeded) {
			return // a longer time would not help, and a request that is lost would wait for it
		}
		once, cancel := context.WithTimeout(ctx, attempt)
		defer cancel()
		if _, _, err := r.log.Ends(once, r.part); err == nil {
			r.limit = min(2*r.limit, 16*attempt) // there is a leader
		}
		return
	}
	r.limit = attempt
	size := 0
	for _, frame := range found {
		size += len(frame)
	}
	if size > enough/2 {
		r.width = max(1, r.width/2)
	} else if len(found) == r.width {
		r.width = min(2*r.width, window)
	}
}

// fetch asks the leader for the next n frames and returns those up to the first that it does not have.
func (r *reader) fetch(ctx context.Context, n int) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	frames, errs := make([][]byte, n), make([]error, n)
	var tasks sync.WaitGroup
	for i := range n {
		tasks.Go(func() { frames[i], errs[i] = r.log.get(ctx, r.part, r.next+cluster.Pos(i)) })
	}
	tasks.Wait()
	for i, err := range errs {
		if errors.Is(err, errNotFound) {
			return frames[:i], nil
		} else if err != nil {
			return frames[:i], err
		}
	}
	return frames, nil
}

var errNotFound = errors.New("not found")

// get asks the leader of a stream for a message.
func (l *Log) get(ctx context.Context, part int, pos cluster.Pos) ([]byte, error) {
	m, err := l.conn.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+l.Stream(part), fmt.Appendf(nil, `{"seq":%d}`, pos))
	if err != nil {
		return nil, err
	}
	var reply struct {
		Error   *jsErrorReply `json:"error"`
		Message *struct {
			Seq  uint64 `json:"seq"`
			Data []byte `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &reply); err != nil {
		return nil, err
	}
	switch {
	case reply.Error != nil && reply.Error.Code == codeNotFound:
		return nil, errNotFound
	case reply.Error != nil:
		return nil, fmt.Errorf("%s (%d)", reply.Error.Description, reply.Error.Code)
	case reply.Message == nil || reply.Message.Seq != uint64(pos):
		return nil, fmt.Errorf("unexpected answer for position %d", pos)
	}
	return reply.Message.Data, nil
}
