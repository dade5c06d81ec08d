package x1

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// repairs brings sessions that have fallen back up to date, and makes the archive
// forget erased ones, until ctx ends.
func (o *outlet) repairs(ctx context.Context) {
	for {
		o.mu.Lock()
		for len(o.mends) == 0 && ctx.Err() == nil {
			o.sick.Wait()
		}
		if ctx.Err() != nil {
			o.mu.Unlock()
			return
		}
		j := o.mends[0]
		o.mends = o.mends[1:]
		o.mu.Unlock()
		o.insist(ctx, j)
	}
}

// insist does a job until it succeeds: nothing that is stored stays unpublished
// because NATS was away for a while.
func (o *outlet) insist(ctx context.Context, j job) {
	what := "a session could not be brought up to date on NATS; trying again"
	do := o.catchUp
	if j.what == purge {
		what, do = "the archive could not forget an erased session; trying again", o.purge
	}
	j.lane.mend.Lock()
	defer j.lane.mend.Unlock()
	for wait := 50 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 5*time.Second) {
		err := do(ctx, j.lane)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			o.p.d.log.WarnContext(ctx, what, "session", j.lane.id, "err", err)
		}
		pause(ctx, wait)
	}
}

// catchUp publishes what the archive lacks of a session, and lets the queue go on
// behind it.
func (o *outlet) catchUp(ctx context.Context, l *lane) error {
	p := o.p
	if !l.settled() { // else nothing of it is under way
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
			p.recovered(l)
			if !l.gone { // else it is purged
				delete(p.lanes, l.id)
			}
			return nil
		}
		p.mu.Lock()
		if !l.stale {
			l.next = last + 1
			p.recovered(l)
			p.mu.Unlock()
			return nil
		}
		p.mu.Unlock()
	}
}

// publishAfter publishes the stored events behind a sequence and returns the last.
// What is older than the archive keeps is left out.
func (o *outlet) publishAfter(ctx context.Context, l *lane, after chat.Seq) (last chat.Seq, err error) {
	limit := chat.AtOf(o.p.d.opt.Now().Add(-o.p.d.opt.Keep))
	defer o.p.stir() // several sessions share a window; the loop ends it
	for begun, old := false, false; ; begun, old = true, false {
		for facts, err := range o.p.d.pages(ctx, l.id, after) {
			if err != nil {
				return after, err
			}
			at := o.at(facts[0]) // of the page's oldest, which is good enough for the mark
			if old = !begun && at < limit; old {
				break
			}
			for _, f := range facts {
				label, err := f.Label()
				if err != nil {
					o.p.d.log.ErrorContext(ctx, "a stored event cannot be read", "session", l.id, "sequence", f.Seq, "err", err)
				}
				if err := o.send(ctx, l, f, label.Type, at); err != nil {
					return after, err
				}
				after = f.Seq
			}
		}
		if !old {
			return after, nil
		}
		if after, err = o.oldest(ctx, l.id, after, limit); err != nil {
			return after, err
		}
	}
}

// oldest finds behind which event to begin, so that nothing is published that the
// archive would have dropped by now.
func (o *outlet) oldest(ctx context.Context, id chat.SessionID, after chat.Seq, limit chat.At) (chat.Seq, error) {
	before := chat.Seq(0)
	for {
		facts, more, err := o.p.d.opt.Sessions.Read(ctx, chat.Trusted, id, chat.Range{After: after, Before: before, Limit: 1000, MaxBytes: 256 << 10, Desc: true})
		if err != nil {
			return after, err
		}
		for _, f := range facts {
			if o.at(f) < limit {
				return f.Seq, nil
			}
			before = f.Seq
		}
		if !more || len(facts) == 0 {
			return after, nil
		}
	}
}

// at is when an event was stored; now, if that cannot be read.
func (o *outlet) at(f chat.Fact) chat.At {
	if e, err := f.Event(); err == nil {
		return e.At
	}
	return chat.AtOf(o.p.d.opt.Now())
}

// archived returns the last sequence of a session in the archive, 0 for none.
func (o *outlet) archived(ctx context.Context, id chat.SessionID) (chat.Seq, error) {
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
		return 0, nil // not ours; what follows is
	}
	return have.Sequence, nil
}

// slack is how far before the watermark a start looks: commits that were under
// way when it was written, and what JetStream had not synced to the disk.
const slack = 5 * time.Minute

// recover publishes what the last process did not get out, and forgets what was
// erased meanwhile. Nobody waits for it.
func (p *projector) recover(ctx context.Context, stream jetstream.Stream) {
	p.mu.Lock()
	done := p.whole
	p.mu.Unlock()
	if done {
		return // only the connection is new; what fell back is in the queue
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
		calm, ill := p.calm, p.ill
		if ill == 0 {
			p.whole = true
		}
		p.mu.Unlock()
		if ill == 0 {
			break
		}
		select {
		case <-calm:
		case <-ctx.Done():
			return
		}
	}
	p.sweep(ctx, stream)
}

// recheck compares the sessions that were active since a moment with the archive.
func (p *projector) recheck(ctx context.Context, workspace string, from chat.At) error {
	c := chat.Trusted
	c.Workspace = workspace
	f := chat.Filter{Limit: 1000} // a page costs as much as all of a moment
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
			if l := p.lane(s.ID); l.next == 0 {
				p.fallBack(l, s.UpdatedAt)
			}
		}
		p.mu.Unlock()
		if page.Next == "" {
			return ctx.Err()
		}
		if err := p.ease(ctx); err != nil {
			return err
		}
		f.Cursor = page.Next
	}
}

// ease waits while many sessions are being compared, so that a store with a
// million active ones is gone through in little memory.
func (p *projector) ease(ctx context.Context) error {
	for {
		p.mu.Lock()
		ill := p.ill
		p.mu.Unlock()
		if ill < 1000 {
			return ctx.Err()
		}
		if !pause(ctx, 5*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// sweep removes from the archive what was erased while nobody could tell it.
func (p *projector) sweep(ctx context.Context, stream jetstream.Stream) {
	if p.mark.clean {
		return
	}
	if ask := p.d.opt.ErasedSince; ask != nil {
		// There may be as many sessions in the archive as were active in a day.
		if any, err := ask(ctx, p.mark.from-chat.At(slack.Microseconds())); err == nil && !any {
			return
		}
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter("x1.session.*.archive"))
	if err != nil {
		p.d.log.WarnContext(ctx, "the archive of x1 could not be searched for erased sessions", "err", err)
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
