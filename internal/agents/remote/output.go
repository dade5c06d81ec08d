package remote

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// output puts what an endpoint says into the log. When the endpoint is called
// again after a crash, the output follows the log for as long as it hears the
// same, and goes on in a part of its own from where it differs.
type output struct {
	root     *agent.Turn
	turn     *agent.Turn           // the part in which it speaks
	past     map[string]chat.Event // of earlier attempts, by client id
	prefix   string                // of the client ids of the part
	attempt  int
	steps    int  // of the part
	diverged bool // it differs from what is in the log, or nothing is there

	w       *agent.Writer // the open block, nil between blocks
	kind    chat.BlockKind
	match   string // what an earlier attempt said in the block and finished
	matched int    // bytes of match that were received again; -1 when there is nothing to match

	calls  map[string]chat.AgentToolCall // by the endpoint's id
	open   []string                      // the endpoint's ids of calls without an outcome, in their order
	usage  []chat.AgentUsage             // reported at the end
	stored bool                          // something was received
}

// newOutput speaks in one round of a turn.
func newOutput(turn *agent.Turn, round int) *output {
	ref := turn.Ref()
	name := "r" + strconv.Itoa(round)
	s := &output{
		root: turn, turn: turn.Part(name), past: map[string]chat.Event{}, prefix: string(ref.Turn) + "/" + name + ".",
		attempt: ref.Attempt, matched: -1, calls: map[string]chat.AgentToolCall{},
	}
	for _, e := range turn.Past() {
		if e.ClientID != "" {
			s.past[e.ClientID] = e
		}
		s.recall(&e, round)
	}
	return s
}

// recall takes in a call of an earlier round, whose result may still come.
func (s *output) recall(e *chat.Event, round int) {
	var n int
	rest, _ := strings.CutPrefix(e.ClientID, string(s.root.Ref().Turn)+"/r")
	if head, _, ok := strings.Cut(rest, "."); ok {
		n, _ = strconv.Atoi(head)
	}
	if n < 1 || n >= round {
		return
	}
	switch b := e.Body.(type) {
	case chat.AgentToolCall:
		id := foreign(b.CallID)
		s.calls[id], s.open = b, append(s.open, id)
	case chat.AgentToolResult:
		s.open = slices.DeleteFunc(s.open, func(id string) bool { return id == foreign(b.CallID) })
	case chat.AgentToolError:
		s.open = slices.DeleteFunc(s.open, func(id string) bool { return id == foreign(b.CallID) })
	}
}

// earlier is what an earlier attempt said at a step.
func (s *output) earlier(step int) (chat.Event, bool) {
	if s.diverged {
		return chat.Event{}, false
	}
	e, ok := s.past[s.prefix+strconv.Itoa(step)]
	return e, ok
}

// text shows a piece of the answer, think one of the reasoning.
func (s *output) text(ctx context.Context, piece string) error {
	return s.write(ctx, chat.TextBlock, piece)
}

func (s *output) think(ctx context.Context, piece string) error {
	return s.write(ctx, chat.ThinkingBlock, piece)
}

func (s *output) write(ctx context.Context, kind chat.BlockKind, piece string) error {
	if piece == "" {
		return nil
	}
	s.stored = true
	if s.w != nil && s.kind != kind {
		if err := s.endBlock(ctx); err != nil {
			return err
		}
	}
	if s.w == nil {
		if err := s.begin(ctx, kind); err != nil {
			return err
		}
	}
	if s.matched < 0 {
		return s.w.Write(ctx, piece)
	}
	rest := s.match[s.matched:]
	switch {
	case strings.HasPrefix(rest, piece):
		s.matched += len(piece)
		return s.w.Write(ctx, piece) // it is in the log: nothing is shown
	case strings.HasPrefix(piece, rest) && len(s.match) > chat.MaxBlock/2:
		// A block that was full: the writer goes on in the next.
		s.matched = -1
		return s.w.Write(ctx, piece)
	}
	before := s.match[:s.matched]
	if err := s.diverge(ctx); err != nil {
		return err
	}
	return s.write(ctx, kind, before+piece)
}

// begin opens a block.
func (s *output) begin(ctx context.Context, kind chat.BlockKind) error {
	e, ok := s.earlier(s.steps + 1)
	if ok {
		if text, same := finished(e.Body, kind); same {
			s.match, s.matched = text, 0
		} else if err := s.diverge(ctx); err != nil {
			return err
		}
	}
	s.steps++
	if s.kind = kind; kind == chat.ThinkingBlock {
		s.w = s.turn.Think()
	} else {
		s.w = s.turn.Stream(false)
	}
	return nil
}

func finished(b chat.Body, kind chat.BlockKind) (text string, ok bool) {
	switch b := b.(type) {
	case chat.AgentText:
		return b.Text, kind == chat.TextBlock
	case chat.AgentThinking:
		return b.Text, kind == chat.ThinkingBlock
	}
	return "", false
}

// part leaves what earlier attempts said as it is and goes on behind it.
func (s *output) diverge(ctx context.Context) error {
	if s.diverged {
		return nil
	}
	if s.w != nil && s.matched < 0 {
		if err := s.end(ctx, false); err != nil {
			return err
		}
	}
	s.w, s.match, s.matched = nil, "", -1
	for _, b := range s.root.Open() {
		if err := s.root.Abandon(ctx, b); err != nil {
			return err
		}
	}
	s.turn, s.steps, s.diverged = s.turn.Part("a"+strconv.Itoa(s.attempt)), 0, true
	return nil
}

// goOn begins where an earlier attempt stopped: in the block that it left open,
// or behind all that it said.
func (s *output) continueLast(ctx context.Context) error {
	open := s.root.Open()
	for {
		if _, ok := s.earlier(s.steps + 1); !ok {
			break
		}
		s.steps++
		s.turn.Stream(false) // takes the step; nothing is written
	}
	if len(open) == 1 {
		w := s.turn.Stream(false)
		if open[0].Kind == chat.ThinkingBlock {
			w = nil // reasoning is not continued
		}
		if w != nil && w.Block() == open[0].ID {
			s.steps++
			s.w, s.kind = w, chat.TextBlock
			return w.Write(ctx, open[0].Text)
		}
	}
	return s.diverge(ctx)
}

// pause closes the open block; more is to come.
func (s *output) endBlock(ctx context.Context) error { return s.end(ctx, false) }

func (s *output) end(ctx context.Context, final bool) error {
	if s.w == nil {
		return nil
	}
	if s.matched >= 0 && s.matched < len(s.match) {
		// It says less than it did.
		before, kind := s.match[:s.matched], s.kind
		if err := s.diverge(ctx); err != nil {
			return err
		}
		if err := s.write(ctx, kind, before); err != nil {
			return err
		}
	}
	w := s.w
	s.w, s.match, s.matched = nil, "", -1
	if w == nil {
		return nil
	}
	w.Final(final)
	return w.Close(ctx)
}

// finish ends the answer: its last block is the answer of the turn.
func (s *output) finish(ctx context.Context) error {
	// What is left is told before the last block is closed, because a turn that
	// has its answer is not taken up again.
	for _, u := range s.usage {
		if _, err := s.store(ctx, u); err != nil {
			return err
		}
	}
	s.usage = nil
	return s.end(ctx, s.kind == chat.TextBlock)
}

// fact puts a body into the log beside the open block.
func (s *output) store(ctx context.Context, body chat.Body) (chat.Event, error) {
	s.stored = true
	if e, ok := s.earlier(s.steps + 1); ok && !same(e.Body, body) {
		if err := s.diverge(ctx); err != nil {
			return chat.Event{}, err
		}
	}
	s.steps++
	return s.turn.Append(ctx, body)
}

// step puts a body into the log behind the open block.
func (s *output) step(ctx context.Context, body chat.Body) (chat.Event, error) {
	if err := s.endBlock(ctx); err != nil {
		return chat.Event{}, err
	}
	return s.store(ctx, body)
}

// same reports whether two attempts said the same. Ids differ from run to run.
func same(a, b chat.Body) bool {
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

// call says that the endpoint uses a tool. id is the endpoint's own.
func (s *output) call(ctx context.Context, id, tool string, params json.RawMessage) error {
	if _, twice := s.calls[id]; twice {
		return nil
	}
	if tool == "" {
		tool = "tool"
	}
	if err := s.endBlock(ctx); err != nil {
		return err
	}
	e, err := s.store(ctx, chat.AgentToolCall{CallID: s.callID(id), Tool: text.Clip(tool, 200), Params: object(bounded(params))})
	if err != nil {
		return err
	}
	// The one in the log, which may be of an earlier attempt.
	s.calls[id], _ = e.Body.(chat.AgentToolCall)
	s.open = append(s.open, id)
	return nil
}

// callID makes the endpoint's id one of the session: endpoints begin anew with
// call_1 in every turn.
func (s *output) callID(id string) string {
	ours := "c" + s.root.Label() + "-" + text.Clip(id, 96)
	if s.attempt > 1 {
		ours += "-a" + strconv.Itoa(s.attempt)
	}
	return ours
}

// known is the session's id of a call that the endpoint has made or may make.
func (s *output) known(id string) string {
	if c, ok := s.calls[id]; ok {
		return c.CallID
	}
	return s.callID(id)
}

// outcome says what a tool gave, or why it failed when problem is not empty.
func (s *output) result(ctx context.Context, id string, result json.RawMessage, problem string) error {
	c, ok := s.calls[id]
	if !ok {
		// A result without its call: both are told.
		if err := s.call(ctx, id, "tool", nil); err != nil {
			return err
		}
		c = s.calls[id]
	}
	for i, o := range s.open {
		if o == id {
			s.open = append(s.open[:i:i], s.open[i+1:]...)
			var body chat.Body = chat.AgentToolResult{CallID: c.CallID, Tool: c.Tool, Result: bounded(result)}
			if problem != "" {
				body = chat.AgentToolError{CallID: c.CallID, Tool: c.Tool, Error: text.Clip(problem, 8<<10)}
			}
			_, err := s.store(ctx, body)
			return err
		}
	}
	return nil // it had one
}

// ask asks a person while the endpoint waits.
func (s *output) ask(ctx context.Context, q chat.AgentInputRequest) (chat.UserInputResponse, error) {
	if err := s.endBlock(ctx); err != nil {
		return chat.UserInputResponse{}, err
	}
	s.stored = true
	if e, ok := s.earlier(s.steps + 1); ok && !same(e.Body, q) {
		if err := s.diverge(ctx); err != nil {
			return chat.UserInputResponse{}, err
		}
	}
	s.steps++
	return s.turn.Ask(ctx, q)
}

// keep puts several bodies into the log at once, behind everything.
func (s *output) keep(ctx context.Context, bodies ...chat.Body) ([]chat.Event, error) {
	if err := s.endBlock(ctx); err != nil {
		return nil, err
	}
	s.steps++
	return s.turn.Keep(ctx, bodies...)
}
