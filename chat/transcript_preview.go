package chat

import "slices"

// Preview shows a piece of a block that is being written. What is there already
// is passed over; a piece beyond what is there, or of a block that its turn has
// finished, is ignored.
func (t *Transcript) Preview(p *Preview) {
	i := slices.IndexFunc(t.Open, func(it Item) bool { return it.Text.Block == p.Block })
	if i < 0 {
		if p.Offset > 0 {
			return
		}
		id := blockID(p.Turn, p.Block)
		if _, finished := t.index[id]; finished {
			if p.Turn != "" {
				return
			}
			id += ".open" // a name that was used before: outside of turns that is allowed, once the first has long been finished
		}
		kind := ItemText
		if p.Kind == ThinkingBlock {
			kind = ItemThinking
		}
		t.Open = append(t.Open, Item{
			ID: id, Kind: kind, Turn: p.Turn, Workstream: p.Workstream, Open: true, Text: &TextItem{Block: p.Block},
		})
		i = len(t.Open) - 1
	}
	it := &t.Open[i]
	if fresh := p.TextAfter(len(it.Text.Text)); fresh != "" {
		text := *it.Text
		text.Text += fresh
		it.Text = &text
	}
}

// Begin shows a block that is being written, with its text so far, to a reader
// that arrives late.
func (t *Transcript) Begin(b *Block) {
	t.Preview(&Preview{Block: b.ID, Kind: b.Kind, Text: b.Text, End: len(b.Text), Workstream: b.Workstream, Turn: b.Turn})
}

// block puts a finished block among the items. It has the id under which it was
// shown while it was open, because both come from its turn and its name.
func (t *Transcript) block(e *Event, kind ItemKind, text TextItem) {
	id := seqID(e.Seq)
	if text.Block != "" {
		id = blockID(e.Turn, text.Block)
		t.Open = slices.DeleteFunc(t.Open, func(it Item) bool { return it.Text.Block == text.Block })
	}
	if i := t.add(e, kind, id); i >= 0 {
		t.Items[i].Text = &text
	}
}

// blockID names a block. Within a turn a block id is used once.
func blockID(turn TurnID, block BlockID) string {
	return nameID("b-", turn, string(block))
}
