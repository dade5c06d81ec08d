package vertesia

import (
	"strconv"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// knownDetails are the details that decide what a message means.
type knownDetails struct {
	Tool       string          `json:"tool"`
	Event      string          `json:"tool_event"`
	RunID      string          `json:"tool_run_id"`
	UseID      string          `json:"tool_use_id"`
	Params     json.RawMessage `json:"params"`
	Result     json.RawMessage `json:"result"`
	Error      json.RawMessage `json:"error"`
	Plan       []planTask      `json:"plan"`
	RequestID  string          `json:"request_id"`
	UX         *ux             `json:"ux"`
	Approval   *toolApproval   `json:"tool_approval"`
	Ack        string          `json:"ack"`
	Activity   string          `json:"activity_id"`
	Stream     string          `json:"streaming_id"`
	BatchID    string          `json:"batch_id"`
	ToolName   string          `json:"tool_name"`
	Total      int64           `json:"total"`
	Completed  int64           `json:"completed"`
	Items      json.RawMessage `json:"items"`
	Class      string          `json:"event_class"`
	Path       string          `json:"path"`
	ProcessRun string          `json:"process_run_id"`
}

// draftOf is what a posted message means to everybody else.
func draftOf(m CompactMessage) (chat.Draft, error) {
	var d knownDetails
	if len(m.D) > 0 && string(m.D) != "null" {
		if err := json.Unmarshal(m.D, &d); err != nil {
			// Details are open: what does not fit our reading is only kept.
			d = knownDetails{}
		}
	}
	if block := blockOf(m, &d); block != "" && (m.T == Answer || m.T == Thought && d.Tool == "") {
		// The name under which readers have the chunks that it replaces.
		m.D = withActivity(m.D, block)
	}
	var body chat.Body
	switch m.T {
	case Thought:
		body = thoughtOf(m, &d)
	case Plan:
		body = chat.AgentPlan{Tasks: tasksOf(d.Plan), Comment: m.M}
	case Warning:
		body = chat.AgentError{Message: m.M, Recoverable: true}
	case Error:
		body = chat.AgentError{Message: m.M}
	case Answer:
		body = chat.AgentText{Text: m.M, Final: true, Block: blockOf(m, &d)}
	case Question:
		if m.M == "" {
			return chat.Draft{}, chat.Errorf(chat.Invalid, "a question needs a message")
		}
		body = chat.UserMessage{Text: m.M}
	case RequestInput:
		body = requestOf(m, &d)
	case BatchProgress:
		p := chat.AgentToolProgress{BatchID: d.BatchID, Tool: d.ToolName, Done: d.Completed, Total: d.Total, Message: m.M}
		_ = json.Unmarshal(d.Items, &p.Items) // items of another form are kept in the details
		body = p
	case Complete, Terminated:
		if m.W == "" && d.ProcessRun == "" {
			end := chat.SessionCompleted{Outcome: m.M}
			if m.T == Terminated {
				end.Outcome = outcomeCancelled
			}
			body = end
			break
		}
		if m.T == Terminated {
			m.T = Update // on a line beside the main one it would close the whole run
		}
		body = chat.AgentStatus{Message: m.M, Phase: "done"}
	default: // System, Update, Idle, Restarting
		body = chat.AgentStatus{Message: first(m.M, statusWord[m.T]), Phase: statusWord[m.T]}
	}
	return postedDraft(m, body)
}

var statusWord = map[Type]string{Idle: "idle", Restarting: "restarting", System: "system"}

// postedDraft stores body with the message's own words beside it.
func postedDraft(m CompactMessage, body chat.Body) (chat.Draft, error) {
	draft := chat.Draft{Type: body.Type(), Via: via, Workstream: m.W}
	plain, err := marshal(body)
	if err != nil {
		return draft, err
	}
	own, err := marshal(posted{m.T, m.M, nullless(m.D)})
	if err != nil {
		return draft, chat.Errorf(chat.Invalid, "the details are not valid JSON").Because(err)
	}
	draft.Payload = join(plain, own)
	return draft, nil
}

func withActivity(d json.RawMessage, block chat.BlockID) json.RawMessage {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(d, &fields) != nil || fields == nil {
		fields = map[string]json.RawMessage{}
	}
	fields["activity_id"] = chat.AppendString(nil, string(block))
	b, err := marshal(fields)
	if err != nil {
		return d
	}
	return b
}

func nullless(d json.RawMessage) json.RawMessage {
	if string(d) == "null" {
		return nil
	}
	return d
}

func thoughtOf(m CompactMessage, d *knownDetails) chat.Body {
	call := first(d.RunID, d.UseID)
	if d.Tool == "" {
		return chat.AgentThinking{Text: m.M, Block: blockOf(m, d)}
	}
	switch d.Event {
	case "completed":
		return chat.AgentToolResult{CallID: call, Tool: d.Tool, Result: d.Result}
	case "failed":
		return chat.AgentToolError{CallID: call, Tool: d.Tool, Error: first(m.M, string(d.Error))}
	case "progress":
		return chat.AgentToolProgress{CallID: call, Tool: d.Tool, Message: m.M}
	}
	return chat.AgentToolCall{CallID: call, Tool: d.Tool, Params: d.Params}
}

func tasksOf(plan []planTask) []chat.Task {
	tasks := []chat.Task{}
	for _, p := range plan {
		t := chat.Task{ID: strconv.Itoa(p.ID), Title: p.Goal, Status: first(p.Status, "pending"), Detail: first(append(p.Instructions, p.Comment)...)}
		if t.Status == "completed" {
			t.Status = "done"
		}
		tasks = append(tasks, t)
	}
	return tasks
}

// requestOf is what a posted question asks: for leave to use a tool, or for an
// answer.
func requestOf(m CompactMessage, d *knownDetails) chat.Body {
	if a := d.Approval; a != nil && a.Key != "" {
		about := map[string]string{}
		if a.Target != "" {
			about["target"] = a.Target
		}
		if a.Summary != "" {
			about["action_summary"] = a.Summary
		}
		params, _ := marshal(about) // texts always can be written
		return chat.AgentApprovalRequest{RequestID: first(d.RequestID, a.Key), Text: m.M, Calls: []chat.ApprovalCall{{CallID: a.Key, Tool: first(a.Tool, "tool"), Params: params}}}
	}
	in := chat.AgentInputRequest{RequestID: first(d.RequestID, d.UseID), InputType: chat.InputText, Text: m.M}
	if d.UX == nil {
		return in
	}
	if d.UX.Free != nil {
		in.Placeholder = d.UX.Free.Placeholder
	}
	for _, o := range d.UX.Options {
		in.Options = append(in.Options, chat.Option{ID: o.ID, Label: o.Label, Description: o.Description})
	}
	switch {
	case len(in.Options) == 0 || d.UX.Free != nil: // an answer in one's own words is one, too
	case d.UX.Multiple:
		in.InputType = chat.InputCheckbox
	default:
		in.InputType = chat.InputRadio
	}
	return in
}

// blockOf is the block that a posted message finishes or continues: its activity,
// else its stream, where that can be a name here.
func blockOf(m CompactMessage, d *knownDetails) chat.BlockID {
	for _, name := range []string{m.I, d.Activity, d.Stream} {
		if name == "" {
			continue
		}
		b := []byte(name)
		for i, c := range b {
			if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' {
				continue
			}
			b[i] = '-'
		}
		if id := chat.BlockID(b); id.Validate() == nil {
			return id
		}
	}
	return ""
}
