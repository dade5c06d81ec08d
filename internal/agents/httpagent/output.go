package httpagent

import (
	"context"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// output stores the answer of one round. When the endpoint is called again after
// a crash, output compares the new answer with the log step by step and stores
// only what is missing. From the first difference on it writes to a part of its
// own, after the old output.
type output struct {
	root     *agent.Turn
	turn     *agent.Turn           // the part of the round
	past     map[string]chat.Event // of earlier attempts, by client id
	prefix   string                // of the client ids of the part
	attempt  int
	steps    int  // stored in the part
	diverged bool // the answer differs from the log

	w       *agent.Writer // the open block; nil between blocks
	kind    chat.BlockKind
	match   string // the text of the block that an earlier attempt finished
	matched int    // bytes of match that were received again; -1 when there is nothing to match

	calls     map[string]chat.AgentToolCall // by the endpoint's id
	openCalls []string                      // the endpoint's ids of calls without a result, in their order
	asked     map[string]string             // by the endpoint's id: the ids of calls in approvals of earlier rounds
	usage     []chat.AgentUsage             // stored at the end
	stored    bool                          // the endpoint sent something
}

func newOutput(turn *agent.Turn, round int) *output {
	ref := turn.Ref()
	name := "r" + strconv.Itoa(round)
	o := &output{
		root: turn, turn: turn.Part(name), past: map[string]chat.Event{}, prefix: string(ref.Turn) + "/" + name + ".",
		attempt: ref.Attempt, matched: -1, calls: map[string]chat.AgentToolCall{}, asked: map[string]string{},
	}
	for _, e := range turn.Past() {
		if e.ClientID != "" {
			o.past[e.ClientID] = e
		}
		if n := roundOf(&e); n > 0 && n < round {
			o.restoreCall(&e)
		}
	}
	return o
}

// roundOf returns the round that stored an event, 0 for none.
func roundOf(e *chat.Event) int {
	rest, ok := strings.CutPrefix(e.ClientID, string(e.Turn)+"/r")
	head, _, dot := strings.Cut(rest, ".")
	if !ok || !dot {
		return 0
	}
	n, _ := strconv.Atoi(head) // 0 when it is no number
	return n
}

// nextPast returns the event that an earlier attempt stored as the next step.
func (o *output) nextPast() (chat.Event, bool) {
	if o.diverged {
		return chat.Event{}, false
	}
	e, ok := o.past[o.prefix+strconv.Itoa(o.steps+1)]
	return e, ok
}

// text writes a piece of the answer.
func (o *output) text(ctx context.Context, piece string) error {
	return o.write(ctx, chat.TextBlock, piece)
}

// think writes a piece of the reasoning.
func (o *output) think(ctx context.Context, piece string) error {
	return o.write(ctx, chat.ThinkingBlock, piece)
}

func (o *output) write(ctx context.Context, kind chat.BlockKind, piece string) error {
	if piece == "" {
		return nil
	}
	o.stored = true
	if o.w != nil && o.kind != kind {
		if err := o.endBlock(ctx); err != nil {
			return err
		}
	}
	if o.w == nil {
		if err := o.openBlock(ctx, kind); err != nil {
			return err
		}
	}
	if o.matched < 0 {
		return o.w.Write(ctx, piece)
	}
	rest := o.match[o.matched:]
	switch {
	case strings.HasPrefix(rest, piece):
		o.matched += len(piece)
		return o.w.Write(ctx, piece) // the block is stored: the writer shows nothing
	case strings.HasPrefix(piece, rest) && len(o.match) > chat.MaxBlock/2:
		// The stored block was full: the writer continues in the next one.
		o.matched = -1
		return o.w.Write(ctx, piece)
	}
	before := o.match[:o.matched]
	if err := o.diverge(ctx); err != nil {
		return err
	}
	return o.write(ctx, kind, before+piece)
}

func (o *output) openBlock(ctx context.Context, kind chat.BlockKind) error {
	if e, ok := o.nextPast(); ok {
		if text, same := blockText(e.Body, kind); same {
			o.match, o.matched = text, 0
		} else if err := o.diverge(ctx); err != nil {
			return err
		}
	}
	o.steps++
	if o.kind = kind; kind == chat.ThinkingBlock {
		o.w = o.turn.Think()
	} else {
		o.w = o.turn.Stream(false)
	}
	return nil
}

// blockText returns the text of a stored block if it has the kind.
func blockText(b chat.Body, kind chat.BlockKind) (text string, ok bool) {
	switch b := b.(type) {
	case chat.AgentText:
		return b.Text, kind == chat.TextBlock
	case chat.AgentThinking:
		return b.Text, kind == chat.ThinkingBlock
	}
	return "", false
}

// diverge stops comparing with the log: the output of earlier attempts stays, and
// new output is stored after it.
func (o *output) diverge(ctx context.Context) error {
	if o.diverged {
		return nil
	}
	if o.w != nil && o.matched < 0 {
		if err := o.endBlock(ctx); err != nil {
			return err
		}
	}
	o.w, o.match, o.matched = nil, "", -1
	for _, b := range o.root.Open() {
		if err := o.root.Abandon(ctx, b); err != nil {
			return err
		}
	}
	o.turn, o.steps, o.diverged = o.turn.Part("a"+strconv.Itoa(o.attempt)), 0, true
	return nil
}

// divergeUnless diverges if the next step of an earlier attempt is another one
// than body.
func (o *output) divergeUnless(ctx context.Context, body chat.Body) error {
	if e, ok := o.nextPast(); ok && !sameBody(e.Body, body) {
		return o.diverge(ctx)
	}
	return nil
}

// continueLast continues where the earlier attempt stopped: in the text block
// that it left open, or after everything that it stored.
func (o *output) continueLast(ctx context.Context) error {
	open := o.root.Open()
	for {
		if _, ok := o.nextPast(); !ok {
			break
		}
		o.steps++
		o.turn.Stream(false) // counts the step in the turn; nothing is written
	}
	if len(open) == 1 && open[0].Kind == chat.TextBlock {
		if w := o.turn.Stream(false); w.Block() == open[0].ID {
			o.steps++
			o.w, o.kind = w, chat.TextBlock
			return w.Write(ctx, open[0].Text)
		}
	}
	return o.diverge(ctx)
}

// endBlock closes the open block; the answer continues.
func (o *output) endBlock(ctx context.Context) error { return o.closeBlock(ctx, false) }

func (o *output) closeBlock(ctx context.Context, final bool) error {
	if o.w == nil {
		return nil
	}
	if o.matched >= 0 && o.matched < len(o.match) {
		// The new text is shorter than the stored one.
		before, kind := o.match[:o.matched], o.kind
		if err := o.diverge(ctx); err != nil {
			return err
		}
		if err := o.write(ctx, kind, before); err != nil {
			return err
		}
	}
	w := o.w
	o.w, o.match, o.matched = nil, "", -1
	if w == nil {
		return nil
	}
	w.Final(final)
	return w.Close(ctx)
}

// finish ends the answer: its last block becomes the answer of the turn. A turn
// that has its answer is not resumed, so everything else is stored before.
func (o *output) finish(ctx context.Context) error {
	if err := o.storeUsage(ctx); err != nil {
		return err
	}
	return o.closeBlock(ctx, o.kind == chat.TextBlock)
}

func (o *output) storeUsage(ctx context.Context) error {
	for _, u := range o.usage {
		if _, err := o.store(ctx, u); err != nil {
			return err
		}
	}
	o.usage = nil
	return nil
}

// store stores an event; an open block stays open.
func (o *output) store(ctx context.Context, body chat.Body) (chat.Event, error) {
	o.stored = true
	if err := o.divergeUnless(ctx, body); err != nil {
		return chat.Event{}, err
	}
	o.steps++
	return o.turn.Append(ctx, body)
}

// sameBody reports whether two attempts stored the same. Ids differ from run to
// run.
func sameBody(a, b chat.Body) bool {
	if a.Type() != b.Type() {
		return false
	}
	switch a := a.(type) {
	case chat.AgentUsage:
		return true
	case chat.AgentToolCall:
		b := b.(chat.AgentToolCall)
		return a.Tool == b.Tool && sameJSON(a.Params, b.Params)
	case chat.AgentToolResult:
		return sameJSON(a.Result, b.(chat.AgentToolResult).Result)
	case chat.AgentToolError:
		return a.Error == b.(chat.AgentToolError).Error
	case chat.AgentInputRequest:
		b := b.(chat.AgentInputRequest)
		return a.InputType == b.InputType && a.Text == b.Text && len(a.Options) == len(b.Options)
	}
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return sameJSON(x, y)
}

// ask opens a prompt and waits for its answer while the endpoint waits.
func (o *output) ask(ctx context.Context, q chat.AgentInputRequest) (chat.UserInputResponse, error) {
	if err := o.endBlock(ctx); err != nil {
		return chat.UserInputResponse{}, err
	}
	o.stored = true
	if err := o.divergeUnless(ctx, q); err != nil {
		return chat.UserInputResponse{}, err
	}
	o.steps++
	return o.turn.Ask(ctx, q)
}

// storeAll stores several events in one commit, after the open block.
func (o *output) storeAll(ctx context.Context, bodies ...chat.Body) ([]chat.Event, error) {
	if err := o.endBlock(ctx); err != nil {
		return nil, err
	}
	o.steps++
	return o.turn.AppendAll(ctx, bodies...)
}
