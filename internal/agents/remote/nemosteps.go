package remote

import (
	"context"
	"html"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// nemoStep is an intermediate step of a NeMo workflow.
type nemoStep struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Payload string `json:"payload"`
}

// steps turns NeMo's intermediate steps into tool calls and their results. A
// step comes again, with the same id, whenever there is more of it.
type steps struct {
	s    *output
	seen map[string]bool // ids of models that were told
	told bool            // there were calls
}

// The beginnings of step names that mean something.
const (
	stepTool  = "Tool: "
	stepStart = "Function Start: "
	stepEnd   = "Function Complete: "

	stepWorkflow = "<workflow>"
)

func (t *steps) take(ctx context.Context, st nemoStep) error {
	if t.seen == nil {
		t.seen = map[string]bool{}
	}
	if st.ID == "" {
		st.ID = st.Name
	}
	name, isTool := strings.CutPrefix(st.Name, stepTool)
	start, isStart := strings.CutPrefix(st.Name, stepStart)
	end, isEnd := strings.CutPrefix(st.Name, stepEnd)
	in, out, hasOut := stepParts(st.Payload)
	switch {
	case start == stepWorkflow || end == stepWorkflow:
		return nil // the workflow as a whole, with all that it is told and says
	case isTool:
		if err := t.call(ctx, st.ID, name, in); err != nil {
			return err
		}
		if hasOut {
			return t.result(ctx, st.ID, out)
		}
	case isStart:
		return t.call(ctx, st.ID, start, in)
	case isEnd:
		if err := t.call(ctx, st.ID, end, in); err != nil {
			return err
		}
		return t.result(ctx, st.ID, out)
	default:
		// A model: its step is sent again for every token, with all its input.
		if t.seen[st.ID] || st.Name == "" || len(t.seen) > 10_000 {
			return nil
		}
		t.seen[st.ID] = true
		_, err := t.s.store(ctx, chat.AgentStatus{Message: text.Clip(st.Name, 200), Phase: "working"})
		return err
	}
	return nil
}

func (t *steps) call(ctx context.Context, id, name, in string) error {
	t.told = true
	var params json.RawMessage
	if in != "" {
		params = value(in)
	}
	return t.s.call(ctx, id, name, params)
}

func (t *steps) result(ctx context.Context, id, out string) error {
	return t.s.result(ctx, id, value(out), "")
}

// settle ends the calls of which NeMo said nothing more: trailing steps are
// dropped there when a workflow fails.
func (t *steps) settle(ctx context.Context, failed bool) error {
	for _, id := range append([]string(nil), t.s.open...) {
		var err error
		if failed {
			err = t.s.result(ctx, id, nil, "the workflow ended before the step did")
		} else {
			err = t.s.result(ctx, id, json.RawMessage("null"), "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stepParts cuts a step's Markdown into input and output.
func stepParts(payload string) (in, out string, hasOut bool) {
	payload = html.UnescapeString(payload)
	var at int
	for _, mark := range []string{"**Function Output:**", "**Output:**"} {
		if i := strings.Index(payload, mark); i >= 0 {
			hasOut = true
			out, at = payload[i+len(mark):], i
			break
		}
	}
	in = payload
	if hasOut {
		in = payload[:at]
	}
	for _, mark := range []string{"**Function Input:**", "**Input:**"} {
		if _, rest, ok := strings.Cut(in, mark); ok {
			in = rest
			break
		}
	}
	return unfence(in), unfence(out), hasOut
}

// unfence takes the fence off a block of code.
func unfence(s string) string {
	s = strings.TrimSpace(s)
	rest, ok := strings.CutPrefix(s, "```")
	if !ok {
		return s
	}
	if _, body, ok := strings.Cut(rest, "\n"); ok {
		rest = body
	}
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "```"))
}
