package httpagent

import (
	"cmp"
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

// nemoSteps turns NeMo's intermediate steps into tool calls and their results. NeMo
// sends a step again, with the same id, whenever it has grown.
type nemoSteps struct {
	out      *output
	models   map[string]bool // ids of the model steps that are stored
	hasCalls bool
}

// maxModels bounds the model steps that are stored.
const maxModels = 10_000

// The prefixes of step names.
const (
	stepTool  = "Tool: "
	stepStart = "Function Start: "
	stepEnd   = "Function Complete: "

	stepWorkflow = "<workflow>"
)

// handle stores what is new in a step.
func (t *nemoSteps) handle(ctx context.Context, st nemoStep) error {
	st.ID = cmp.Or(st.ID, st.Name)
	name, isTool := strings.CutPrefix(st.Name, stepTool)
	start, isStart := strings.CutPrefix(st.Name, stepStart)
	end, isEnd := strings.CutPrefix(st.Name, stepEnd)
	in, out, hasOut := stepParts(st.Payload)
	switch {
	case start == stepWorkflow || end == stepWorkflow:
		return nil // the whole workflow with its input and output
	case isTool:
		if err := t.call(ctx, st.ID, name, in); err != nil {
			return err
		}
		if hasOut {
			return t.out.result(ctx, st.ID, asJSON(out), "")
		}
	case isStart:
		return t.call(ctx, st.ID, start, in)
	case isEnd:
		if err := t.call(ctx, st.ID, end, in); err != nil {
			return err
		}
		return t.out.result(ctx, st.ID, asJSON(out), "")
	default:
		// A model, whose step is sent again for every token, with the whole input.
		if t.models[st.ID] || st.Name == "" || len(t.models) >= maxModels {
			return nil
		}
		if t.models == nil {
			t.models = map[string]bool{}
		}
		t.models[st.ID] = true
		_, err := t.out.store(ctx, chat.AgentStatus{Message: text.Clip(st.Name, 200), Phase: "working"})
		return err
	}
	return nil
}

func (t *nemoSteps) call(ctx context.Context, id, name, in string) error {
	t.hasCalls = true
	var params json.RawMessage
	if in != "" {
		params = asJSON(in)
	}
	return t.out.call(ctx, id, name, params)
}

// close ends the open calls: NeMo drops the last steps of a workflow that fails.
func (t *nemoSteps) close(ctx context.Context, failed bool) error {
	problem := ""
	if failed {
		problem = "the workflow ended before the step did"
	}
	return t.out.closeCalls(ctx, 0, problem)
}

// stepParts returns the input and output in the Markdown of a step.
func stepParts(payload string) (in, out string, hasOut bool) {
	payload = html.UnescapeString(payload)
	for _, mark := range []string{"**Function Output:**", "**Output:**"} {
		if in, out, hasOut = strings.Cut(payload, mark); hasOut {
			break
		}
	}
	for _, mark := range []string{"**Function Input:**", "**Input:**"} {
		if _, rest, ok := strings.Cut(in, mark); ok {
			in = rest
			break
		}
	}
	return unfence(in), unfence(out), hasOut
}

// unfence returns the content of a fenced code block.
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
