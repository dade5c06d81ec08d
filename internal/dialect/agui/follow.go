package agui

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/pages"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/turnlog"
	"github.com/parley-hq/parley/internal/wire"
)

// target is what a stream shows.
type target struct {
	caller  chat.Caller
	session chat.SessionID // "": there is nothing to show but extra
	thread  string         // the client's id of the session
	runID   string         // the client's id of the run
	variant variant

	whole   bool        // all runs of the thread
	message chat.Seq    // the run that answers this message; base is not known yet
	base    *chat.Event // the turn.started of the turn that the run belongs to
	from    chat.Seq    // the run begins at or after this event
	exact   bool        // the run begins with the event from
	skip    int         // frames of the run that the client has
	rest    bool        // all runs until the turn ends
	closing string      // a prompt that ends in a moment
	then    chat.Seq    // after it also the run that answers this message
	extra   []event     // shown after the first frame; not part of the log
}

// stream answers with the frames of a target as Server-Sent Events. The run goes on when the client disconnects.
func (d *Dialect) stream(w http.ResponseWriter, r *http.Request, t *target) error {
	return d.Stream(w, r, t.caller, t.session, func(ctx context.Context, o pages.Opening) (pages.View, chat.Seq, error) {
		if err := o.Write(wire.AppendSSEComment(nil, "open")); err != nil {
			return nil, 0, err
		}
		return d.open(ctx, t, o)
	})
}

// open returns the view of a target and the event after which it begins. A target that has nothing to do with the log is shown at
// once and has no view.
func (d *Dialect) open(ctx context.Context, t *target, o pages.Opening) (pages.View, chat.Seq, error) {
	show := func(frames []frame) (pages.View, chat.Seq, error) { return nil, 0, o.Write(appendFrames(nil, frames)) }
	if t.session == "" {
		return show(t.ephemeral(nil))
	}
	if t.message != 0 {
		if err := d.await(ctx, t, o.Idle); err != nil {
			if chat.CodeOf(err) == chat.Conflict && ctx.Err() == nil && t.base == nil {
				return show(appendExtra(nil, event{Type: "RUN_ERROR", Message: chat.Public(err).Msg, Code: "withdrawn"}))
			}
			return nil, 0, err
		}
	}
	v := &view{target: t, enc: newEncoder(t.variant, t.thread)}
	v.enc.client, v.enc.whole = t.runID, t.whole
	if t.whole {
		return v, 0, nil
	}
	if t.base == nil {
		return show(t.ephemeral(nil))
	}
	return v, t.base.Seq - 1, d.prime(ctx, t, v.enc)
}

// appendFrames appends frames as Server-Sent Events.
func appendFrames(dst []byte, frames []frame) []byte {
	for i := range frames {
		f := &frames[i]
		if !f.extra {
			dst = append(append(append(dst, "id: "...), f.event...), '.')
			dst = append(strconv.AppendInt(dst, int64(f.n), 10), '\n')
		}
		dst = wire.AppendSSE(dst, "", "", f.data)
	}
	return dst
}

// view selects the frames of a target. It is a [pages.View].
type view struct {
	target *target
	enc    *encoder
	begun  bool
	done   bool
	out    []frame // reused
}

func (v *view) Append(dst []byte, entries []turnlog.Entry, live bool) ([]byte, bool, error) {
	out, err := v.out[:0], error(nil)
	for i := 0; i < len(entries) && !v.done; i++ {
		if out, err = v.add(out, v.enc.take(entries[i])); err != nil {
			return dst, false, err
		}
	}
	if live && !v.done {
		out = v.caughtUp(out)
	}
	dst = appendFrames(dst, out)
	clear(out)
	if v.out = out; cap(out) > maxKept {
		v.out = nil
	}
	return dst, v.done, nil
}

// maxKept is how many frames a view has room for while it waits.
const maxKept = 16

// add appends the frames that the target shows.
func (v *view) add(out, frames []frame) ([]frame, error) {
	t := v.target
	for _, f := range frames {
		if v.done || !t.whole && f.run < t.from {
			continue
		}
		if t.exact && f.run != t.from {
			return out, errNoRun(strconv.FormatUint(uint64(t.from), 10))
		}
		if !v.begun && !t.whole && !t.rest && t.then == 0 {
			t.from, t.exact = f.run, true // later runs are not shown
		}
		v.begun = true
		if f.run != t.from || f.n > t.skip {
			out = append(out, f)
		}
		if f.start && t.skip == 0 {
			out = appendExtra(out, t.extra...)
			t.extra = nil
		}
		if f.end && !t.whole && !t.rest {
			v.done = t.then == 0 || f.trigger == t.then
		}
	}
	return out, nil
}

// caughtUp ends the view when there is nothing more to wait for.
func (v *view) caughtUp(out []frame) []frame {
	t, enc := v.target, v.enc
	if enc.run != nil || len(enc.waiting) == 0 && enc.turn != "" {
		return out
	}
	switch {
	case t.whole:
		// Prompts of workstreams that came after the last run are shown in a run that is not part of the log.
		if len(enc.waiting) == 0 && len(enc.prompts) > 0 {
			out = append(out, t.ephemeral(openOutcome(enc.prompts, t.variant, "open"))...)
		}
		v.done = true
	case v.begun:
		v.done = t.rest || len(enc.waiting) > 0
	case t.closing == "" || !slices.Contains(enc.waiting, t.closing):
		// The request did not answer all prompts that the last run ended with, or there is nothing to show.
		open := slices.DeleteFunc(slices.Clone(enc.prompts), func(p *chat.Prompt) bool { return !slices.Contains(enc.waiting, p.RequestID) })
		out = append(out, t.ephemeral(openOutcome(open, t.variant, t.runID))...)
		v.done = true
	}
	return out
}

// ephemeral is a run that is not part of the log: it says what the thread waits for.
func (t *target) ephemeral(o *outcome) []frame {
	if t.whole && o == nil {
		return nil
	}
	id := cmp.Or(t.runID, "open")
	if o == nil {
		o = &outcome{Type: "success"}
	}
	for i := range o.Interrupts {
		o.Interrupts[i].Subagent = "" // no subagent is started in this run
	}
	all := append([]event{runStarted(t.thread, id, t.variant)}, t.extra...)
	return appendExtra(nil, append(all, event{Type: "RUN_FINISHED", Thread: t.thread, Run: id, Outcome: o})...)
}

// appendExtra appends frames that are not part of the log.
func appendExtra(out []frame, events ...event) []frame {
	for _, ev := range events {
		out = append(out, frame{extra: true, data: pages.Marshal(ev)})
	}
	return out
}

// await waits until a turn takes up the message, and sets base.
func (d *Dialect) await(ctx context.Context, t *target, idle func() error) error {
	e, err := turnlog.Await(ctx, d.Sessions, t.caller, t.session, t.message, d.Heartbeat, idle)
	if err != nil {
		return err
	}
	if _, steered := e.Body.(chat.TurnInput); steered {
		started, err := turnlog.Last(ctx, d.Sessions, t.caller, t.session, e.Seq)
		if err != nil || started == nil {
			return err
		}
		e, t.rest = *started, true
	}
	t.base, t.from = &e, e.Seq
	return nil
}

// primeTypes are the events before a turn that its runs depend on.
var primeTypes = append([]string{chat.WorkstreamLaunched{}.Type()}, turnlog.PromptTypes...)

// prime gives the encoder what it needs of the events before the turn.
func (d *Dialect) prime(ctx context.Context, t *target, enc *encoder) error {
	if b, ok := t.base.Body.(chat.TurnStarted); ok && b.Trigger > 0 {
		e, err := d.Sessions.Event(ctx, t.caller, t.session, b.Trigger)
		if err != nil {
			return err
		}
		enc.note(&e)
	}
	st, err := d.Sessions.State(ctx, t.caller, t.session)
	if err != nil || len(st.Workstreams) == 0 { // prompts of the main line end with their turn
		return err
	}
	for e, err := range d.Sessions.Events(ctx, t.caller, t.session, chat.Range{Before: t.base.Seq, Types: primeTypes}) {
		if err != nil {
			return err
		}
		enc.note(&e)
	}
	return nil
}

// resumeAfter is the target of a client that has the frames of a run up to an id. It never begins a turn. The id names the session too,
// because a fork may have taken its place in the thread since.
func (d *Dialect) resumeAfter(ctx context.Context, c chat.Caller, thread, runID, last string, f variant) (*target, error) {
	name, number, _ := strings.Cut(last, ".")
	id, ok := chat.ParseID(chat.EventPrefix, name)
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 1 {
		return nil, chat.Errorf(chat.Invalid, "Last-Event-ID %q is not the id of an event of this server", text.Clip(last, 80))
	}
	sess, seq, err := d.Sessions.ByID(ctx, c, id)
	if err != nil {
		return nil, noRun(err, last)
	}
	t := &target{caller: c, session: sess.ID, thread: cmp.Or(thread, threadOf(&sess)), runID: runID, variant: f, from: seq, exact: true, skip: n}
	if t.base, err = turnlog.Last(ctx, d.Sessions, c, sess.ID, t.from); err == nil && t.base == nil {
		err = errNoRun(last)
	}
	return t, err
}

// noRun is the error for an id that could not be found: a node that is behind does not say that there is no run.
func noRun(err error, id string) error {
	if chat.CodeOf(err) == chat.Unavailable {
		return err
	}
	return errNoRun(id)
}

func errNoRun(id string) error {
	return chat.Errorf(chat.NotFound, "this thread has no run %q", text.Clip(id, 80))
}
