package model

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/tool"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
)

// nextStep returns the name of the next step.
func (r *round) nextStep() string { return strconv.Itoa(r.state.steps + 1) }

// step asks the model once and stores its answer in the log.
func (r *round) step(ctx context.Context) error {
	part := r.turn.Part("m" + r.nextStep())
	specs := make([]llm.ToolSpec, len(r.tools))
	for i, t := range r.tools {
		specs[i] = llm.ToolSpec{Name: t.Name, Description: t.Description, Parameters: t.Parameters}
	}
	out := &answerWriter{part: part}
	answer, err := r.askWithinWindow(ctx, specs, func(messages []llm.Message) (*llm.Answer, error) {
		request := &llm.Request{
			Model: r.model(), Messages: r.pictures(ctx, messages), Tools: specs,
			MaxTokens: r.opt.MaxTokens, MaxText: llm.TextLimit(r.opt.Window), Effort: r.effort(),
		}
		return r.retry(ctx, func(ctx context.Context, key string, alive func()) (*llm.Answer, error) {
			out.restart()
			return out.stream(ctx, func(ctx context.Context, see func(llm.Delta) error) (*llm.Answer, error) {
				return r.endpoint.ask(ctx, key, request, alive, see)
			})
		})
	})
	if err != nil {
		return err
	}
	bodies, err := r.bodies(ctx, out, answer)
	if err != nil {
		return err
	}
	_, err = part.AppendAll(ctx, bodies...)
	return err
}

// askWithinWindow calls ask with as much of the conversation as fits the window. If the
// endpoint still answers that the conversation is too long, the token estimate was too
// low, and askWithinWindow retries with a smaller part.
func (r *round) askWithinWindow(ctx context.Context, tools []llm.ToolSpec, ask func([]llm.Message) (*llm.Answer, error)) (*llm.Answer, error) {
	room := r.room()
	for i := range tools {
		room -= llm.TextTokens(tools[i].Name) + llm.TextTokens(tools[i].Description) + llm.TextTokens(string(tools[i].Parameters)) + 16
	}
	if room <= 0 {
		return nil, &Failure{Code: agent.CodeOverflow, Msg: fmt.Sprintf(
			"the descriptions of the %d tools alone do not fit the model's window of %d tokens; offer fewer with only and builtin in the configuration", len(tools), r.opt.Window)}
	}
	var tooLong *Failure // the endpoint's last error
	for try := 0; ; try++ {
		messages, err := r.fit(ctx, room)
		if f, ok := asFailure(err); ok && f.Code == agent.CodeOverflow && tooLong != nil {
			return nil, tooLong // the conversation cannot be made smaller
		}
		if err != nil {
			return nil, err
		}
		answer, err := ask(messages)
		var ok bool
		if tooLong, ok = asFailure(err); !ok || tooLong.Code != agent.CodeOverflow || try == 3 {
			return answer, err
		}
		room = min(room, llm.Tokens(messages)) * 2 / 3
	}
}

// room returns how many tokens the conversation may have: the window without the
// tokens reserved for the answer, minus 10 % because token counts are estimates.
func (r *round) room() int {
	answer := r.opt.MaxTokens
	if answer == 0 {
		answer = min(8192, r.opt.Window/4)
	}
	return max(256, (r.opt.Window-answer)*9/10)
}

// maxAsk is the maximum number of calls in one approval request.
const maxAsk = 100

// bodies returns the event bodies to store for an answer: the blocks, then the calls,
// then one approval request for the calls that need approval, then the usage.
func (r *round) bodies(ctx context.Context, s *answerWriter, answer *llm.Answer) ([]chat.Body, error) {
	m := answer.Message
	r.renameCalls(&m)
	held, err := s.endBlocks(ctx)
	if err != nil {
		return nil, err
	}
	held.shorten(m.Content)
	var bodies []chat.Body
	ask := chat.AgentApprovalRequest{Timeout: r.opt.Ask.Seconds()}
	for _, body := range llm.AnswerBodies(&m) {
		switch b := body.(type) {
		case chat.AgentText:
			b.Final = len(m.ToolCalls) == 0
			bodies = append(bodies, held.text(b))
		case chat.AgentThinking:
			bodies = append(bodies, held.thinking(b))
		case chat.AgentToolCall:
			treatment, known := r.treat(b.Tool, b.Params)
			b.Repeatable = treatment.Repeatable
			if known && treatment.Approval != tool.Never && readable(b.Params) {
				yes, err := r.remembered(ctx, b.Tool, treatment.Approval)
				if err != nil {
					return nil, err
				}
				if !yes && len(ask.Calls) == maxAsk {
					bodies = append(bodies, b, chat.AgentToolError{CallID: b.CallID, Tool: b.Tool, Code: tool.Denied, Error: "too many calls at once need approval; make fewer"})
					continue
				}
				if !yes {
					ask.Calls = append(ask.Calls, chat.ApprovalCall{CallID: b.CallID, Tool: b.Tool, Params: b.Params, Risk: treatment.Risk, Always: treatment.Approval == tool.Always, Client: treatment.Client})
					continue
				}
			}
			bodies = append(bodies, b)
		}
	}
	bodies = append(bodies, held.rest()...)
	if len(ask.Calls) > 0 {
		bodies = append(bodies, ask)
	}
	if e, ok := r.stopError(answer); ok {
		bodies = append(bodies, e)
	}
	return append(bodies, chat.AgentUsage{Model: r.model(), Usage: answer.Usage}), nil
}

// stopError returns the error to report for an answer that ended early.
func (r *round) stopError(a *llm.Answer) (chat.AgentError, bool) {
	switch a.Stop {
	case llm.StopLength:
		return chat.AgentError{Code: agent.CodeLength, Recoverable: true, Message: "The answer reached the limit of its length; ask to go on, or raise max_tokens in the configuration."}, true
	case llm.StopFilter:
		return chat.AgentError{Code: agent.CodeFiltered, Recoverable: true, Message: "The model's endpoint held back part of the answer because of its content rules."}, true
	}
	return chat.AgentError{}, false
}

// renameCalls gives the calls ids that are unique in the session and deterministic. Some
// endpoints give no ids, or count from zero in every answer.
func (r *round) renameCalls(m *llm.Message) {
	names := map[string]string{}
	calls := make([]llm.ToolCall, len(m.ToolCalls))
	for i, c := range m.ToolCalls {
		id := fmt.Sprintf("c%s-%s-%d", r.turn.Label(), r.nextStep(), i+1)
		if _, twice := names[c.ID]; !twice {
			names[c.ID] = id
		}
		c.ID = id
		calls[i] = c
	}
	if len(calls) > 0 {
		m.ToolCalls = calls
	}
	content := make([]llm.Part, len(m.Content))
	for i, p := range m.Content {
		if c, ok := p.(*llm.CallPart); ok {
			copied := *c
			copied.ID = names[c.ID]
			p = &copied
		}
		content[i] = p
	}
	m.Content = content
}

// shownBlocks contains the bodies of the blocks that were previewed and are about to be
// stored.
type shownBlocks struct{ bodies []chat.Body }

// endBlocks ends the blocks of the answer and returns their bodies. Blocks of earlier
// attempts that the last attempt did not reuse keep the text that was previewed.
func (s *answerWriter) endBlocks(ctx context.Context) (*shownBlocks, error) {
	h := &shownBlocks{}
	for _, w := range s.writers {
		if !w.used {
			if err := w.ClosePartial(ctx); err != nil {
				return nil, err
			}
			continue
		}
		b, err := w.Finish(ctx)
		if err != nil {
			return nil, err
		}
		h.bodies = append(h.bodies, b)
	}
	used := map[chat.BlockID]bool{}
	for _, w := range s.writers {
		used[w.Block()] = true
	}
	for _, b := range s.part.UnfinishedBlocks() { // blocks of an attempt that was killed
		if !used[b.ID] {
			if err := s.part.Abandon(ctx, b); err != nil {
				return nil, err
			}
		}
	}
	return h, nil
}

// shorten replaces each text that is too long for one block with the text of its last
// block. The earlier blocks of that text are already in the log.
func (h *shownBlocks) shorten(content []llm.Part) {
	long := func(s string) bool { return len(s) > chat.MaxBlock || json.StringLen(s) > chat.MaxBlockJSON }
	for i, p := range content {
		switch p := p.(type) {
		case *llm.Text:
			if long(p.Text) {
				last := (&shownBlocks{slices.Clone(h.bodies)}).text(chat.AgentText{Text: p.Text})
				content[i] = &llm.Text{Text: last.Text, Signature: p.Signature}
			}
		case *llm.Reasoning:
			if p.Native && long(p.Text) {
				last := (&shownBlocks{slices.Clone(h.bodies)}).thinking(chat.AgentThinking{Text: p.Text})
				content[i] = &llm.Reasoning{Native: true, Text: last.Text, Signature: p.Signature}
			}
		}
	}
}

// text assigns a text to the block that previewed it.
func (h *shownBlocks) text(b chat.AgentText) chat.AgentText {
	for i, shown := range h.bodies {
		if s, ok := shown.(chat.AgentText); ok && strings.HasSuffix(b.Text, s.Text) && s.Text != "" {
			// A long text has several blocks; this is the last one.
			b.Block, b.Text = s.Block, s.Text
			h.bodies = append(h.bodies[:i:i], h.bodies[i+1:]...)
			return b
		}
	}
	return b
}

func (h *shownBlocks) thinking(b chat.AgentThinking) chat.AgentThinking {
	for i, shown := range h.bodies {
		if s, ok := shown.(chat.AgentThinking); ok && strings.HasSuffix(b.Text, s.Text) && s.Text != "" {
			b.Block, b.Text = s.Block, s.Text
			h.bodies = append(h.bodies[:i:i], h.bodies[i+1:]...)
			return b
		}
	}
	return b
}

// rest returns the blocks that were previewed but do not match the final answer,
// marked as partial.
func (h *shownBlocks) rest() []chat.Body {
	for i, b := range h.bodies {
		switch b := b.(type) {
		case chat.AgentText:
			b.Partial = true
			h.bodies[i] = b
		case chat.AgentThinking:
			b.Partial = true
			h.bodies[i] = b
		}
	}
	return h.bodies
}
