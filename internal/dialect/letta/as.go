package letta

import (
	"bytes"
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
)

// As gives the messages that clients of this dialect see of an event, none when
// the protocol has no words for it. The caller has made sure that the event may
// be seen. What an agent says is shown as a stream of its run has it, a text
// whole; what people say as the lists have it, since streams do not repeat it.
func (d *Dialect) As(ctx context.Context, fact chat.Fact) (any, error) {
	e, err := fact.Event()
	if err != nil {
		return nil, err
	}
	sess, err := d.opt.Sessions.Get(ctx, chat.Trusted, e.Session)
	if err != nil {
		return nil, err
	}
	c := chat.Trusted
	c.Workspace = sess.Workspace // its agents and conversations are those of the session's workspace
	p, err := d.placeOf(ctx, c, &sess)
	if err != nil {
		return nil, err
	}
	p.form.assistant = true
	frames := []json.RawMessage{}
	if e.Workstream != mainLine {
		return frames, nil
	}
	var started *chat.Event
	if _, said := e.Body.(chat.UserMessage); said {
		started, err = d.answers(ctx, c, e.Session, e.Seq)
	} else {
		started, err = d.began(ctx, c, e.Session, e.Turn)
	}
	if err != nil {
		return nil, err
	}
	if started == nil || e.Seq < started.Seq {
		return append(frames, alone(&e, p, started)...), nil
	}
	r, err := d.runIn(ctx, c, p, *started)
	if err != nil {
		return nil, err
	}
	more, err := d.inRun(ctx, c, r, &e)
	return append(frames, more...), err
}

// alone shows an event that needs nothing of what went before: a message, or
// what was written outside of a run.
func alone(e *chat.Event, p *place, started *chat.Event) (frames []json.RawMessage) {
	fold := llm.NewFold(p.fold())
	fold.Apply(e)
	for _, m := range append(fold.Messages(), fold.Waiting()...) {
		if started != nil {
			m.RunID = llm.RunID(started.Turn)
		}
		frames = appendItems(frames, expand(&m, p.form))
	}
	return frames
}

// inRun folds a run up to an event and shows what that one adds.
func (d *Dialect) inRun(ctx context.Context, c chat.Caller, r *run, e *chat.Event) (frames []json.RawMessage, err error) {
	f := &follower{d: d, caller: c, run: r}
	feed := newFeed(r, r.form, true, 0)
	for after := r.started.Seq; after < e.Seq; {
		facts, _, err := d.opt.Sessions.Read(ctx, c, r.session, chat.Range{After: after, Limit: int(min(500, e.Seq-after)), MaxBytes: 4 << 20})
		if err != nil {
			return nil, err
		}
		if len(facts) == 0 {
			break
		}
		for _, fact := range facts {
			after = fact.Seq
			at, err := fact.Event()
			if err != nil {
				return nil, err
			}
			known := len(feed.fold.Messages())
			feed.end = nil // of a question that came before
			items, err := feed.take(&chat.Entry{Fact: fact, At: at.At})
			if err != nil {
				return nil, err
			}
			if fact.Seq != e.Seq {
				continue
			}
			if _, taken := at.Body.(chat.TurnInput); taken {
				break // the message that it takes up is shown where it was said
			}
			for _, m := range feed.fold.Messages()[known:] {
				if m.Role == llm.User || m.Role == llm.Summary || m.Role == llm.Approval && !m.IsApprovalRequest() {
					frames = appendItems(frames, expand(&m, r.form))
				}
			}
			for i := range items {
				items[i].delta = false
			}
			f.told = feed.told()
			frames = append(appendItems(frames, items), f.endFrames()...)
		}
	}
	return frames, nil
}

// endFrames are the frames that end a stream, when it ends here.
func (f *follower) endFrames() (frames []json.RawMessage) {
	end := f.told.end
	if end == nil {
		return nil
	}
	frames = append(frames, f.appendStop(nil, end.at))
	if end.failed == "" {
		return append(frames, f.appendUsage(nil, end.at+1))
	}
	_, data, _ := bytes.Cut(f.appendError(nil, "internal_error", "The run failed.", end.failed, end.at+1), []byte("data: "))
	return append(frames, bytes.TrimSpace(data))
}

func appendItems(frames []json.RawMessage, items []item) []json.RawMessage {
	for i := range items {
		frames = append(frames, items[i].append(nil))
	}
	return frames
}
