package session

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
)

// OtherNodes reaches the sessions that other nodes of a cluster own. The owner of a session decides all its events; other nodes
// send it their calls.
type OtherNodes interface {
	// Owns reports whether this node owns the session.
	Owns(id chat.SessionID) bool
	// CatchUp waits until this node has stored what the owner of the session with a number had stored at the time of the call, but
	// not for long. It returns false if it takes too long: this node is behind, or cut off from the others. An owner that is cut off may
	// have been replaced by another node. Callers that wait for the same owner share one question to it.
	CatchUp(ctx context.Context, n chat.Number) bool
	// CatchUpAlias is CatchUp for an alias.
	CatchUpAlias(ctx context.Context, workspace, actorKey, foreign string) bool
	// ReadLog waits until this node has stored what the log of the session had at the time of the call, but not for long. It
	// returns false if it takes too long.
	ReadLog(ctx context.Context, id chat.SessionID) bool
	// CatchUpText is CatchUp for a session, with the text that is being written.
	CatchUpText(ctx context.Context, id chat.SessionID) bool
	// Send sends a call to the owner. Calls about one session arrive in the order of Send as long as it has the same owner.
	// wait returns the answer of Serve there, once this node has stored what the answer is about.
	// repeat says that the call may be sent again when it is not known whether the owner has handled it.
	Send(ctx context.Context, id chat.SessionID, call []byte, repeat bool) (wait func() (answer []byte, err error))
	// Erased asks the other nodes, after this one has removed an erased session, and adds to the receipt which of them have
	// removed it.
	Erased(ctx context.Context, r *chat.Receipt)
}

// Serve handles a call of another node, which has waited there for an owner. It returns when the call has its place in the session's
// order; wait returns the answer. The error has the reason OwnerChanged if this node does not own the session any more; nothing was
// written then.
func (s *Sessions) Serve(ctx context.Context, b []byte, waited time.Duration) (wait func() (answer []byte, err error)) {
	q := &call{waited: waited}
	if err := json.Unmarshal(b, q); err != nil {
		err = chat.Errorf(chat.Internal, "the call of another node cannot be read; do all nodes run the same version?").Because(err)
		return func() ([]byte, error) { return json.Marshal(encodeError(err)) }
	}
	get := s.beginCall(context.WithValue(ctx, servedKey{}, true), q)
	return func() ([]byte, error) {
		res, err := get()
		if chat.ReasonOf(err) == chat.OwnerChanged {
			return nil, err
		}
		if err != nil {
			res = encodeError(err)
		}
		return json.Marshal(res)
	}
}

// beginCall begins a call of another node. Appends and previews get their place in the session's order now.
func (s *Sessions) beginCall(ctx context.Context, q *call) (get func() (*callResult, error)) {
	failed := func(err error) func() (*callResult, error) { return func() (*callResult, error) { return nil, err } }
	if !s.opt.OtherNodes.Owns(q.Session) {
		return failed(ErrOwnerChanged)
	}
	switch q.Method {
	case callAppend:
		a, err := s.join(ctx, q.Caller, q.Session, drafts(q.Drafts), !q.Free, nil)
		if err != nil {
			return failed(err)
		}
		return func() (*callResult, error) {
			events, err := a.finish(ctx)
			return &callResult{Sequences: sequences(events)}, err
		}
	case callPreview:
		wait, err := s.PreviewLater(ctx, q.Caller, q.Session, pieces(q.Pieces))
		if err != nil {
			return failed(err)
		}
		return func() (*callResult, error) { return &callResult{}, wait() }
	}
	handle := handlers[q.Method]
	if handle == nil {
		return failed(chat.Errorf(chat.Internal, "another node sent the call %q, which this version does not know", q.Method))
	}
	return func() (*callResult, error) { return handle(ctx, s, q) }
}

// ErrOwnerChanged is the error of a call at a node that does not own the session any more.
var ErrOwnerChanged = chat.Errorf(chat.Unavailable, "another node has taken the session over; try again").WithReason(chat.OwnerChanged)

// ErrBehind is the error for a session, event or file that this node does not have, while it cannot ask the node that may have it.
var ErrBehind = chat.Errorf(chat.Unavailable, "this node may be behind and cannot reach the node that decides about this session; try again in a few seconds")

// servedKey marks the context of a call of another node. Such a call is not sent on.
type servedKey struct{}

// asksOthers reports whether a call may have to ask other nodes.
func (s *Sessions) asksOthers(ctx context.Context) bool {
	return s.opt.OtherNodes != nil && ctx.Value(servedKey{}) == nil
}

// elsewhere reports whether a call has to be sent to another node.
func (s *Sessions) elsewhere(ctx context.Context, id chat.SessionID) bool {
	return s.asksOthers(ctx) && !s.opt.OtherNodes.Owns(id)
}

// moved reports whether a call failed here because another node has become the owner, and has to be sent to that node.
func (s *Sessions) moved(ctx context.Context, err error) bool {
	return s.asksOthers(ctx) && chat.ReasonOf(err) == chat.OwnerChanged
}

// owns reports whether this node decides about a session.
func (s *Sessions) owns(id chat.SessionID) bool {
	return s.opt.OtherNodes == nil || s.opt.OtherNodes.Owns(id)
}

// call handles q here, or sends it to the node that owns the session.
func (s *Sessions) call(ctx context.Context, q *call) (*callResult, error) {
	if !s.elsewhere(ctx, q.Session) {
		res, err := handlers[q.Method](ctx, s, q)
		if !s.moved(ctx, err) {
			return res, err
		}
	}
	return s.send(ctx, q)()
}

// send sends a call to the node that owns the session.
func (s *Sessions) send(ctx context.Context, q *call) (wait func() (*callResult, error)) {
	get := s.sendOnce(ctx, q)
	return func() (*callResult, error) {
		res, err := get()
		if !isNoSession(err) {
			return res, err
		}
		// The node that has answered may have been replaced by another one, and not know it yet.
		caught := s.opt.OtherNodes.CatchUp(ctx, core.NumberFor(q.Session, 0))
		switch _, here := s.visibleHere(ctx, q.Caller, q.Session); {
		case here == nil:
			return s.sendOnce(ctx, q)()
		case !caught:
			return nil, ErrBehind
		}
		return res, err
	}
}

func (s *Sessions) sendOnce(ctx context.Context, q *call) (wait func() (*callResult, error)) {
	b, err := json.Marshal(q)
	if err != nil {
		return func() (*callResult, error) { return nil, err }
	}
	get := s.opt.OtherNodes.Send(ctx, q.Session, b, q.repeatable())
	return func() (*callResult, error) {
		b, err := get()
		if err != nil {
			return nil, err
		}
		res := &callResult{}
		if err := json.Unmarshal(b, res); err != nil {
			return nil, chat.Errorf(chat.Internal, "the answer of another node cannot be read").Because(err)
		}
		return res, res.Error.decode()
	}
}

// sendAppend sends drafts to the node that owns the session. The events are read from this node's own copy.
func (s *Sessions) sendAppend(ctx context.Context, c chat.Caller, id chat.SessionID, list []chat.Draft, free bool) (wait func() ([]chat.Event, error), err error) {
	q := &call{Method: callAppend, Session: id, Caller: c, Free: free, Drafts: make([]sentDraft, len(list))}
	for i := range list {
		if err := list[i].Normalize(); err != nil {
			return nil, at(i, len(list), err)
		}
		q.Drafts[i] = sendable(&list[i])
	}
	get := s.send(ctx, q)
	return func() ([]chat.Event, error) {
		res, err := get()
		if err != nil {
			return nil, err
		}
		return s.eventsAt(ctx, id, res.Sequences)
	}, nil
}

// eventsAt reads events from the store.
func (s *Sessions) eventsAt(ctx context.Context, id chat.SessionID, list []chat.Seq) ([]chat.Event, error) {
	events := make([]chat.Event, len(list))
	for i, seq := range list {
		var err error
		if events[i], err = s.event(ctx, id, seq); err != nil {
			return nil, err
		}
	}
	return events, nil
}

func sequences(events []chat.Event) []chat.Seq {
	list := make([]chat.Seq, len(events))
	for i := range events {
		list[i] = events[i].Seq
	}
	return list
}

// encodeError returns the result with an error.
func encodeError(err error) *callResult {
	if foreign, ok := errors.AsType[errForeign](err); ok {
		return &callResult{Error: &sentError{Foreign: true, Seen: foreign.seen}}
	}
	e := chat.Public(err)
	sent := &sentError{Code: e.Code, Reason: e.Reason, Text: e.Msg, Details: map[string]json.RawMessage{}, Missing: isNoSession(err)}
	for name, v := range e.Details {
		if b, err := json.Marshal(v); err == nil {
			sent.Details[name] = b
		}
	}
	return &callResult{Error: sent}
}

// decode returns the error that encodeError was given.
func (e *sentError) decode() error {
	switch {
	case e == nil:
		return nil
	case e.Foreign:
		return errForeign{seen: e.Seen}
	}
	out := &chat.Error{Code: e.Code, Reason: e.Reason, Msg: e.Text}
	for name, b := range e.Details {
		out = out.With(name, decodeDetail(name, b))
	}
	if e.Missing {
		return noSession{out}
	}
	return out
}

// decodeDetail decodes a detail of an error. Values that would be encoded in another way than the owner encodes them, such as
// objects with the order of their fields, stay encoded: clients get the same bytes from all nodes.
func decodeDetail(name string, b json.RawMessage) any {
	var v any
	if json.Unmarshal(b, &v) != nil {
		return b
	}
	n, number := v.(float64)
	switch again, err := json.Marshal(v); {
	case number && name == "sequence":
		return chat.Seq(n)
	case number && n == float64(int(n)):
		return int(n)
	case err == nil && bytes.Equal(again, b):
		return v
	}
	return b
}
