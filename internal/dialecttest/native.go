package dialecttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/sleep"
)

// native is a client of the native dialect: package client.
type native struct {
	opt  Options
	c    *client.Client
	last chat.Seq // it has all events up to here
}

func newNative(opt Options) (*native, error) {
	c, err := client.New(client.Options{URL: strings.Join(opt.URLs, ","), Retries: 1000, Backoff: client.Backoff{Min: 20 * time.Millisecond, Max: 200 * time.Millisecond}})
	return &native{opt: opt, c: c}, err
}

func (n *native) Close() { n.c.Close() }

func (n *native) Say(ctx context.Context, key, text string) (Seen, error) {
	n.opt.Progress()
	if _, err := n.c.Send(ctx, chat.SessionID(n.opt.Session), chat.UserMessage{Text: text}, key); err != nil {
		return Seen{}, err
	}
	return n.follow(ctx)
}

func (n *native) Join(ctx context.Context, _ string) (Seen, error) { return n.follow(ctx) }

func (n *native) Rest(ctx context.Context) (Seen, error) { return n.follow(ctx) }

func (n *native) Answer(ctx context.Context, p Prompt, key, text string) (Seen, error) {
	n.opt.Progress()
	a := chat.Answer{Text: text, ClientID: key}
	if p.Approval {
		a = chat.Answer{Decisions: []chat.Decision{{CallID: p.Call, Approve: true}}, ClientID: key}
	}
	_, err := n.c.Answer(ctx, chat.SessionID(n.opt.Session), p.Request, a)
	late := chat.ReasonOf(err) == chat.PromptEnded
	if err != nil && !late {
		return Seen{}, err
	}
	seen, err := n.follow(ctx)
	seen.Late = late
	return seen, err
}

func (n *native) Stop(ctx context.Context, _ string) error {
	for {
		_, err := n.c.Stop(ctx, chat.SessionID(n.opt.Session), client.StopOptions{})
		if !errors.Is(err, client.ErrUnreachable) && chat.CodeOf(err) != chat.Unavailable || sleep.For(ctx, pauseBetween) != nil {
			return err
		}
	}
}

// follow reads events and pieces until the turn ends or asks.
func (n *native) follow(ctx context.Context) (Seen, error) {
	shown, texts := map[chat.BlockID]string{}, ""
	link := func(l client.Link) {
		if !l.Up {
			n.opt.Resumed()
		}
	}
	for f, err := range n.c.Watch(ctx, chat.SessionID(n.opt.Session), client.WatchOptions{After: fmt.Sprint(n.last), Link: link}) {
		if err != nil {
			return Seen{}, err
		}
		n.opt.Progress()
		if p := f.Preview; p != nil {
			if p.Offset != len(shown[p.Block]) {
				return Seen{}, fmt.Errorf("a piece of %s begins at %d, %d bytes were shown", p.Block, p.Offset, len(shown[p.Block]))
			}
			shown[p.Block] += p.Text
		}
		if f.Event == nil {
			continue
		}
		if f.Event.Seq != n.last+1 {
			return Seen{}, fmt.Errorf("event %d came after %d", f.Event.Seq, n.last)
		}
		n.last = f.Event.Seq
		if text, ok := f.Event.Body.(chat.AgentText); ok && !strings.HasPrefix(text.Text, shown[text.Block]) {
			return Seen{}, fmt.Errorf("block %s ended as %q after %q was shown", text.Block, Clip(text.Text), Clip(shown[text.Block]))
		}
		if seen, ok := seenIn(f.Event, &texts); ok {
			return seen, nil
		}
	}
	return Seen{}, context.Cause(ctx)
}

// seenIn adds the text of an event of the main line, and reports whether the event ends a turn or asks.
func seenIn(e *chat.Event, texts *string) (seen Seen, ok bool) {
	if e.Workstream != "" {
		return seen, false
	}
	switch b := e.Body.(type) {
	case chat.AgentText:
		*texts += b.Text
	case chat.AgentInputRequest:
		seen.End, seen.Prompt.Request = Asks, b.RequestID
	case chat.AgentApprovalRequest:
		seen.End, seen.Prompt = Asks, Prompt{Request: b.RequestID, Call: b.Calls[0].CallID}
	case chat.TurnCompleted:
		seen.End = End(b.Outcome)
	}
	seen.Texts = []string{*texts}
	return seen, seen.End != ""
}
