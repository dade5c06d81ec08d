package agent

import (
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// Part returns a view of the turn whose steps are numbered on their own, under a name. Several parts can run at once,
// each in one goroutine. An agent that derives its position from the log can continue in the part where it was, without
// repeating the steps before it. Names are letters and digits; a part of a part has both names.
func (t *Turn) Part(name string) *Turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := *t
	p.part, p.steps = t.part+name+".", 0
	return &p
}

// UnfinishedBlocks returns the blocks of this part that earlier attempts left open, without those that Abandon has closed.
// A block that a Writer of this attempt continues is among them.
func (t *Turn) UnfinishedBlocks() []chat.Block {
	prefix := t.blockID(t.part)
	return slices.DeleteFunc(t.Open(), func(b chat.Block) bool { return !strings.HasPrefix(string(b.ID), string(prefix)) })
}

// blockID names the block of a step.
func (t *Turn) blockID(step string) chat.BlockID {
	return chat.BlockID("b" + t.label + "-" + strings.ReplaceAll(step, ".", "-"))
}
