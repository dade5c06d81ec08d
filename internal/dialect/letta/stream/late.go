package stream

import (
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
)

// A stream that begins after a block was finished gets the block as one event. The functions below look up where the
// block's previews ended, so that this stream shows the same text at the same positions as one that was there.

// has returns how many bytes of a finished block the client has and, for a block that was finished before the stream
// began, where its last preview ended.
func (f *Feed) has(block chat.BlockID, e *chat.Event) (have int, last chat.End, err error) {
	if block == "" {
		return 0, last, nil
	}
	have = f.blockBytes[block]
	f.blockBytes[block] = chat.MaxBlock // ignore previews that come after the event
	if have > 0 || f.log == nil || e.Seq > f.lastStored || e.At <= f.after {
		return have, last, nil
	}
	ends, err := f.log.Ends(e.Seq)
	if err != nil || len(ends) == 0 {
		return 0, last, err
	}
	return bytesAt(ends, f.after), ends[len(ends)-1], nil
}

// bytesAt returns how many bytes of a block were shown at a position.
func bytesAt(ends []chat.End, at chat.At) (n int) {
	for _, e := range ends {
		if e.At > at {
			break
		}
		n = e.Bytes
	}
	return n
}

// workstream shows a system message about a workstream. Other system messages come from clients and are not shown.
func (f *Feed) workstream(m *llm.Message, e *chat.Event) error {
	if m.RunID != f.run || !strings.HasPrefix(e.Type, "workstream.") {
		return nil
	}
	if err := f.earlierPreviews(e); err != nil {
		return err
	}
	if f.held != nil && len(f.held.calls)+len(f.held.returns) == 0 {
		f.flush() // held calls and returns wait for the rest of theirs
	}
	for _, it := range Expand(m, f.summaries) {
		f.show(it)
	}
	return nil
}

// earlierPreviews shows the previews before an event of blocks that were finished after it. Without them a client that
// resumes after the event's position would miss that text.
func (f *Feed) earlierPreviews(e *chat.Event) error {
	if !f.tokens || f.log == nil || e.At <= f.after {
		return nil
	}
	texts, err := f.log.Read(chat.Range{
		After: e.Seq, Limit: 4, Workstream: new(string), Types: []string{chat.AgentText{}.Type(), chat.AgentThinking{}.Type(), chat.TurnCompleted{}.Type()},
	})
	if err != nil {
		return err
	}
	for i := range texts {
		p := chat.Preview{Turn: f.turn, Block: chat.FinishedBlock(texts[i].Body)}
		switch b := texts[i].Body.(type) {
		case chat.TurnCompleted:
			return nil
		case chat.AgentText:
			p.Text = b.Text
		case chat.AgentThinking:
			p.Kind, p.Text = chat.ThinkingBlock, b.Text
		}
		if p.Block == "" || texts[i].Turn != f.turn {
			continue
		}
		ends, err := f.log.Ends(texts[i].Seq)
		if err != nil {
			return err
		}
		p.Offset, p.End = max(f.blockBytes[p.Block], bytesAt(ends, f.after)), bytesAt(ends, e.At)
		if p.End <= p.Offset || p.End > len(p.Text) {
			continue
		}
		p.Text = p.Text[p.Offset:p.End]
		shownAt := ends[slices.IndexFunc(ends, func(end chat.End) bool { return end.Bytes >= p.End })].At
		at, count := f.at, f.count
		f.blockBytes[p.Block], f.at, f.count = p.Offset, shownAt, 0
		f.preview(&p)
		f.at, f.count = at, count
	}
	return nil
}

// usageAfter returns the usage that the agent reports together with a question: the report follows the question
// directly, or after a remark.
func (f *Feed) usageAfter(question chat.Seq) (chat.Usage, error) {
	if f.log == nil {
		return chat.Usage{}, nil
	}
	events, err := f.log.Read(chat.Range{After: question, Limit: 2, Workstream: new(string)})
	for i := range events {
		switch b := events[i].Body.(type) {
		case chat.AgentUsage:
			return b.Usage, nil
		case chat.AgentError:
		default:
			return chat.Usage{}, nil
		}
	}
	return chat.Usage{}, err
}
