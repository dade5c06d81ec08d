package session

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"maps"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/attachment"
	"github.com/parley-hq/parley/internal/core"
)

// Fork creates a session with a copy of another session's events, up to the event
// f.After. The two sessions are independent: erasing one does not change the other.
// In the fork, running turns, open prompts and workstreams are ended; a message that
// was queued at f.After starts a new turn, unless f.Message takes its place. Any caller that may see a session may fork
// it, and the caller owns the fork.
func (s *Sessions) Fork(ctx context.Context, c chat.Caller, id chat.SessionID, f chat.Fork) (chat.Session, error) {
	if !c.Has(chat.ScopeUser) && !c.Has(chat.ScopeAgent) {
		return chat.Session{}, chat.Errorf(chat.Denied, "creating a session needs the scope user or agent")
	}
	from, err := s.visible(ctx, c, id)
	if err != nil {
		return chat.Session{}, err
	}
	if from.ID.System() {
		return chat.Session{}, chat.Errorf(chat.Denied, "a system session cannot be forked")
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
	// The fork's own title, metadata and agent become an event after the copied ones.
	// Validate it now, before anything is written.
	change := chat.NewDraft(changeOf(f, f.Title, chat.Settings{}))
	if err := change.Normalize(); err != nil {
		return chat.Session{}, err
	}
	if f.Settings != nil {
		if err := mayChoose(c, chat.Settings{}, *f.Settings); err != nil {
			return chat.Session{}, err
		}
	}
	message, files, err := s.firstMessage(f.Message)
	if err != nil {
		return chat.Session{}, err
	}
	written := size(message)
	for _, file := range files {
		written += len(file.Data)
	}
	if err := s.countWritten(c, written); err != nil {
		return chat.Session{}, err
	}
	if err := s.mayOwnMore(ctx, c); err != nil {
		return chat.Session{}, err
	}
	copied, err := s.log.SizeOf(ctx, from.ID)
	if err == nil {
		err = s.mayStore(ctx, c, c.In(), c.Actor, copied+int64(written))
	}
	if err != nil {
		return chat.Session{}, err
	}
	if f.ID, err = s.nameFork(ctx, c, f.ID); err != nil {
		return chat.Session{}, err
	}
	r := s.acquire(f.ID)
	defer r.release()
	err = r.do(ctx, &request{exclusive: func(ctx context.Context, r *sequencer) error { return s.fork(ctx, c, r, &from, f, message, files) }})
	if err != nil {
		return chat.Session{}, err
	}
	fork, err := s.log.Record(ctx, f.ID)
	if err == nil && s.opt.OtherNodes == nil {
		s.owners.add(&fork, 1)
	}
	return fork, err
}

// firstMessage returns the draft of the message that a fork begins with, if there is
// one, and its large data as files.
func (s *Sessions) firstMessage(m *chat.UserMessage) ([]chat.Draft, []attachment.File, error) {
	if m == nil {
		return nil, nil, nil
	}
	d := chat.NewDraft(*m)
	err := d.Normalize()
	if err != nil || s.opt.Artifacts == nil || len(d.Payload) <= attachment.MaxInline {
		return []chat.Draft{d}, nil, err
	}
	payload, files, err := partRefs(*m, &d)
	if err == nil && len(files) > 0 {
		d, err = d.Rewritten(payload)
	}
	return []chat.Draft{d}, files, err
}

// nameFork returns the id of a new fork. If the wanted id belongs to a session that
// the caller may not see, the fork gets another id and the wanted one becomes the
// caller's alias for it, as with Create.
func (s *Sessions) nameFork(ctx context.Context, c chat.Caller, wanted chat.SessionID) (chat.SessionID, error) {
	if wanted == "" {
		return s.newID(), nil
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

// fork writes the log of the fork. It runs exclusively in the new session's sequencer.
func (s *Sessions) fork(ctx context.Context, c chat.Caller, r *sequencer, from *chat.Session, f chat.Fork, message []chat.Draft, files []attachment.File) error {
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
	k := &forking{sessions: s, order: r, caller: c, from: from, params: f, message: message, old: old, state: &chat.State{Number: n}}
	write := func() error { return s.log.Import(ctx, r.id, k.facts(ctx)) }
	if s.opt.Artifacts != nil {
		// Copy the files before the fork is visible, so that every path in its events
		// can be read.
		added := make([]core.FilePut, len(files))
		for i, f := range files {
			added[i] = core.FilePut{Path: f.Path, MediaType: f.MediaType, Body: bytes.NewReader(f.Data)}
		}
		err = s.opt.Artifacts.CopySession(ctx, from.ID, r.id, added, func() error {
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
	if s.opt.OtherNodes == nil {
		s.tellCommitted(r.id, k.added)
	}
	return nil
}

// forking holds the state of one Fork call.
type forking struct {
	sessions *Sessions
	order    *sequencer
	caller   chat.Caller
	from     *chat.Session
	params   chat.Fork
	message  []chat.Draft // that the fork begins with, at most one
	old      chat.Number  // the number of the original session
	state    *chat.State  // of the fork, after the events written so far
	added    []chat.Event // events that the original does not have
}

// facts returns the log of the fork: the copied events with the ids of the fork,
// then the events that end the open turns, prompts and workstreams, then the message.
func (k *forking) facts(ctx context.Context) iter.Seq2[chat.Fact, error] {
	return func(yield func(chat.Fact, error) bool) {
		after := chat.Seq(0)
		for f, err := range k.sessions.stored(ctx, k.from.ID, chat.Range{Before: k.params.After + 1}) {
			if err == nil {
				f, err = k.rewrite(&f)
			}
			if !yield(f, err) || err != nil {
				return
			}
			after = f.Seq
		}
		if after < k.params.After {
			yield(chat.Fact{}, chat.Errorf(chat.Gone, "the session was erased while it was forked"))
			return
		}
		d := k.endOpenWork()
		for _, message := range k.message {
			d.withdrawQueued("")
			if _, err := d.draft(k.caller, message); err != nil {
				yield(chat.Fact{}, err)
				return
			}
		}
		d.advance("")
		for i := range d.facts {
			if !yield(d.facts[i], nil) {
				return
			}
		}
		k.added = d.events
	}
}

// rewrite changes an event of the original into an event of the fork.
func (k *forking) rewrite(fact *chat.Fact) (chat.Fact, error) {
	e, err := fact.Event()
	if err != nil {
		return chat.Fact{}, err
	}
	st := k.state
	e.Session, e.Prev = k.order.id, st.Head
	e.ID = chat.EventID(chat.MakeID(st.Number, e.Seq).Text(chat.EventPrefix))
	e.Turn = chat.TurnID(k.mapID(chat.TurnPrefix, string(e.Turn)))
	e.Parent = chat.EventID(k.mapID(chat.EventPrefix, string(e.Parent)))
	if b, ok := e.Body.(chat.SessionStarted); ok && e.Seq == 1 {
		b.Workspace, b.Members, b.ForkedOf, b.ForkedAt = k.caller.In(), nil, k.from.ID, k.params.After
		b.Parent, b.Grant, b.ServedBy = "", "", "" // a fork has no parent session and no sidecar
		d := chat.NewDraft(b)
		if err := d.Normalize(); err != nil {
			return chat.Fact{}, err
		}
		e.Actor, e.Payload, e.Body, e.ClientID = k.caller.Actor, d.Payload, b, ""
	} else {
		e.Payload = k.rewritePayload(e.Payload)
		if e.Body, err = chat.DecodeBody(e.Type, e.Payload); err != nil {
			return chat.Fact{}, err
		}
	}
	out := chat.Fact{Seq: e.Seq, JSON: e.AppendJSON(nil)}
	st.Apply(&e)
	st.Head = out.Hash()
	return out, nil
}

// idFields lists the payload fields that hold an id issued by the session, with the
// prefix of such an id.
var idFields = []struct{ field, prefix string }{
	{`"turn_id":"`, chat.TurnPrefix}, {`"request_id":"`, chat.PromptPrefix}, {`"launch_id":"`, chat.LaunchPrefix},
}

// rewritePayload replaces ids of the original session by ids of the fork. A payload
// is compact JSON, and quotes inside strings are escaped, so a field can be found by
// its bytes. Fields that this version does not know stay unchanged.
func (k *forking) rewritePayload(p []byte) []byte {
	for _, n := range idFields {
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
			oldID := string(p[at : at+end])
			if newID := k.mapID(n.prefix, oldID); newID != oldID {
				p = bytes.Join([][]byte{p[:at], []byte(newID), p[at+end:]}, nil)
				end = len(newID)
			}
			at += end
		}
	}
	return p
}

// mapID returns the fork's id for an id of the original session. Other ids are
// returned unchanged.
func (k *forking) mapID(prefix, s string) string {
	id, ok := chat.ParseID(prefix, s)
	if !ok {
		return s
	}
	if n, seq, ok := id.Parts(); ok && n == k.old {
		return chat.MakeID(k.state.Number, seq).Text(prefix)
	}
	return s
}

// endOpenWork ends the running turns, open prompts and workstreams of the fork, applies
// the changes of the Fork call.
func (k *forking) endOpenWork() *decision {
	d := &decision{session: k.order.id, state: k.state, now: k.sessions.now(), lastAt: k.state.LastAt, maxQueue: k.sessions.opt.MaxQueue}
	for line, l := range maps.Clone(k.state.Lines) {
		if l.Turn != nil {
			d.closeTurn(l.Turn, line, chat.Interrupted, "the session was forked here")
		}
	}
	d.closePrompts(func(*chat.Prompt) bool { return true })
	for _, w := range k.state.Workstreams {
		if w := k.state.Workstream(w.ID); !w.Ended() {
			d.withdrawQueued(w.ID)
			d.addSystem(chat.WorkstreamCanceled{ID: w.ID, Reason: "the session was forked here"}, w.Parent, "")
		}
	}
	title := k.params.Title
	if k.params.Message == nil {
		title = cmp.Or(title, k.state.Session.Title)
	}
	change := changeOf(k.params, title, k.state.Session.Settings)
	change.Detached = k.state.Session.ServedBy != ""
	if len(k.state.Session.Members) > 0 {
		// The members of the original do not become members of the fork.
		change.Members = &[]chat.Member{}
	}
	if k.state.Session.Archived {
		change.Archived = new(bool)
	}
	d.addAs(k.caller.Actor, change, "", "")
	return d
}

// changeOf returns the update that gives a fork its own title, metadata, agent and
// settings.
func changeOf(f chat.Fork, title string, settings chat.Settings) chat.SessionUpdated {
	change := chat.SessionUpdated{Title: &title, Metadata: f.Metadata}
	if f.Settings != nil {
		change.Settings = f.Settings
	} else if settings.Approvals != "" {
		// Automatic approval in the original does not apply to the fork.
		settings.Approvals = ""
		change.Settings = &settings
	}
	if f.Agent != "" {
		change.Agent = &f.Agent
	}
	return change
}
