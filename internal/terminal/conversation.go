package terminal

import (
	"cmp"
	"slices"
	"time"

	"github.com/parley-hq/parley/chat"
)

// conversation is a transcript in the order in which the screen shows it.
type conversation struct {
	*chat.Transcript
	loaded   chat.Seq        // the last event before the screen opened
	answered map[string]bool // prompts that were answered on this screen
	me       chat.Actor      // the person at this screen; empty if the server does not say
	ticks    bool            // the terminal shows no colours
	now      time.Time       // on the server's clock
	files    map[string]*file

	shown   []int // indexes in Items, from top to bottom
	waiting []int // indexes of messages that wait for their turn; shown below everything else

	drawn   map[string]drawn // by item id
	growing map[string]*growth
}

// drawn is the lines of an item as they were last laid out.
type drawn struct {
	width, text int // the width of the screen and the bytes of the text
	last        chat.Seq
	lines       []string
}

func newConversation(t *chat.Transcript) *conversation {
	c := &conversation{Transcript: t, loaded: t.State.Last, answered: map[string]bool{}, now: time.Now(), files: map[string]*file{}, drawn: map[string]drawn{}, growing: map[string]*growth{}}
	c.arrange()
	return c
}

// apply folds an event.
func (c *conversation) apply(e *chat.Event) {
	c.Apply(e)
	c.arrange()
}

// arrange orders the items. A message is shown where its turn took it, after the answer that it waited for.
func (c *conversation) arrange() {
	c.shown, c.waiting = c.shown[:0], c.waiting[:0]
	for i := range c.Items {
		it := &c.Items[i]
		if it.Message != nil && it.Message.State == chat.MessageQueued {
			c.waiting = append(c.waiting, i)
			continue
		}
		c.shown = append(c.shown, i)
	}
	order := func(i int) chat.Seq {
		if c.Items[i].Message != nil {
			return c.Items[i].Last
		}
		return c.Items[i].Seq
	}
	slices.SortStableFunc(c.shown, func(a, b int) int { return cmp.Compare(order(a), order(b)) })
}

// own reports whether the person at this screen wrote an item. Without a known person every message counts as own.
func (c *conversation) own(by *chat.Actor) bool { return by == nil || c.me.ID == "" || c.me.Same(*by) }

// author is the name to show with an item of another person; "" for own ones.
func (c *conversation) author(by *chat.Actor) string {
	if c.own(by) {
		return ""
	}
	return OneLine(cmp.Or(by.Name, by.ID))
}

// busy reports whether a turn runs on the main line.
func (c *conversation) busy() bool { return c.State.Line("").Turn != nil }

// working returns how many workstreams run; an interactive one that waits for a message does not.
func (c *conversation) working() (n int) {
	for _, w := range c.State.Workstreams {
		if !w.Ended() && (!w.Interactive || c.State.Line(w.ID).Turn != nil) {
			n++
		}
	}
	return n
}

// runs reports whether something runs that a stop ends.
func (c *conversation) runs() bool { return c.busy() || c.working() > 0 }

// backward yields the lines of each item, from bottom to top.
func (c *conversation) backward(width int) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		for _, i := range slices.Backward(c.waiting) {
			if !yield(c.lines(&c.Items[i], width)) {
				return
			}
		}
		if !yield(c.activity(width)) {
			return
		}
		for i := range slices.Backward(c.Open) {
			if !yield(c.lines(&c.Open[i], width)) {
				return
			}
		}
		for _, i := range slices.Backward(c.shown) {
			if !yield(c.lines(&c.Items[i], width)) {
				return
			}
		}
	}
}

// lines lays an item out, unless it was laid out before and has not changed.
func (c *conversation) lines(it *chat.Item, width int) []string {
	text := 0
	if it.Text != nil {
		text = len(it.Text.Text)
	}
	d, ok := c.drawn[it.ID]
	queued := it.Message != nil && it.Message.State == chat.MessageQueued // its mark depends on the running turn
	if !ok || queued || d.width != width || d.text != text || d.last != it.Last {
		d = drawn{width: width, text: text, last: it.Last, lines: c.layout(it, width)}
		c.drawn[it.ID] = d
	}
	return d.lines
}
