package tool

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// workstreams are the tools by which an agent works on several things at once.
// Their verbs have idempotency keys, so a call that is repeated finds what the
// first one did.
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
		Run: func(ctx context.Context, c Call) (json.RawMessage, error) {
			var in chat.Launch
			if err := c.Read(&in); err != nil {
				return nil, err
			}
			return statusJSON(c.Turn.Launch(ctx, in))
		},
	},
	{
		Name:        "message_workstream",
		Description: "Send a follow-up to a workstream.",
		Parameters:  json.RawMessage(`{"type":"object","properties":{"workstream_id":{"type":"string"},"message":{"type":"string"}},"required":["workstream_id","message"]}`),
		Repeatable:  true,
		Run: func(ctx context.Context, c Call) (json.RawMessage, error) {
			in, err := readDirective(c)
			if err != nil {
				return nil, err
			}
			return statusJSON(c.Turn.Message(ctx, in.Workstream, in.Message))
		},
	},
	{
		Name:        "steer_workstream",
		Description: "Give a workstream a directive without waiting for it to come to a rest.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"workstream_id":{"type":"string"},
			"command":{"type":"string","enum":["add_instruction","set_priority","add_constraint","pause_requested","resume_requested"]},
			"text":{"type":"string"}},"required":["workstream_id","command"]}`),
		Repeatable: true,
		Run: func(ctx context.Context, c Call) (json.RawMessage, error) {
			in, err := readDirective(c)
			if err != nil {
				return nil, err
			}
			return statusJSON(c.Turn.Steer(ctx, in.Workstream, in.Command, in.Text))
		},
	},
	{
		Name:        "terminate_workstream",
		Description: "End a workstream.",
		Parameters:  json.RawMessage(`{"type":"object","properties":{"workstream_id":{"type":"string"},"reason":{"type":"string"}},"required":["workstream_id"]}`),
		Repeatable:  true,
		Run: func(ctx context.Context, c Call) (json.RawMessage, error) {
			in, err := readDirective(c)
			if err != nil {
				return nil, err
			}
			return statusJSON(c.Turn.Terminate(ctx, in.Workstream, in.Reason))
		},
	},
	{
		Name:        "workstream_status",
		Description: "See how a workstream is, or all that you have launched.",
		Parameters:  json.RawMessage(`{"type":"object","properties":{"workstream_id":{"type":"string","description":"Absent means all."}}}`),
		Repeatable:  true,
		Run: func(ctx context.Context, c Call) (json.RawMessage, error) {
			in, err := readDirective(c)
			if err != nil {
				return nil, err
			}
			var names []string
			if in.Workstream != "" {
				names = []string{in.Workstream}
			}
			all, err := c.Turn.Workstreams(ctx, names...)
			if err != nil {
				return nil, asToolError(err)
			}
			return json.Marshal(map[string]any{"workstreams": all})
		},
	},
}

// WorkstreamNames lists the tools for workstreams.
func WorkstreamNames() []string {
	var names []string
	for _, t := range workstreams {
		names = append(names, t.Name)
	}
	return names
}

// directive is the parameters of a tool that directs a workstream.
type directive struct {
	Workstream string `json:"workstream_id"`
	Message    string `json:"message"`
	Command    string `json:"command"`
	Text       string `json:"text"`
	Reason     string `json:"reason"`
}

func readDirective(c Call) (w directive, err error) {
	err = c.Read(&w)
	return w, err
}

// statusJSON is the result of a tool about a workstream: its status.
func statusJSON(status chat.WorkstreamStatus, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, asToolError(err)
	}
	return json.Marshal(status)
}
