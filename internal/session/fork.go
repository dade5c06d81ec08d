package session

import (
	"bytes"
	"context"
	"iter"

	"github.com/parley-hq/parley/chat"
)

// Fork begins a session that shares another one's past, up to an event, and goes
// its own way from there. It is a copy: erasing one leaves the other whole. What
// was under way at that event is ended in the fork; a message that waited there
// is answered anew. A caller that may see a session may fork it, and owns the fork.
func (s *Sessions) Fork(ctx context.Context, c chat.Caller, id chat.SessionID, f chat.Fork) (chat.Session, error) {
	if !c.Has(chat.ScopeUser) && !c.Has(chat.ScopeAgent) {
		return chat.Session{}, chat.Errorf(chat.Denied, "beginning a session needs the scope user or agent")
	}
	from, err := s.visible(ctx, c, id)
	if err != nil {
		return chat.Session{}, err
	}
	if from.ID.System() {
		return chat.Session{}, chat.Errorf(chat.Denied, "this session is the server's own and cannot be forked")
	}
	if f.After == 0 {
		f.After = from.Last
	}
	if f.After > from.Last {
		return chat.Session{}, chat.Errorf(chat.Invalid, "after is %d, but the session has only %d events", f.After, from.Last).With("last", from.Last)
	}
	if f.Metadata, err = compact(f.Metadata); err != nil {
		return chat.Session{}, err
	}
	// It becomes an event of the fork, after all of the past: see that it fits.
	change := chat.NewDraft(changeOf(f, f.Title, chat.Settings{}))
	if err := change.Settle(); err != nil {
		return chat.Session{}, err
	}
	if err := s.mayOwnMore(ctx, c); err != nil {
		return chat.Session{}, err
	}
	size, err := s.log.SizeOf(ctx, from.ID)
	if err == nil {
		err = s.mayStore(ctx, c, c.In(), c.Actor, size)
	}
	if err != nil {
		return chat.Session{}, err
	}
	if f.ID, err = s.nameFork(ctx, c, f.ID); err != nil {
		return chat.Session{}, err
	}
	r := s.acquire(f.ID)
	defer r.release()
	err = r.do(ctx, &request{exclusive: func(ctx context.Context, r *sequencer) error { return s.fork(ctx, c, r, &from, f) }})
	if err != nil {
		return chat.Session{}, err
	}
	fork, err := s.log.Record(ctx, f.ID)
	if err == nil {
		s.owners.add(&fork, 1)
	}
	return fork, err
}

// nameFork returns the id that a fork gets. One that is taken by a session the
// caller may not see counts as free, as with Create.
func (s *Sessions) nameFork(ctx context.Context, c chat.Caller, wanted chat.SessionID) (chat.SessionID, error) {
	if wanted == "" {
		return s.NewID(), nil
	}
	if err := wanted.Validate(); err != nil {
		return "", err
	}
	id, aliased, err := s.resolve(ctx, c, wanted)
	if err != nil {
		return "", err
	}
	sess, err := s.log.Record(ctx, id)
	switch code := chat.CodeOf(err); {
	case err == nil && c.RoleIn(&sess) != "":
		return "", errTaken(wanted)
	case code == chat.NotFound && (aliased || !wanted.System()):
		return id, nil
	case code == chat.NotFound, err == nil:
		return s.setAlias(ctx, c, wanted)
	}
	return "", err
}

func errTaken(id chat.SessionID) error {
	return chat.Errorf(chat.Conflict, "there is a session %q already; choose another id, or leave it out", string(id)).With("session_id", id)
}

// fork writes the log of the fork, with the sequencer of the new session for itself.
func (s *Sessions) fork(ctx context.Context, c chat.Caller, r *sequencer, from *chat.Session, f chat.Fork) error {
	n, taken, err := s.log.Number(ctx, r.id)
	if err != nil {
		return err
	}
	if taken {
		return errTaken(r.id)
	}
	old, _, err := s.log.Number(ctx, from.ID)
	if err != nil {
		return err
	}
	k := &forking{sessions: s, order: r, caller: c, from: from, wish: f, old: old, state: &chat.State{Number: n}}
	write := func() error { return s.log.Import(ctx, r.id, k.facts(ctx)) }
	if s.opt.Artifacts != nil {
		// Before the fork is visible, so that every file name has its bytes.
		err = s.opt.Artifacts.CopySession(ctx, from.ID, r.id, func() error {
			if err := write(); err != nil {
				return err
			}
			if err := s.countFiles(ctx, r.id); err != nil {
				// The fork is stored; only its files are not counted.
				s.opt.Logger.WarnContext(ctx, "the files of a fork could not be counted", "session", r.id, "err", err)
			}
			return nil
		})
	} else {
		err = write()
	}
	if err != nil {
		return err
	}
	s.tellCommitted(r.id, k.added)
	return nil
}

// forking is a Fork under way.
type forking struct {
	sessions *Sessions
	order    *sequencer
	caller   chat.Caller
	from     *chat.Session
	wish     chat.Fork
	old      chat.Number
	state    *chat.State  // of the fork, so far
	added    []chat.Event // what stands only in the fork
}

// facts gives the log of the fork: the past under its new name, and what ends
// what was under way.
func (k *forking) facts(ctx context.Context) iter.Seq2[chat.Fact, error] {
	return func(yield func(chat.Fact, error) bool) {
		after := chat.Seq(0)
		for f, err := range k.sessions.stored(ctx, k.from.ID, chat.Range{Before: k.wish.After + 1}) {
			if err == nil {
				f, err = k.rename(&f)
			}
			if !yield(f, err) || err != nil {
				return
			}
			after = f.Seq
		}
		if after < k.wish.After {
			yield(chat.Fact{}, chat.Errorf(chat.Gone, "the session was erased while it was forked"))
			return
		}
		d := k.settle()
		for i := range d.facts {
			if !yield(d.facts[i], nil) {
				return
			}
		}
		k.added = d.events
	}
}

// rename makes an event of the past one of the fork.
func (k *forking) rename(fact *chat.Fact) (chat.Fact, error) {
	e, err := fact.Event()
	if err != nil {
		return chat.Fact{}, err
	}
	st := k.state
	e.Session, e.Prev = k.order.id, st.Head
	e.ID = chat.EventID(chat.MakeID(st.Number, e.Seq).Text(chat.EventPrefix))
	e.Turn = chat.TurnID(k.id(chat.TurnPrefix, string(e.Turn)))
	e.Parent = chat.EventID(k.id(chat.EventPrefix, string(e.Parent)))
	if b, ok := e.Body.(chat.SessionStarted); ok && e.Seq == 1 {
		b.Workspace, b.Members, b.ForkedOf, b.ForkedAt = k.caller.In(), nil, k.from.ID, k.wish.After
		b.Parent, b.Grant, b.ServedBy = "", "", "" // a fork is no child
		d := chat.NewDraft(b)
		if err := d.Settle(); err != nil {
			return chat.Fact{}, err
		}
		e.Actor, e.Payload, e.Body, e.ClientID = k.caller.Actor, d.Payload, b, ""
	} else {
		e.Payload = k.payload(e.Payload)
		if e.Body, err = chat.DecodeBody(e.Type, e.Payload); err != nil {
			return chat.Fact{}, err
		}
	}
	out := chat.Fact{Seq: e.Seq, JSON: e.AppendJSON(nil)}
	st.Apply(&e)
	st.Head = out.Hash()
	return out, nil
}

// named are the fields of payloads that hold an id of the session, and how such
// an id begins.
var named = []struct{ field, prefix string }{
	{`"turn_id":"`, chat.TurnPrefix}, {`"request_id":"`, chat.PromptPrefix}, {`"launch_id":"`, chat.LaunchPrefix},
}

// payload replaces ids that name something in the old session. A payload is
// compact, and a quote inside a text is escaped, so a field is found by its
// bytes; what is not known to this version stays as it is.
func (k *forking) payload(p []byte) []byte {
	for _, n := range named {
		for at := 0; ; {
			i := bytes.Index(p[at:], []byte(n.field))
			if i < 0 {
				break
			}
			at += i + len(n.field)
			end := bytes.IndexByte(p[at:], '"')
			if end < 0 {
				break
			}
			was := string(p[at : at+end])
			if is := k.id(n.prefix, was); is != was {
				p = bytes.Join([][]byte{p[:at], []byte(is), p[at+end:]}, nil)
				end = len(is)
			}
			at += end
		}
	}
	return p
}

// id returns what an id of the old session is in the fork; other ids stay.
func (k *forking) id(prefix, s string) string {
	id, ok := chat.ParseID(prefix, s)
	if !ok {
		return s
	}
	if n, seq, ok := id.Parts(); ok && n == k.old {
		return chat.MakeID(k.state.Number, seq).Text(prefix)
	}
	return s
}

// settle ends in the fork what was under way, and lets what waits be answered.
func (k *forking) settle() *decision {
	d := &decision{session: k.order.id, state: k.state, now: k.sessions.now(), lastAt: k.state.LastAt, maxQueue: k.sessions.opt.MaxQueue}
	for {
		line, t := k.running()
		if t == nil {
			break
		}
		d.closeTurn(t, line, chat.Interrupted, "the session was forked here")
	}
	d.closePrompts(func(*chat.Prompt) bool { return true })
	for _, w := range k.state.Workstreams {
		if w := k.state.Workstream(w.ID); !w.Ended() {
			d.withdrawQueued(w.ID)
			d.addSystem(chat.WorkstreamCanceled{ID: w.ID, Reason: "the session was forked here"}, w.Parent, "")
		}
	}
	title := k.wish.Title
	if title == "" {
		title = k.state.Session.Title
	}
	change := changeOf(k.wish, title, k.state.Session.Settings)
	change.Detached = k.state.Session.ServedBy != ""
	if len(k.state.Session.Members) > 0 {
		// The members of the original are not members of the fork.
		change.Members = &[]chat.Member{}
	}
	d.addAs(k.caller.Actor, change, "", "")
	d.advance("")
	return d
}

// changeOf is what a fork has of its own.
func changeOf(f chat.Fork, title string, settings chat.Settings) chat.SessionUpdated {
	change := chat.SessionUpdated{Title: &title, Metadata: f.Metadata}
	if settings.Approvals != "" {
		// Approvals of the original do not hold in the fork.
		settings.Approvals = ""
		change.Settings = &settings
	}
	if f.Agent != "" {
		change.Agent = &f.Agent
	}
	return change
}

func (k *forking) running() (string, *chat.Turn) {
	for name, l := range k.state.Lines {
		if l.Turn != nil {
			return name, l.Turn
		}
	}
	return "", nil
}
