package vertesia

import (
	"cmp"
	"strconv"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// posted is a message that a client posted. It is stored in the payload of the
// event under the key vertesia, so that readers of this dialect get it back unchanged.
type posted struct {
	T Type            `json:"t"`
	M string          `json:"m,omitempty"`
	D json.RawMessage `json:"d,omitempty"`
}

// decodePosted reads a message to be posted, in either form. One without a type is
// an update.
func decodePosted(b []byte) (compactMessage, error) {
	m, older, err := parseMessage(b)
	switch {
	case err != nil:
		return m, err
	case older == nil && (m.T < System || m.T > Restarting):
		return m, chat.Errorf(chat.Invalid, "t is a number from 0 to 14")
	case older != nil && string(older.Type) == "14":
		m.T = Restarting // the older form has no name for it
	case older != nil && m.T == StreamingChunk:
		m.D = truthy(older.Details) // they name the stream, which the conversion drops
	}
	return m, nil
}

// knownDetails are the details that decide which event a message becomes.
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
	Activity   string          `json:"activity_id"`
	Stream     string          `json:"streaming_id"`
	BatchID    string          `json:"batch_id"`
	ToolName   string          `json:"tool_name"`
	Total      int64           `json:"total"`
	Completed  int64           `json:"completed"`
	Items      json.RawMessage `json:"items"`
	ProcessRun string          `json:"process_run_id"`
}

// draftOf is the event that a posted message becomes.
func draftOf(m compactMessage) (chat.Draft, error) {
	var d knownDetails
	if len(m.D) > 0 && string(m.D) != "null" {
		if err := json.Unmarshal(m.D, &d); err != nil {
			// Details may have any form: those of another form are only stored.
			d = knownDetails{}
		}
	}
	if block := blockOf(m, &d); block != "" && (m.T == Answer || m.T == Thought && d.Tool == "") {
		// Readers have the chunks that the message replaces under this name.
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
		_ = json.Unmarshal(d.Items, &p.Items) // items of another form stay in the details
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
			m.T = Update // for a workstream: clients would close the stream of the whole run
		}
		body = chat.AgentStatus{Message: m.M, Phase: "done"}
	default: // System, Update, Idle, Restarting
		body = chat.AgentStatus{Message: cmp.Or(m.M, phases[m.T]), Phase: phases[m.T]}
	}
	return postedDraft(m, body)
}

var phases = map[Type]string{Idle: "idle", Restarting: "restarting", System: "system"}

// postedDraft is a draft of body with the posted message beside it.
func postedDraft(m compactMessage, body chat.Body) (chat.Draft, error) {
	draft := chat.Draft{Type: body.Type(), Via: via, Workstream: m.W}
	payload, err := json.Marshal(body)
	if err != nil {
		return draft, err
	}
	if string(m.D) == "null" {
		m.D = nil
	}
	original, err := json.Marshal(posted{m.T, m.M, m.D})
	if err != nil {
		return draft, chat.Errorf(chat.Invalid, "the details are not valid JSON").Because(err)
	}
	draft.Payload = withPosted(payload, original)
	return draft, nil
}

// withActivity sets the block of a message in its details.
func withActivity(d json.RawMessage, block chat.BlockID) json.RawMessage {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(d, &fields) != nil || fields == nil {
		fields = map[string]json.RawMessage{}
	}
	fields["activity_id"] = json.AppendString(nil, string(block))
	b, err := json.Marshal(fields)
	if err != nil {
		return d
	}
	return b
}

// withPosted adds the posted message to the payload of its event.
func withPosted(payload, original []byte) json.RawMessage {
	b := append(make([]byte, 0, len(payload)+len(original)+16), payload[:len(payload)-1]...)
	if len(b) > 1 {
		b = append(b, ',')
	}
	return append(append(append(b, `"vertesia":`...), original...), '}')
}

func thoughtOf(m compactMessage, d *knownDetails) chat.Body {
	call := cmp.Or(d.RunID, d.UseID)
	if d.Tool == "" {
		return chat.AgentThinking{Text: m.M, Block: blockOf(m, d)}
	}
	switch d.Event {
	case "completed":
		return chat.AgentToolResult{CallID: call, Tool: d.Tool, Result: d.Result}
	case "failed":
		return chat.AgentToolError{CallID: call, Tool: d.Tool, Error: cmp.Or(m.M, string(d.Error))}
	case "progress":
		return chat.AgentToolProgress{CallID: call, Tool: d.Tool, Message: m.M}
	}
	return chat.AgentToolCall{CallID: call, Tool: d.Tool, Params: d.Params}
}

func tasksOf(plan []planTask) []chat.Task {
	tasks := []chat.Task{}
	for _, p := range plan {
		t := chat.Task{ID: strconv.Itoa(p.ID), Title: p.Goal, Status: cmp.Or(p.Status, "pending"), Detail: cmp.Or(append(p.Instructions, p.Comment)...)}
		if t.Status == "completed" {
			t.Status = "done"
		}
		tasks = append(tasks, t)
	}
	return tasks
}

// requestOf is the prompt of a posted question: an approval of a tool, or an input.
func requestOf(m compactMessage, d *knownDetails) chat.Body {
	if a := d.Approval; a != nil && a.Key != "" {
		about := map[string]string{}
		if a.Target != "" {
			about["target"] = a.Target
		}
		if a.Summary != "" {
			about["action_summary"] = a.Summary
		}
		params, _ := json.Marshal(about) // a map of texts can always be written
		return chat.AgentApprovalRequest{RequestID: cmp.Or(d.RequestID, a.Key), Text: m.M, Calls: []chat.ApprovalCall{{CallID: a.Key, Tool: cmp.Or(a.Tool, "tool"), Params: params}}}
	}
	in := chat.AgentInputRequest{RequestID: cmp.Or(d.RequestID, d.UseID), InputType: chat.InputText, Text: m.M}
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
	case len(in.Options) == 0 || d.UX.Free != nil: // a free answer is allowed
	case d.UX.Multiple:
		in.InputType = chat.InputCheckbox
	default:
		in.InputType = chat.InputRadio
	}
	return in
}

// blockOf is the block that a posted message continues or finishes: its activity,
// else its stream, with characters replaced that a block's name cannot have.
func blockOf(m compactMessage, d *knownDetails) chat.BlockID {
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
