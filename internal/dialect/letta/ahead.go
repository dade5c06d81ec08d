package letta

import (
	"context"

	"github.com/parley-hq/parley/chat"
)

// equip lets a feed read in the log what lies behind the entry it is at.
func (f *follower) equip(ctx context.Context, fd *feed) {
	fd.ended, fd.ahead, fd.spent = f.ends(ctx), f.ahead(ctx), f.spent(ctx)
}

// spent tells what the agent reports together with a question: the report, or a
// remark and the report, follow it in one go.
func (f *follower) spent(ctx context.Context) func(chat.Seq) (chat.Usage, error) {
	return func(seq chat.Seq) (u chat.Usage, err error) {
		facts, _, err := f.d.opt.Sessions.Read(ctx, f.caller, f.place.session, chat.Range{After: seq, Limit: 2, Workstream: &mainLine})
		for i := range facts {
			e, err := facts[i].Event()
			if err != nil {
				return u, err
			}
			switch b := e.Body.(type) {
			case chat.AgentUsage:
				return b.Usage, nil
			case chat.AgentError:
			default:
				return u, nil
			}
		}
		return u, err
	}
}

// ends tells where the pieces of a finished block ended, for streams of tokens.
func (f *follower) ends(ctx context.Context) func(chat.Seq) ([]chat.End, error) {
	if !f.tokens {
		return nil
	}
	return func(seq chat.Seq) ([]chat.End, error) {
		return f.d.opt.Sessions.Ends(ctx, f.caller, f.place.session, seq)
	}
}

// ahead reads the next texts of the agent that are finished in the log.
func (f *follower) ahead(ctx context.Context) func(chat.Seq) ([]chat.Event, error) {
	return func(seq chat.Seq) (texts []chat.Event, err error) {
		facts, _, err := f.d.opt.Sessions.Read(ctx, f.caller, f.place.session, chat.Range{
			After: seq, Limit: 4, Workstream: &mainLine, Types: []string{chat.AgentText{}.Type(), chat.AgentThinking{}.Type(), chat.TurnCompleted{}.Type()},
		})
		for i := range facts {
			e, err := facts[i].Event()
			if _, over := e.Body.(chat.TurnCompleted); over || err != nil {
				return texts, err
			}
			texts = append(texts, e)
		}
		return texts, err
	}
}
