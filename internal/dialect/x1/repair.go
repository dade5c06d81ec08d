package x1

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/sleep"
)

// runRepairs publishes the missing events of sessions that are behind, and removes
// erased sessions from the archive, until ctx ends.
func (p *projector) runRepairs(ctx context.Context, stream jetstream.Stream) {
	for {
		p.mu.Lock()
		for len(p.repairs) == 0 && ctx.Err() == nil {
			p.repairReady.Wait()
		}
		if ctx.Err() != nil {
			p.mu.Unlock()
			return
		}
		l := p.repairs[0]
		p.repairs = p.repairs[1:]
		p.mu.Unlock()
		p.repair(ctx, l, stream)
	}
}

// repair repeats its attempts until one succeeds, so that every stored event is published
// even if NATS was disconnected for a while.
func (p *projector) repair(ctx context.Context, l *projection, stream jetstream.Stream) {
	for wait := 50 * time.Millisecond; ctx.Err() == nil; {
		p.mu.Lock()
		behind, erased := l.behind, l.erased
		l.repairing = behind || erased
		p.mu.Unlock()
		var err error
		switch {
		case erased:
			if err = p.eraseArchived(ctx, l, stream); err == nil {
				return
			}
		case behind:
			if err = p.catchUp(ctx, l, stream); err == nil {
				continue
			}
		default:
			return
		}
		if ctx.Err() == nil {
			p.d.log.WarnContext(ctx, "the copy of a session on NATS could not be brought up to date; trying again", "session", l.id, "erased", erased, "err", err)
		}
		sleep.For(ctx, wait)
		wait = min(2*wait, 5*time.Second)
	}
}

// catchUp publishes the events of a session that the archive does not have. The queue
// continues after them.
func (p *projector) catchUp(ctx context.Context, l *projection, stream jetstream.Stream) error {
	p.publishing.Lock() // after a batch with an event of it
	last, err := lastArchived(ctx, stream, l.id)
	p.publishing.Unlock()
	for err == nil {
		p.mu.Lock()
		l.stale = false
		p.mu.Unlock()
		last, err = p.publishAfter(ctx, l, last)
		p.mu.Lock()
		if err == nil && !l.stale {
			l.next = last + 1
			p.caughtUpWith(l)
			p.mu.Unlock()
			return nil
		}
		p.mu.Unlock()
	}
	if code := chat.CodeOf(err); code != chat.NotFound && code != chat.Gone {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.caughtUpWith(l)
	return nil
}

// publishAfter publishes the stored events after a sequence and returns the last one.
// Events that are older than the archive keeps are left out.
func (p *projector) publishAfter(ctx context.Context, l *projection, after chat.Seq) (last chat.Seq, err error) {
	if after, err = p.skipOld(ctx, l.id, after); err != nil {
		return after, err
	}
	for more := true; more; {
		var facts []chat.Fact
		facts, more, err = p.d.opt.Sessions.Read(ctx, chat.Trusted, l.id, chat.Range{After: after, MaxBytes: 256 << 10})
		if err != nil || len(facts) == 0 {
			return after, err
		}
		if err := p.publishPage(ctx, l, facts); err != nil {
			return after, err
		}
		after = facts[len(facts)-1].Seq
	}
	return after, nil
}

// publishPage publishes stored events of a session.
func (p *projector) publishPage(ctx context.Context, l *projection, facts []chat.Fact) error {
	p.publishing.Lock()
	defer p.publishing.Unlock()
	b := p.newBatch(ctx)
	at := p.storedAt(facts[0])
	for _, f := range facts {
		label, err := f.Label()
		if err != nil {
			p.d.log.ErrorContext(ctx, "a stored event cannot be read", "session", l.id, "sequence", f.Seq, "err", err)
		}
		b.add(l, f, label.Type, at)
	}
	return b.end()
}

// skipOld returns the last event that is too old for the archive, or after if there is
// none behind it.
func (p *projector) skipOld(ctx context.Context, id chat.SessionID, after chat.Seq) (chat.Seq, error) {
	limit := chat.AtOf(p.d.opt.Now().Add(-p.d.opt.Keep))
	for f, err := range p.d.opt.Sessions.Facts(ctx, chat.Trusted, id, chat.Range{After: after, Desc: true, MaxBytes: 256 << 10}) {
		if err != nil {
			return after, err
		}
		if p.storedAt(f) < limit {
			return f.Seq, nil
		}
	}
	return after, nil
}

// storedAt is when an event was stored, or now if that cannot be read.
func (p *projector) storedAt(f chat.Fact) chat.At {
	if e, err := f.Event(); err == nil {
		return e.At
	}
	return chat.AtOf(p.d.opt.Now())
}

// lastArchived returns the last sequence of a session in the archive, 0 for none.
func lastArchived(ctx context.Context, stream jetstream.Stream, id chat.SessionID) (chat.Seq, error) {
	wait, cancel := context.WithTimeout(ctx, ackWait)
	defer cancel()
	m, err := stream.GetLastMsgForSubject(wait, Subject(id, Archive))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var have struct {
		Sequence chat.Seq `json:"sequence"`
	}
	if err := json.Unmarshal(m.Data, &have); err != nil {
		return 0, nil // another program published it
	}
	return have.Sequence, nil
}

// slack is how far before the watermark a start looks, because of commits that were
// in progress when it was written and messages that JetStream had not synced.
const slack = 5 * time.Minute

// recover publishes the events that the last process did not publish, and erases from
// the archive what was erased meanwhile. It runs in the background.
func (p *projector) recover(ctx context.Context, stream jetstream.Stream) {
	from := p.mark.from - chat.At(slack.Microseconds())
	for _, workspace := range p.mark.workspaces() {
		p.untilDone(ctx, "sessions cannot be compared with the archive of x1", func() error { return p.recheck(ctx, workspace, from) })
	}
	for done := false; !done; {
		p.mu.Lock()
		caughtUp := p.caughtUp
		done = p.behind == 0
		p.restored = done
		p.mu.Unlock()
		if !done {
			select {
			case <-caughtUp:
			case <-ctx.Done():
				return
			}
		}
	}
	p.untilDone(ctx, "the archive of x1 cannot be searched for erased sessions", func() error { return p.sweep(ctx, stream, from) })
}

// untilDone calls f until it succeeds or ctx ends.
func (p *projector) untilDone(ctx context.Context, failure string, f func() error) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := f()
		if err == nil || ctx.Err() != nil {
			return
		}
		p.d.log.WarnContext(ctx, failure+"; trying again", "err", err)
		sleep.For(ctx, wait)
	}
}

// recheck compares the sessions that were active since a time with the archive.
func (p *projector) recheck(ctx context.Context, workspace string, from chat.At) error {
	c := chat.Trusted
	c.Workspace = workspace
	for s, err := range p.d.opt.Sessions.ListAll(ctx, c, core.Filter{Limit: 1000}) {
		if err != nil || s.UpdatedAt < from {
			return err
		}
		if s.ID.System() {
			continue
		}
		p.mu.Lock()
		if l := p.projection(s.ID); l.next == 0 {
			p.fallBehind(l, s.UpdatedAt)
		}
		p.mu.Unlock()
		// A million active sessions must not need much memory.
		for p.tooManyBehind() && sleep.For(ctx, 5*time.Millisecond) == nil {
		}
	}
	return ctx.Err()
}

func (p *projector) tooManyBehind() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.behind >= 1000
}

// sweep removes sessions from the archive that were erased since a time, in case NATS was not
// connected, the process was killed, or a power cut undid the erasure.
func (p *projector) sweep(ctx context.Context, stream jetstream.Stream, since chat.At) error {
	if p.mark.clean {
		return nil
	}
	// Listing the subjects is slow if many sessions were active.
	if any, err := p.d.opt.ErasedSince(ctx, since); err == nil && !any {
		return nil
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter("x1.session.*.archive"))
	if err != nil {
		return err
	}
	for s := range info.State.Subjects {
		id, _, ok := ParseSubject(s)
		if !ok {
			continue
		}
		switch _, err := p.d.opt.Sessions.Get(ctx, chat.Trusted, id); chat.CodeOf(err) {
		case chat.Gone:
			p.erase(id)
		case "", chat.NotFound:
		default:
			return err
		}
	}
	return nil
}
