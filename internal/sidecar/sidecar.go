package sidecar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/sleep"
)

// Sidecar attaches one agent process to one session.
type Sidecar struct {
	opt      Options
	instance string // name of this process
	log      *slog.Logger
	conn     *connection
	state    *state
	write    *writer
	stream   *streamReader
	traffic  *trafficRecorder
	agent    *http.Client

	refresh chan struct{} // the log may have grown; capacity 1
	present chan struct{} // a person is viewing the session; capacity 1
	alive   chan string   // another sidecar is running; capacity 1
	fatal   chan error    // capacity 1
}

// New returns a sidecar; Run starts it.
func New(opt Options) (*Sidecar, error) {
	opt = opt.withDefaults()
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	s := &Sidecar{
		opt: opt, instance: newInstance(), log: opt.Logger.With("session", opt.Session), state: newState(),
		agent:   &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4, ResponseHeaderTimeout: time.Minute}},
		refresh: make(chan struct{}, 1), present: make(chan struct{}, 1), alive: make(chan string, 1), fatal: make(chan error, 1),
	}
	s.conn = &connection{opt: &s.opt, log: s.log, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}, receive: s.receive, reconnected: func() { signal(s.refresh) }}
	s.write = &writer{s: s}
	s.stream = newStreamReader(s)
	s.traffic = newTrafficRecorder(s)
	return s, nil
}

// Run connects the agent until ctx ends, the session ends with its agent, or another
// sidecar replaces it. It returns when all its goroutines have ended.
func (s *Sidecar) Run(ctx context.Context) (err error) {
	defer s.agent.CloseIdleConnections()
	defer s.conn.http.CloseIdleConnections()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.opt.Listen)
	if err != nil {
		return fmt.Errorf("the sidecar cannot listen on %s, choose another address: %w", s.opt.Listen, err)
	}
	defer l.Close()
	if err := s.conn.open(ctx); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	// The connection is closed last, so that detach can use it.
	last, closeConn := context.WithCancel(context.WithoutCancel(ctx))
	defer closeConn()
	wg.Go(func() { s.conn.maintain(last) })
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	if err := s.attach(ctx); err != nil {
		return err
	}
	// An earlier end does not count: attaching an agent opens the session again.
	s.state.view(func(b *state) { b.ended, b.endKnown = false, true })
	defer s.detach(last)

	ctx, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	errs := make(chan error, 8)
	start := func(f func(context.Context) error) {
		work.Go(func() {
			if err := f(ctx); err != nil {
				errs <- err
			}
		})
	}
	start(s.follow)
	start(s.keepalive)
	start(s.traffic.run)
	start(func(ctx context.Context) error { return s.serve(ctx, l) })
	start(s.inject)
	ended := make(chan error, 1)
	work.Go(func() { ended <- s.stream.run(ctx) })
	if s.opt.Listening != nil {
		s.opt.Listening(l.Addr().String())
	}
	select {
	case err = <-ended:
	case err = <-errs:
	case err = <-s.fatal:
	case <-ctx.Done():
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// stop ends the sidecar with an error.
func (s *Sidecar) stop(err error) {
	select {
	case s.fatal <- err:
	default:
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// presenceMessage is what sidecars of one session send to each other on presence.
type presenceMessage struct {
	Sidecar *struct {
		Probe string `json:"probe,omitempty"` // the instance that asks whether another one is running
		Alive string `json:"alive,omitempty"` // the instance that answers
		Epoch int64  `json:"epoch,omitempty"`
	} `json:"x1_sidecar"`
}

// receive handles a NATS message. It must not block.
func (s *Sidecar) receive(m *nats.Msg) {
	_, kind, ok := x1.ParseSubject(m.Subject)
	if !ok {
		return
	}
	if kind != x1.Presence {
		signal(s.refresh) // follow reads the log
		return
	}
	var g presenceMessage
	if len(m.Data) == 0 || json.Unmarshal(m.Data, &g) != nil || g.Sidecar == nil {
		signal(s.present)
		return
	}
	switch {
	case g.Sidecar.Probe != "" && g.Sidecar.Probe != s.instance && s.write.attached():
		s.conn.publish(x1.Subject(s.opt.Session, x1.Presence), fmt.Appendf(nil, `{"x1_sidecar":{"alive":%q,"epoch":%d}}`, s.instance, s.write.epoch))
	case g.Sidecar.Alive != "" && g.Sidecar.Alive != s.instance:
		select {
		case s.alive <- g.Sidecar.Alive:
		default:
		}
	}
}

// attach takes the next epoch, unless another sidecar is running.
func (s *Sidecar) attach(ctx context.Context) error {
	for range 20 {
		var epoch int64
		var holder string
		s.state.view(func(b *state) {
			epoch = b.epoch
			if b.hadSidecar && !b.detached {
				holder = b.instance
			}
		})
		if holder != "" && holder != s.instance {
			if other, ok := s.probe(ctx); ok {
				return s.hasSidecar(other)
			}
		}
		err := s.write.attach(ctx, epoch+1)
		if err == nil {
			return nil
		}
		if chat.CodeOf(err) != chat.Conflict {
			return err
		}
		if err := s.catchUp(ctx); err != nil { // another sidecar was faster
			return err
		}
	}
	return s.hasSidecar("others")
}

func (s *Sidecar) hasSidecar(by string) error {
	return chat.Errorf(chat.Conflict, "session %s has a sidecar already (%s); a session has one at a time, so this one stops. End the other first", s.opt.Session, by)
}

// probe asks whether another sidecar is running.
func (s *Sidecar) probe(ctx context.Context) (string, bool) {
	question := fmt.Appendf(nil, `{"x1_sidecar":{"probe":%q}}`, s.instance)
	end := time.NewTimer(s.opt.Probe)
	defer end.Stop()
	again := time.NewTicker(max(s.opt.Probe/8, time.Millisecond))
	defer again.Stop()
	for {
		s.conn.publish(x1.Subject(s.opt.Session, x1.Presence), question)
		select {
		case who := <-s.alive:
			return who, true
		case <-again.C:
		case <-end.C:
			return "", false
		case <-ctx.Done():
			return "", false
		}
	}
}

// detach stores that the sidecar ends, so that the next one need not probe.
func (s *Sidecar) detach(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	s.traffic.drain(ctx)
	_, err := s.write.send(ctx, draft{typ: x1.DetachedType, payload: x1.Attached{Epoch: s.write.epoch, Instance: s.instance}, key: fmt.Sprintf("detach:%d", s.write.epoch)})
	if err != nil {
		s.log.Debug("the end of the sidecar could not be stored", "err", err)
	}
}

// follow applies new events of the log.
func (s *Sidecar) follow(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Second) // core messages may be lost
	defer tick.Stop()
	for {
		select {
		case <-s.refresh:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := s.catchUp(ctx); err != nil {
			return err
		}
		replacedBy, end := "", false
		s.state.view(func(b *state) {
			if end = b.ended && !b.endKnown; end {
				b.endKnown = true
			}
			if b.epoch > s.write.epoch {
				replacedBy = b.instance
			}
		})
		if replacedBy != "" {
			return s.hasSidecar(replacedBy)
		}
		if end {
			if err := s.post(ctx, "/shutdown", "", map[string]any{"summary": "The session was ended.", "is_success": false}); err != nil {
				s.log.Info("the agent did not accept the message that its session has ended", "err", err)
			}
		}
	}
}

// catchUp reads the log to its end. It retries while the server is not connected.
func (s *Sidecar) catchUp(ctx context.Context) error {
	for wait := 50 * time.Millisecond; ; {
		more, err := s.readPage(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && !more:
			return nil
		case err == nil:
			wait = 50 * time.Millisecond
			continue
		}
		switch chat.CodeOf(err) {
		case chat.Unavailable, chat.Internal, chat.SlowDown:
		default:
			return err
		}
		s.log.Debug("the log cannot be read yet; trying again", "err", err)
		if sleep.For(ctx, wait) != nil {
			return ctx.Err()
		}
		wait = min(2*wait, 2*time.Second)
	}
}

func (s *Sidecar) readPage(ctx context.Context) (more bool, err error) {
	var after chat.Seq
	s.state.view(func(b *state) { after = b.last })
	ask, err := json.Marshal(x1.HistoryRequest{After: after, Limit: 1000})
	if err != nil {
		return false, err
	}
	data, _, err := s.conn.request(ctx, x1.Subject(s.opt.Session, x1.History), ask, requestWait)
	if err != nil {
		return false, chat.Errorf(chat.Unavailable, "the server does not answer").Because(err)
	}
	var page x1.HistoryReply
	if err := json.Unmarshal(data, &page); err != nil {
		return false, fmt.Errorf("a page of the log is not understood: %w", err)
	}
	if page.Error != nil {
		if page.Error.Reason == chat.NotFound {
			return false, nil // the session does not exist yet
		}
		return false, chat.Errorf(page.Error.Reason, "%s", page.Error.Description)
	}
	for _, raw := range page.Events {
		e, err := chat.ParseEvent(raw)
		if err != nil {
			return false, fmt.Errorf("an event of the log is not understood: %w", err)
		}
		s.state.apply(&e)
	}
	return page.More, nil
}
