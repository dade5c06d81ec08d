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
)

// Sidecar attaches one agent process to one session.
type Sidecar struct {
	opt    Options
	log    *slog.Logger
	link   *link
	book   *book
	write  *writer
	stream *reader
	audit  *auditor
	agent  *http.Client

	refresh chan struct{} // the log may have grown; room for one
	present chan struct{} // somebody looks; room for one
	alive   chan string   // another sidecar says that it lives; room for one
	fatal   chan error    // room for one
}

// New returns a sidecar; Run lets it work.
func New(opt Options) (*Sidecar, error) {
	opt = opt.withDefaults()
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	s := &Sidecar{
		opt: opt, log: opt.Logger.With("session", opt.Session), book: newBook(),
		agent:   &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4, ResponseHeaderTimeout: time.Minute}},
		refresh: make(chan struct{}, 1), present: make(chan struct{}, 1), alive: make(chan string, 1), fatal: make(chan error, 1),
	}
	s.link = &link{opt: &s.opt, log: s.log, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}, heed: s.heed, back: func() { signal(s.refresh) }}
	s.write = &writer{s: s}
	s.stream = newReader(s)
	s.audit = newAuditor(s)
	return s, nil
}

// Run attaches the agent until ctx ends, the session ends with its agent, or
// another sidecar has it. It returns when all it started has ended.
func (s *Sidecar) Run(ctx context.Context) (err error) {
	defer s.agent.CloseIdleConnections()
	defer s.link.http.CloseIdleConnections()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.opt.Listen)
	if err != nil {
		return fmt.Errorf("the sidecar cannot listen on %s, choose another address: %w", s.opt.Listen, err)
	}
	defer l.Close()
	if err := s.link.open(ctx); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	// The connection outlives the rest, so that a goodbye gets out.
	last, bye := context.WithCancel(context.WithoutCancel(ctx))
	defer bye()
	wg.Go(func() { s.link.keep(last) })
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	if err := s.attach(ctx); err != nil {
		return err
	}
	// That it ended before is history: whoever attaches an agent wants it open.
	s.book.look(func(b *book) { b.ended, b.told = false, true })
	if s.opt.Attached != nil {
		s.opt.Attached(s.write.epoch)
	}
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
	start(s.audit.run)
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

// stop ends the sidecar for a reason.
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

// greeting is what sidecars of one session say to each other on presence.
type greeting struct {
	Sidecar *struct {
		Probe string `json:"probe,omitempty"` // are you there? asked by
		Alive string `json:"alive,omitempty"` // yes, I am
		Epoch int64  `json:"epoch,omitempty"`
	} `json:"x1_sidecar"`
}

// heed takes what comes by NATS. It must not block.
func (s *Sidecar) heed(m *nats.Msg) {
	_, kind, ok := x1.ParseSubject(m.Subject)
	if !ok {
		return
	}
	if kind != x1.Presence {
		signal(s.refresh) // the log itself says what is new
		return
	}
	var g greeting
	if len(m.Data) == 0 || json.Unmarshal(m.Data, &g) != nil || g.Sidecar == nil {
		signal(s.present)
		return
	}
	switch {
	case g.Sidecar.Probe != "" && g.Sidecar.Probe != s.opt.Instance && s.write.attached():
		s.link.tell(x1.Subject(s.opt.Session, x1.Presence), fmt.Appendf(nil, `{"x1_sidecar":{"alive":%q,"epoch":%d}}`, s.opt.Instance, s.write.epoch))
	case g.Sidecar.Alive != "" && g.Sidecar.Alive != s.opt.Instance:
		select {
		case s.alive <- g.Sidecar.Alive:
		default:
		}
	}
}

// attach makes the session ours, unless another sidecar is alive.
func (s *Sidecar) attach(ctx context.Context) error {
	for range 20 {
		var epoch int64
		var holder string
		s.book.look(func(b *book) {
			epoch = b.epoch
			if b.attended && !b.left {
				holder = b.instance
			}
		})
		if holder != "" && holder != s.opt.Instance {
			if other, ok := s.probe(ctx); ok {
				return s.taken(other)
			}
		}
		err := s.write.attach(ctx, epoch+1)
		if err == nil {
			return nil
		}
		if chat.CodeOf(err) != chat.Conflict {
			return err
		}
		if err := s.catchUp(ctx); err != nil { // somebody was faster; are they alive?
			return err
		}
	}
	return s.taken("others")
}

func (s *Sidecar) taken(by string) error {
	return chat.Errorf(chat.Conflict, "session %s has a sidecar already (%s); a session has one at a time, so this one stops. End the other first", s.opt.Session, by)
}

// probe asks whether another sidecar is there.
func (s *Sidecar) probe(ctx context.Context) (string, bool) {
	question := fmt.Appendf(nil, `{"x1_sidecar":{"probe":%q}}`, s.opt.Instance)
	end := time.NewTimer(s.opt.Probe)
	defer end.Stop()
	again := time.NewTicker(max(s.opt.Probe/8, time.Millisecond))
	defer again.Stop()
	for {
		s.link.tell(x1.Subject(s.opt.Session, x1.Presence), question)
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

// detach says goodbye, so that the next sidecar need not wait for an answer.
func (s *Sidecar) detach(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	s.audit.drain(ctx)
	_, err := s.write.send(ctx, draft{typ: x1.DetachedType, payload: x1.Attached{Epoch: s.write.epoch, Instance: s.opt.Instance}, key: fmt.Sprintf("detach:%d", s.write.epoch)})
	if err != nil {
		s.log.Debug("the goodbye was not heard", "err", err)
	}
}

// follow applies the log as it grows.
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
		overtaken, end := "", false
		s.book.look(func(b *book) {
			if end = b.ended && !b.told; end {
				b.told = true
			}
			if b.epoch > s.write.epoch {
				overtaken = b.instance
			}
		})
		if overtaken != "" {
			return s.taken(overtaken)
		}
		if end {
			if err := s.post(ctx, "/shutdown", "", map[string]any{"summary": "The session was ended.", "is_success": false}); err != nil {
				s.log.Info("the agent was not told that its session has ended", "err", err)
			}
		}
	}
}

// catchUp reads the log to its end. While the server is away it waits.
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
		if !pause(ctx, wait) {
			return ctx.Err()
		}
		wait = min(2*wait, 2*time.Second)
	}
}

func (s *Sidecar) readPage(ctx context.Context) (more bool, err error) {
	var after chat.Seq
	s.book.look(func(b *book) { after = b.last })
	ask, err := json.Marshal(x1.HistoryRequest{After: after, Limit: 1000})
	if err != nil {
		return false, err
	}
	data, _, err := s.link.request(ctx, x1.Subject(s.opt.Session, x1.History), ask, requestWait)
	if err != nil {
		return false, chat.Errorf(chat.Unavailable, "the server does not answer").Because(err)
	}
	var page x1.HistoryReply
	if err := json.Unmarshal(data, &page); err != nil {
		return false, fmt.Errorf("a page of the log is not understood: %w", err)
	}
	if page.Error != nil {
		if page.Error.Reason == chat.NotFound {
			return false, nil // it begins with its first event
		}
		return false, chat.Errorf(page.Error.Reason, "%s", page.Error.Description)
	}
	for _, raw := range page.Events {
		e, err := chat.ParseEvent(raw)
		if err != nil {
			return false, fmt.Errorf("an event of the log is not understood: %w", err)
		}
		s.book.apply(&e)
	}
	return page.More, nil
}
