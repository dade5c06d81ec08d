package tool

import (
	"context"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// workstreams are the tools for work in the background. The calls of a Turn have
// idempotency keys, so a repeated call has no further effect.
var workstreams = []Tool{
	{
		Name:        "launch_workstream",
		Description: "Begin a line of work of its own in the background, with its own history, and go on at once. You are told when it has ended, with its result; until then do something else, or end your answer. Give it all it needs to know: it does not see this conversation.",
		Parameters: json.RawMessage(`{"type":"object","properties":{
			"id":{"type":"string","description":"A short name of its own for it, such as pricing: letters, digits, - and _."},
			"name":{"type":"string","description":"What people see."},
			"instruction":{"type":"string","description":"The task, complete in itself."},
			"allowed_tools":{"type":"array","items":{"type":"string"},"description":"Tools it may use; absent means all of yours."},
			"context":{"type":"object","description":"Facts that it needs."},
			"model":{"type":"string"},"agent":{"type":"string","description":"Who works on it; absent means you."},
			"deadline_seconds":{"type":"number","description":"30 to 1800; 300 when absent."},
			"interactive":{"type":"boolean","description":"Waits for follow-ups until it is terminated."},
			"merge_child_artifacts":{"type":"boolean"}},"required":["id","instruction"]}`),
		Repeatable: true,
		Run: withStatus(func(ctx context.Context, t *agent.Turn, in chat.Launch) (chat.WorkstreamStatus, error) {
			return t.Launch(ctx, in)
		}),
	},
	{
		Name:        "message_workstream",
		Description: "Send a follow-up to a workstream.",
		Parameters:  json.RawMessage(`{"type":"object","properties":{"workstream_id":{"type":"string"},"message":{"type":"string"}},"required":["workstream_id","message"]}`),
		Repeatable:  true,
		Run: withStatus(func(ctx context.Context, t *agent.Turn, in directive) (chat.WorkstreamStatus, error) {
			return t.Message(ctx, in.Workstream, in.Message)
		}),
	},
	{
		Name:        "steer_workstream",
		Description: "Give a workstream a directive without waiting for it to come to a rest.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"workstream_id":{"type":"string"},
			"command":{"type":"string","enum":["add_instruction","set_priority","add_constraint","pause_requested","resume_requested"]},
			"text":{"type":"string"}},"required":["workstream_id","command"]}`),
		Repeatable: true,
		Run: withStatus(func(ctx context.Context, t *agent.Turn, in directive) (chat.WorkstreamStatus, error) {
			return t.Steer(ctx, in.Workstream, in.Command, in.Text)
		}),
	},
	{
		Name:        "terminate_workstream",
		Description: "End a workstream.",
		Parameters:  json.RawMessage(`{"type":"object","properties":{"workstream_id":{"type":"string"},"reason":{"type":"string"}},"required":["workstream_id"]}`),
		Repeatable:  true,
		Run: withStatus(func(ctx context.Context, t *agent.Turn, in directive) (chat.WorkstreamStatus, error) {
			return t.Terminate(ctx, in.Workstream, in.Reason)
		}),
	},
	{
		Name:        "workstream_status",
		Description: "See how a workstream is, or all that you have launched.",
		Parameters:  json.RawMessage(`{"type":"object","properties":{"workstream_id":{"type":"string","description":"Absent means all."}}}`),
		Repeatable:  true,
		Run: func(ctx context.Context, c Call) (json.RawMessage, error) {
			var in directive
			if err := c.Read(&in); err != nil {
				return nil, err
			}
			var ids []string
			if in.Workstream != "" {
				ids = []string{in.Workstream}
			}
			all, err := c.Turn.Workstreams(ctx, ids...)
			if err != nil {
				return nil, asToolError(err)
			}
			return json.Marshal(map[string]any{"workstreams": all})
		},
	},
}

// directive has the parameters of the tools that direct a workstream.
type directive struct {
	Workstream string `json:"workstream_id"`
	Message    string `json:"message"`
	Command    string `json:"command"`
	Text       string `json:"text"`
	Reason     string `json:"reason"`
}

// withStatus makes a tool from a function whose result is the status of a
// workstream.
func withStatus[In any](f func(ctx context.Context, t *agent.Turn, in In) (chat.WorkstreamStatus, error)) func(context.Context, Call) (json.RawMessage, error) {
	return func(ctx context.Context, c Call) (json.RawMessage, error) {
		var in In
		if err := c.Read(&in); err != nil {
			return nil, err
		}
		status, err := f(ctx, c.Turn, in)
		if err != nil {
			return nil, asToolError(err)
		}
		return json.Marshal(status)
	}
}
