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
	r := newRun(false)
	from := turnlog.Number(e.Turn)
	if e.Workstream != mainLine || from == 0 || from > e.Seq {
		r.turn, r.session = e.Turn, e.Session // outside of a turn of the main line, what comes before it does not matter
		r.event(&e)
	} else {
		for before, err := range d.Sessions.Events(ctx, chat.Trusted, e.Session, chat.Range{After: from - 1, Before: e.Seq + 1}) {
			if err != nil {
				return nil, err
			}
			r.event(&before)
		}
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
