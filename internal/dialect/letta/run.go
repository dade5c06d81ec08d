package letta

import (
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
)

// run is a turn as Letta's clients know it.
type run struct {
	session      chat.SessionID
	agentID      string
	conversation string // its id; "" is the agent's default one
	form         form

	id      string
	turn    chat.TurnID
	started chat.Event
	trigger chat.Event // what it answers; Seq 0 when that is not known
	options options    // that its client asked for
}

// errNoRun is the answer for runs that are not there and for those of others.
func errNoRun(id string) error {
	return chat.Errorf(chat.NotFound, "there is no run %q, or it is not yours", clip(id))
}

// byID finds the session and the event that an id on the wire was made from; an id
// of nothing that the caller may see is answered with nothing.
func (d *Dialect) byID(ctx context.Context, c chat.Caller, prefix, id string, nothing error) (chat.Session, chat.Seq, error) {
	parsed, ok := chat.ParseID(prefix, id)
	if !ok {
		return chat.Session{}, 0, nothing
	}
	sess, seq, err := d.opt.Sessions.ByID(ctx, c, parsed)
	if chat.CodeOf(err) == chat.NotFound {
		err = nothing
	}
	return sess, seq, err
}

// loadRun finds a run by its id.
func (d *Dialect) loadRun(ctx context.Context, c chat.Caller, id string) (*run, error) {
	sess, seq, err := d.byID(ctx, c, llm.RunPrefix, id, errNoRun(id))
	if err != nil {
		return nil, err
	}
	e, err := d.event(ctx, c, sess.ID, seq)
	if err != nil {
		return nil, err
	}
	if _, ok := e.Body.(chat.TurnStarted); !ok || e.Workstream != mainLine {
		return nil, errNoRun(id)
	}
	return d.runOf(ctx, c, &sess, e)
}

// runOf is the run that an event began.
func (d *Dialect) runOf(ctx context.Context, c chat.Caller, sess *chat.Session, started chat.Event) (*run, error) {
	p, err := d.placeOf(ctx, c, sess)
	if err != nil {
		return nil, err
	}
	return d.runIn(ctx, c, p, started)
}

func (d *Dialect) runIn(ctx context.Context, c chat.Caller, p *place, started chat.Event) (*run, error) {
	b := started.Body.(chat.TurnStarted)
	r := &run{
		session: p.session, agentID: p.agentID, conversation: p.conversation, form: p.form,
		id: llm.RunID(b.TurnID), turn: b.TurnID, started: started,
	}
	if b.Trigger == 0 {
		return r, nil
	}
	trigger, err := d.event(ctx, c, p.session, b.Trigger)
	if err != nil {
		return nil, err
	}
	r.trigger, r.options = trigger, optionsOf(&trigger)
	return r, nil
}

// optionsOf reads what a client asked for with a message.
func optionsOf(e *chat.Event) (o options) {
	b, ok := e.Body.(chat.UserMessage)
	if !ok || e.Via != via {
		return o
	}
	var context map[string]json.RawMessage
	if json.Unmarshal(b.Context, &context) == nil {
		_ = json.Unmarshal(context[llm.SaidKey], &o)
	}
	return o
}

func (d *Dialect) event(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (chat.Event, error) {
	fact, err := d.opt.Sessions.Event(ctx, c, id, seq)
	if err != nil {
		return chat.Event{}, err
	}
	return fact.Event()
}

// mainLine is the line of work that runs are of.
var mainLine = ""

// completed returns the event that ended the run, nil while it is under way.
func (d *Dialect) completed(ctx context.Context, c chat.Caller, r *run) (*chat.Event, error) {
	facts, _, err := d.opt.Sessions.Read(ctx, c, r.session, chat.Range{
		After: r.started.Seq, Limit: 1, Types: []string{chat.TurnCompleted{}.Type()}, Workstream: &mainLine,
	})
	if err != nil || len(facts) == 0 {
		return nil, err
	}
	e, err := facts[0].Event()
	return &e, err
}

// answers returns the turn.started of the turn that took a message up, nil when
// none has yet.
func (d *Dialect) answers(ctx context.Context, c chat.Caller, id chat.SessionID, message chat.Seq) (*chat.Event, error) {
	after := message
	for {
		facts, more, err := d.opt.Sessions.Read(ctx, c, id, chat.Range{
			After: after, Limit: 4, Workstream: &mainLine, Types: []string{chat.TurnStarted{}.Type(), chat.TurnInput{}.Type()},
		})
		if err != nil {
			return nil, err
		}
		for _, f := range facts {
			e, err := f.Event()
			if err != nil {
				return nil, err
			}
			after = e.Seq
			switch b := e.Body.(type) {
			case chat.TurnStarted:
				if b.Trigger == message {
					return &e, nil
				}
			case chat.TurnInput:
				if slices.Contains(b.Sequences, message) {
					return d.began(ctx, c, id, e.Turn)
				}
			}
		}
		if !more || len(facts) == 0 {
			return nil, nil
		}
	}
}

// began returns the event that began a turn.
func (d *Dialect) began(ctx context.Context, c chat.Caller, id chat.SessionID, turn chat.TurnID) (*chat.Event, error) {
	parsed, ok := chat.ParseID(chat.TurnPrefix, string(turn))
	if !ok {
		return nil, nil
	}
	_, seq, ok := parsed.Parts()
	if !ok {
		return nil, nil
	}
	e, err := d.event(ctx, c, id, seq)
	if err != nil {
		return nil, err
	}
	if _, ok := e.Body.(chat.TurnStarted); !ok {
		return nil, nil
	}
	return &e, nil
}

// follower is one client that follows a run.
type follower struct {
	d      *Dialect
	caller chat.Caller
	place  *place
	run    *run     // nil while the message waits for its turn
	waits  chat.Seq // that message
	then   chat.Seq // a message that was sent along with an answer, and is followed next; 0: none
	after  chat.At  // what the client has
	tokens bool
	pings  bool
	types  []string
	form   form
	told   progress
	before progress // what came before the run that is followed now
	runs   []string // those of before
}

// await waits until the message has its turn; idle is called in silence.
func (f *follower) await(ctx context.Context, idle func() error) error {
	if f.run != nil {
		return nil
	}
	s := f.d.opt.Sessions
	for batch, err := range s.Watch(ctx, f.caller, f.place.session, chat.Start{Cursor: &chat.Cursor{Seq: f.waits}, Idle: f.d.opt.Heartbeat}, nil) {
		if err != nil {
			return err
		}
		if batch.Idle {
			if err := idle(); err != nil {
				return err
			}
		}
		for i := range batch.Entries {
			e := &batch.Entries[i]
			if e.Piece != nil || e.Label.Workstream != "" {
				continue
			}
			switch e.Label.Type {
			case chat.TurnStarted{}.Type(), chat.TurnInput{}.Type(), chat.UserMessageWithdrawn{}.Type():
				if done, err := f.begins(ctx, &e.Fact); done || err != nil {
					return err
				}
			}
		}
	}
	return context.Cause(ctx)
}

func (f *follower) begins(ctx context.Context, fact *chat.Fact) (bool, error) {
	e, err := fact.Event()
	if err != nil {
		return false, err
	}
	started := &e
	switch b := e.Body.(type) {
	case chat.UserMessageWithdrawn:
		if b.Sequence == f.waits {
			return false, chat.Errorf(chat.Conflict, "the message was withdrawn before the agent took it up")
		}
		return false, nil
	case chat.TurnInput:
		if !slices.Contains(b.Sequences, f.waits) {
			return false, nil
		}
		if started, err = f.d.began(ctx, f.caller, f.place.session, e.Turn); err != nil || started == nil {
			return false, err
		}
		f.after = max(f.after, e.At)
	case chat.TurnStarted:
		if b.Trigger != f.waits {
			return false, nil
		}
	}
	f.run, err = f.d.runIn(ctx, f.caller, f.place, *started)
	return err == nil, err
}

// next turns to the run of the message that was sent along with an answer, once
// the run that the answer was for has ended. It returns false when there is
// nothing more to follow.
func (f *follower) next(ctx context.Context) (bool, error) {
	if f.then == 0 || f.told.end.failed != "" {
		return false, nil
	}
	ended, err := f.d.completed(ctx, f.caller, f.run)
	if err != nil || ended == nil { // it asks again
		return false, err
	}
	started, err := f.d.answers(ctx, f.caller, f.place.session, f.then)
	if err != nil || started != nil && started.Turn == f.run.turn { // it was taken into that run
		return false, err
	}
	f.runs = append(f.runs, f.run.id)
	f.before.usage, f.before.steps = f.before.usage.Plus(f.told.usage), f.before.steps+f.told.steps
	f.waits, f.then, f.after, f.run, f.told = f.then, 0, 0, nil, progress{}
	if started != nil {
		f.run, err = f.d.runIn(ctx, f.caller, f.place, *started)
	}
	return err == nil, err
}

// follow calls show with what the client lacks of the run, item by item, and
// idle in silence. It returns when the run has ended or waits for a person.
func (f *follower) follow(ctx context.Context, show func([]item) error, idle func() error) error {
	if err := f.await(ctx, idle); err != nil {
		return err
	}
	from, feed, err := f.newFeed(ctx)
	if err != nil {
		return err
	}
	var items []item
	for batch, err := range f.d.opt.Sessions.Watch(ctx, f.caller, f.place.session, f.start(from), nil) {
		if err != nil {
			return err
		}
		if batch.Idle {
			if err := idle(); err != nil {
				return err
			}
		}
		items = items[:0]
		for i := range batch.Entries {
			more, err := feed.take(&batch.Entries[i])
			if err != nil {
				return err
			}
			items = append(items, f.wanted(more)...)
			if feed.end != nil {
				break
			}
		}
		if len(items) > 0 {
			if err := show(items); err != nil {
				return err
			}
		}
		if f.told = feed.told(); f.told.end != nil {
			return nil
		}
	}
	return context.Cause(ctx)
}

// newFeed returns a feed for what the client lacks of the run, and where to watch
// from.
func (f *follower) newFeed(ctx context.Context) (chat.Cursor, *feed, error) {
	s := f.d.opt.Sessions
	feed := newFeed(f.run, f.form, f.tokens, f.after)
	f.equip(ctx, feed)
	// The blocks first: one that is finished meanwhile is an event that the state
	// knows. The other way round it would be neither, and be shown twice.
	var blocks []chat.Block
	if f.tokens {
		var err error
		if blocks, err = s.Blocks(ctx, f.caller, f.place.session); err != nil {
			return chat.Cursor{}, nil, err
		}
	}
	st, err := s.State(ctx, f.caller, f.place.session)
	if err != nil {
		return chat.Cursor{}, nil, err
	}
	return feed.resume(f.run.started.Seq, st, blocks), feed, nil
}

func (f *follower) start(from chat.Cursor) chat.Start {
	return chat.Start{Cursor: &from, ByPosition: true, Idle: f.d.opt.Heartbeat}
}

// wanted leaves out the kinds that the client does not want.
func (f *follower) wanted(items []item) []item {
	if f.types == nil {
		return items
	}
	return slices.DeleteFunc(slices.Clone(items), func(it item) bool { return !slices.Contains(f.types, it.kind) })
}
