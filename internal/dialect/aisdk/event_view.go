package aisdk

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/pages"
	"github.com/parley-hq/parley/internal/turnlog"
)

// As returns an event as pages see it: a list of chunks, or the message of a person. The list is empty when pages see nothing of
// the event. The caller has checked access to the event.
func (d *Dialect) As(ctx context.Context, fact chat.Fact) (any, error) {
	out := []json.RawMessage{}
	e, err := fact.Event()
	if err != nil {
		return out, err
	}
	if b, ok := e.Body.(chat.UserMessage); ok && e.Workstream == mainLine {
		l := &listing{users: map[chat.Seq]*uiMessage{}}
		l.user(&e, userParts(e.Session, b))
		return append(out, pages.Marshal(l.messages[0])), nil
	}
	r, err := d.upTo(ctx, &e)
	if err != nil {
		return nil, err
	}
	if _, ok := e.Body.(chat.TurnStarted); ok && e.Workstream == mainLine {
		out = append(out, pages.Marshal(r.start(0)))
	}
	for _, s := range r.added {
		for i := range s.chunks {
			out = append(out, pages.Marshal(s.chunks[i]))
		}
		if s.asks {
			out = append(out, pages.Marshal(chunk{Type: chunkFinish, Finish: finishTools}))
		}
	}
	return out, nil
}

// upTo returns a run that has taken the turn of the main line in which pages see an event, up to that event. Events of
// workstreams and of other clients do not name that turn.
func (d *Dialect) upTo(ctx context.Context, e *chat.Event) (*run, error) {
	r := newRun(false)
	begin, err := turnlog.Last(ctx, d.Sessions, chat.Trusted, e.Session, e.Seq)
	if err != nil {
		return nil, err
	}
	if begin != nil {
		for before, err := range d.Sessions.Events(ctx, chat.Trusted, e.Session, chat.Range{After: begin.Seq - 1, Before: e.Seq}) {
			if err != nil {
				return nil, err
			}
			r.event(&before)
		}
	}
	if begin == nil || r.ended { // outside of a turn, what comes before the event does not matter
		r = newRun(false)
		r.turn, r.session = e.Turn, e.Session
	}
	r.event(e)
	return r, nil
}
