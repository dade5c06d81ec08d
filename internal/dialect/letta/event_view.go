package letta

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/letta/stream"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/turnlog"
)

// As returns an event as clients of this dialect see it: a list of frames, empty when the API shows nothing of the event.
// The caller has checked access to the event. Events of an agent are shown as in a stream of the run; messages of people
// as in lists, because streams do not repeat them.
func (d *Dialect) As(ctx context.Context, fact chat.Fact) (any, error) {
	frames := []any{}
	e, err := fact.Event()
	if err != nil || e.Workstream != mainLine {
		return frames, err
	}
	c := chat.Trusted
	sess, err := d.opt.Sessions.Get(ctx, c, e.Session)
	if err != nil {
		return nil, err
	}
	c.Workspace = sess.Workspace // to find the records of the session's workspace
	q, err := d.request(ctx, c)
	if err != nil {
		return nil, err
	}
	cv := q.conversationOf(&sess)
	var started *chat.Event
	if _, ok := e.Body.(chat.UserMessage); ok {
		started, err = q.turnOfMessage(e.Session, e.Seq)
	} else {
		started, err = q.turnStarted(e.Session, e.Turn)
	}
	if err != nil {
		return nil, err
	}
	if started != nil && e.Seq >= started.Seq {
		return q.framesInRun(cv, *started, &e)
	}
	// A message, or an event outside of a run: the events before it do not matter.
	fold := llm.NewFold(cv.fold())
	fold.Apply(&e)
	for _, m := range append(fold.Messages(), fold.Waiting()...) {
		if started != nil {
			m.RunID = llm.RunID(started.Turn)
		}
		frames = appendItems(frames, stream.Expand(&m, false))
	}
	return frames, nil
}

// framesInRun feeds a run up to an event and returns the frames of that event.
func (q *request) framesInRun(cv *conversation, started chat.Event, e *chat.Event) (any, error) {
	frames := []any{}
	r, err := q.runIn(cv, started)
	if err != nil {
		return nil, err
	}
	f := &follower{request: q, conv: cv, run: r}
	feed := stream.NewFeed(&r.Run, false, true, 0, nil)
	for ev, err := range q.opt.Sessions.Events(q.ctx, q.caller, r.session, chat.Range{After: started.Seq, Before: e.Seq + 1}) {
		if err != nil {
			return nil, err
		}
		known := len(feed.Messages())
		feed.Continue() // after a question
		items, err := feed.Take([]turnlog.Entry{{At: ev.At, Event: &ev}})
		if err != nil {
			return nil, err
		}
		if _, taken := e.Body.(chat.TurnInput); ev.Seq != e.Seq || taken { // a taken message is shown at its own event
			continue
		}
		for _, m := range feed.Messages()[known:] {
			if m.Role == llm.User || m.Role == llm.Summary || m.Role == llm.Approval && !m.IsApprovalRequest() {
				frames = appendItems(frames, stream.Expand(&m, false))
			}
		}
		for i := range items {
			items[i].Delta = false
		}
		frames = appendItems(frames, items)
		if f.progress = feed.Progress(); f.progress.End != nil {
			frames = append(frames, f.endFrames()...)
		}
	}
	return frames, nil
}

func appendItems(frames []any, items []stream.Item) []any {
	for i := range items {
		it := items[i] // the feed uses its items again
		frames = append(frames, &it)
	}
	return frames
}
