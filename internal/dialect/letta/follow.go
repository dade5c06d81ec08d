package letta

import (
	"iter"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/letta/stream"
	"github.com/parley-hq/parley/internal/turnlog"
)

// follower follows the run of one request.
type follower struct {
	*request
	conv      *conversation
	run       *run     // nil while the message waits for its turn
	message   chat.Seq // that message
	next      chat.Seq // a message that was sent with an answer; its run is followed next; 0: none
	after     chat.At  // the client has all items up to this position
	tokens    bool     // show previews
	summaries bool     // show summaries
	pings     bool
	kinds     []string // the wanted values of message_type; nil means all

	progress  stream.Progress // of the run
	earlier   stream.Progress // usage and steps of the runs before
	earlierID []string        // the ids of the runs before
}

// runID is the id of the followed run, "" while the message waits.
func (f *follower) runID() string {
	if f.run == nil {
		return ""
	}
	return f.run.ID
}

// position is the position up to which the client has all items.
func (f *follower) position() chat.At {
	switch {
	case f.progress.Last > 0:
		return max(f.after, f.progress.Last)
	case f.run != nil:
		return max(f.after, f.run.Started.At)
	}
	return f.after
}

// await waits until a turn takes up the message.
func (f *follower) await(idle func() error) error {
	if f.run != nil {
		return nil
	}
	e, err := turnlog.Await(f.ctx, f.opt.Sessions, f.caller, f.conv.session, f.message, f.opt.Heartbeat, idle)
	if err != nil {
		return err
	}
	started, err := f.turnStarted(f.conv.session, e.Turn)
	if err != nil || started == nil {
		return err
	}
	if _, ok := e.Body.(chat.TurnInput); ok {
		f.after = max(f.after, e.At)
	}
	f.run, err = f.runIn(f.conv, *started)
	return err
}

// follow calls show with the items of the run that the client lacks. It returns when the run has ended or waits for an
// answer.
func (f *follower) follow(show func([]stream.Item) error, idle func() error) error {
	if err := f.await(idle); err != nil {
		return err
	}
	st, err := f.opt.Sessions.State(f.ctx, f.caller, f.conv.session)
	if err != nil {
		return err
	}
	feed := stream.NewFeed(&f.run.Run, f.summaries, f.tokens, f.after, func(r chat.Range) iter.Seq2[chat.Event, error] {
		return f.opt.Sessions.Events(f.ctx, f.caller, f.conv.session, r)
	})
	feed.Resume(st)
	return turnlog.Read(f.ctx, f.opt.Sessions, f.caller, f.conv.session, f.run.Started.Seq, f.opt.Heartbeat, idle, func(entries []turnlog.Entry, _ bool) (bool, error) {
		items, err := feed.Take(entries)
		if err != nil {
			return false, err
		}
		f.progress = feed.Progress()
		if f.kinds != nil {
			items = slices.DeleteFunc(items, func(it stream.Item) bool { return !slices.Contains(f.kinds, it.Kind) })
		}
		if len(items) > 0 {
			err = show(items)
		}
		return f.progress.End != nil, err
	})
}

// followNext goes on with the run of the message that was sent with an answer, once the answered run has ended. It
// returns false when there is nothing more to follow.
func (f *follower) followNext() (bool, error) {
	if f.next == 0 || f.progress.End.Failed != "" {
		return false, nil
	}
	end, err := f.completed(f.run)
	if err != nil || end == nil { // the run waits for another answer
		return false, err
	}
	started, err := f.turnOfMessage(f.conv.session, f.next)
	if err != nil || started != nil && started.Turn == f.run.Turn { // the answered run took up the message
		return false, err
	}
	f.earlierID = append(f.earlierID, f.run.ID)
	f.earlier.Usage, f.earlier.Steps = f.earlier.Usage.Plus(f.progress.Usage), f.earlier.Steps+f.progress.Steps
	f.message, f.next, f.after, f.run, f.progress = f.next, 0, 0, nil, stream.Progress{}
	if started != nil {
		f.run, err = f.runIn(f.conv, *started)
	}
	return err == nil, err
}
