package letta

import (
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
)

// tells shows what becomes of workstreams. Other messages of the system come from
// those who read.
func (f *feed) tells(m *llm.Message, e *chat.Event) error {
	if m.RunID != f.run || !strings.HasPrefix(e.Type, "workstream.") {
		return nil
	}
	if err := f.written(e); err != nil {
		return err
	}
	if f.held != nil && len(f.held.calls)+len(f.held.returns) == 0 {
		f.flush() // calls and returns wait for the rest of theirs
	}
	for _, it := range expand(m, f.form) {
		f.show(it)
	}
	return nil
}

// written shows what there was of a text when news came in the middle of it, or when
// something before it was finished, for readers that are so late that they get the
// text only when it is finished itself: who has the position of the one counts as
// having all before it.
func (f *feed) written(e *chat.Event) error {
	if !f.tokens || f.ahead == nil || e.At <= f.after {
		return nil
	}
	texts, err := f.ahead(e.Seq)
	if err != nil {
		return err
	}
	for i := range texts {
		block := chat.FinishedBlock(texts[i].Body)
		if block == "" || texts[i].Turn != f.turn {
			continue
		}
		ends, err := f.ended(texts[i].Seq)
		if err != nil {
			return err
		}
		n := bytesAt(ends, e.At)
		have := max(f.sent[block], bytesAt(ends, f.after))
		if n <= have {
			continue
		}
		p := chat.Preview{Turn: f.turn, Block: block, Offset: have, End: n}
		switch b := texts[i].Body.(type) {
		case chat.AgentText:
			p.Text = b.Text
		case chat.AgentThinking:
			p.Kind, p.Text = chat.ThinkingBlock, b.Text
		}
		if n > len(p.Text) {
			continue
		}
		p.Text = p.Text[have:n]
		now, count := f.now, f.count
		f.sent[block], f.now, f.count = have, endOf(ends, n), 0
		f.piece(&p)
		f.now, f.count = now, count
	}
	return nil
}

// endOf is the position at which so much of a block had been shown.
func endOf(ends []chat.End, bytes int) chat.At {
	i := slices.IndexFunc(ends, func(e chat.End) bool { return e.Bytes >= bytes })
	return ends[i].At
}
