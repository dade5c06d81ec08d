package x1

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// runRepairs publishes the missing events of sessions that are behind, and removes
// erased sessions from the archive, until ctx ends.
func (o *publisher) runRepairs(ctx context.Context) {
	for {
		o.mu.Lock()
		for len(o.repairs) == 0 && ctx.Err() == nil {
			o.repairReady.Wait()
		}
		if ctx.Err() != nil {
			o.mu.Unlock()
			return
		}
		j := o.repairs[0]
		o.repairs = o.repairs[1:]
		o.mu.Unlock()
		o.retryRepair(ctx, j)
	}
}

// retryRepair repeats a job until it succeeds, so that every stored event is published
// even if NATS was disconnected for a while.
func (o *publisher) retryRepair(ctx context.Context, j job) {
	what := "a session could not be brought up to date on NATS; trying again"
	do := o.catchUp
	if j.what == eraseTask {
		what, do = "an erased session could not be removed from the archive; trying again", o.eraseArchived
	}
	j.projection.repairing.Lock()
	defer j.projection.repairing.Unlock()
	for wait := 50 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 5*time.Second) {
		err := do(ctx, j.projection)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			o.p.d.log.WarnContext(ctx, what, "session", j.projection.id, "err", err)
		}
		pause(ctx, wait)
	}
}

// catchUp publishes the events of a session that the archive does not have. The queue
// continues after them.
func (o *publisher) catchUp(ctx context.Context, l *projection) error {
	p := o.p
	if !l.settled() {
		if err := p.acks.barrier(ctx); err != nil {
			return err
		}
	}
	last, err := o.archived(ctx, l.id)
	if err != nil {
		return err
	}
	for {
		p.mu.Lock()
		l.stale = false
		p.mu.Unlock()
		if last, err = o.publishAfter(ctx, l, last); err != nil {
			code := chat.CodeOf(err)
			if code != chat.NotFound && code != chat.Gone {
				return err
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.caughtUpWith(l)
			if !l.erased { // else eraseArchived needs it
				delete(p.projections, l.id)
			}
			return nil
		}
		p.mu.Lock()
		if !l.stale {
			l.next = last + 1
			p.caughtUpWith(l)
			p.mu.Unlock()
			return nil
		}
		p.mu.Unlock()
	}
}

// publishAfter publishes the stored events after a sequence and returns the last one.
// Events that are older than the archive keeps are left out.
func (o *publisher) publishAfter(ctx context.Context, l *projection, after chat.Seq) (last chat.Seq, err error) {
	defer o.p.wakeUp() // several sessions share a window; the loop closes it
	if after, err = o.skipOld(ctx, l.id, after); err != nil {
		return after, err
	}
	var at chat.At
	n := 0
	for f, err := range o.stored(ctx, l.id, chat.Range{After: after}) {
		if err != nil {
			return after, err
		}
		if n%100 == 0 {
			at = o.at(f) // exact enough for the watermark
		}
		n++
		label, err := f.Label()
		if err != nil {
			o.p.d.log.ErrorContext(ctx, "a stored event cannot be read", "session", l.id, "sequence", f.Seq, "err", err)
		}
		if err := o.send(ctx, l, f, label.Type, at); err != nil {
			return after, err
		}
		after = f.Seq
	}
	return after, nil
}

func (o *publisher) stored(ctx context.Context, id chat.SessionID, r chat.Range) iter.Seq2[chat.Fact, error] {
	r.MaxBytes = 256 << 10
	return o.p.d.facts(ctx, id, r)
}

// skipOld returns the last event that is too old for the archive, or after if there is
// none behind it.
func (o *publisher) skipOld(ctx context.Context, id chat.SessionID, after chat.Seq) (chat.Seq, error) {
	limit := chat.AtOf(o.p.d.opt.Now().Add(-o.p.d.opt.Keep))
	for f, err := range o.stored(ctx, id, chat.Range{After: after, Limit: 1}) {
		if err != nil || o.at(f) >= limit {
			return after, err
		}
	}
	for f, err := range o.stored(ctx, id, chat.Range{After: after, Desc: true}) {
		if err != nil {
			return after, err
		}
		if o.at(f) < limit {
			return f.Seq, nil
		}
	}
	return after, nil
}

// at is when an event was stored, or now if that cannot be read.
func (o *publisher) at(f chat.Fact) chat.At {
	if e, err := f.Event(); err == nil {
		return e.At
	}
	return chat.AtOf(o.p.d.opt.Now())
}

// archived returns the last sequence of a session in the archive, 0 for none.
func (o *publisher) archived(ctx context.Context, id chat.SessionID) (chat.Seq, error) {
	wait, cancel := context.WithTimeout(ctx, ackWait)
	defer cancel()
	m, err := o.stream.GetLastMsgForSubject(wait, Subject(id, Archive))
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
	p.mu.Lock()
	done := p.restored
	p.mu.Unlock()
	if done {
		return // only the connection is new; repairs are queued
	}
	from := p.mark.from - chat.At(slack.Microseconds())
	for _, workspace := range p.mark.workspaces() {
		for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
			err := p.recheck(ctx, workspace, from)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return
			}
			p.d.log.WarnContext(ctx, "sessions cannot be compared with the archive of x1; trying again", "workspace", workspace, "err", err)
			if !pause(ctx, wait) {
				return
			}
		}
	}
	for {
		p.mu.Lock()
		caughtUp, behind := p.caughtUp, p.behind
		if behind == 0 {
			p.restored = true
		}
		p.mu.Unlock()
		if behind == 0 {
			break
		}
		select {
		case <-caughtUp:
		case <-ctx.Done():
			return
		}
	}
	p.sweep(ctx, stream)
}

// recheck compares the sessions that were active since a time with the archive.
func (p *projector) recheck(ctx context.Context, workspace string, from chat.At) error {
	c := chat.Trusted
	c.Workspace = workspace
	f := chat.Filter{Limit: 1000}
	for {
		page, err := p.d.opt.Sessions.List(ctx, c, f)
		if err != nil {
			return err
		}
		p.mu.Lock()
		for _, s := range page.Sessions {
			if s.UpdatedAt < from {
				page.Next = ""
				break
			}
			if s.ID.System() {
				continue
			}
			if l := p.projection(s.ID); l.next == 0 {
				p.fallBehind(l, s.UpdatedAt)
			}
		}
		p.mu.Unlock()
		if page.Next == "" {
			return ctx.Err()
		}
		if err := p.waitForRoom(ctx); err != nil {
			return err
		}
		f.Cursor = page.Next
	}
}

// waitForRoom waits while 1000 sessions are being compared, so that a million active
// sessions need little memory.
func (p *projector) waitForRoom(ctx context.Context) error {
	for {
		p.mu.Lock()
		behind := p.behind
		p.mu.Unlock()
		if behind < 1000 {
			return ctx.Err()
		}
		if !pause(ctx, 5*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// sweep removes sessions from the archive that were erased while NATS was not connected.
func (p *projector) sweep(ctx context.Context, stream jetstream.Stream) {
	if p.mark.clean {
		return
	}
	if ask := p.d.opt.ErasedSince; ask != nil {
		// Listing the subjects is slow if many sessions were active.
		if any, err := ask(ctx, p.mark.from-chat.At(slack.Microseconds())); err == nil && !any {
			return
		}
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter("x1.session.*.archive"))
	if err != nil {
		p.d.log.WarnContext(ctx, "the x1 archive could not be searched for erased sessions", "err", err)
		return
	}
	subjects := make([]string, 0, len(info.State.Subjects))
	for s := range info.State.Subjects {
		subjects = append(subjects, s)
	}
	slices.Sort(subjects)
	for _, s := range subjects {
		id, _, ok := ParseSubject(s)
		if !ok || ctx.Err() != nil {
			continue
		}
		if _, err := p.d.opt.Sessions.Get(ctx, chat.Trusted, id); chat.CodeOf(err) == chat.Gone {
			p.erase(id)
		}
	}
}
