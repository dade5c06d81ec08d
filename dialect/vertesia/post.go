package vertesia

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// posted is a message that somebody posted in this protocol, kept beside what it
// means, so that readers here get it back word for word.
type posted struct {
	T Type            `json:"t"`
	M string          `json:"m,omitempty"`
	D json.RawMessage `json:"d,omitempty"`
}

// postUpdate takes a message of an agent that runs elsewhere.
func (d *Dialect) postUpdate(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	b, err := d.body(r)
	if err != nil {
		return err
	}
	m, err := decodePosted(b)
	if err != nil {
		return err
	}
	sess, err := d.run(r, c)
	if err != nil {
		return err
	}
	if sess.line != "" && m.W == "" {
		m.W = sess.line
	}
	if m.T == StreamingChunk {
		err = d.postChunk(r.Context(), c, sess.ID, m)
	} else {
		err = d.postMessage(r.Context(), c, sess.ID, m)
	}
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, map[string]bool{"success": true})
	return nil
}

// decodePosted reads a message to be posted: either form; one without a type is
// an update.
func decodePosted(b []byte) (CompactMessage, error) {
	var keys struct {
		T       json.RawMessage `json:"t"`
		Type    json.RawMessage `json:"type"`
		Details json.RawMessage `json:"details"`
	}
	if err := decode(b, &keys); err != nil {
		return CompactMessage{}, err
	}
	if keys.T != nil {
		m, err := ParseMessage(b)
		if err == nil && (m.T < System || m.T > Restarting) {
			err = chat.Errorf(chat.Invalid, "t is a number from 0 to 14")
		}
		return m, err
	}
	var old AgentMessage
	if err := old.UnmarshalJSON(b); err != nil {
		return CompactMessage{}, err
	}
	m := ToCompactMessage(old)
	if string(keys.Type) == "14" {
		m.T = Restarting // the older form has no word for it, but means it
	}
	if m.T == StreamingChunk {
		// Which stream it belongs to does not survive the conversion.
		m.D = truthy(keys.Details)
	}
	return m, nil
}

// postMessage stores a message as what it means, together with its own words.
func (d *Dialect) postMessage(ctx context.Context, c chat.Caller, id chat.SessionID, m CompactMessage) error {
	draft, err := draftOf(m)
	if err != nil {
		return err
	}
	drafts := []chat.Draft{draft}
	if draft.Body == nil {
		if err := draft.Settle(); err != nil {
			return err
		}
	}
	if block := chat.FinishedBlock(draft.Body); block != "" {
		release := d.lock.hold(id)
		defer release()
		if drafts, err = d.finish(ctx, c, id, draft, block); err != nil {
			return err
		}
	}
	_, err = d.opt.Sessions.Append(ctx, c, id, drafts)
	return err
}

// finish ends the block whose chunks a posted message replaces. What was shown
// is never taken back: when the message says something else, the block is
// ended as it was shown, and the message stands on its own.
func (d *Dialect) finish(ctx context.Context, c chat.Caller, id chat.SessionID, draft chat.Draft, block chat.BlockID) ([]chat.Draft, error) {
	open, err := d.opt.Sessions.Blocks(ctx, c, id)
	if err != nil {
		return nil, err
	}
	for _, b := range open {
		if b.ID != block {
			continue
		}
		var shown chat.Body = chat.AgentText{Block: block, Text: b.Text, Partial: true}
		switch said := draft.Body.(type) {
		case chat.AgentText:
			if strings.HasPrefix(said.Text, b.Text) && b.Kind == chat.TextBlock {
				return []chat.Draft{draft}, nil
			}
			said.Block = ""
			draft.Body = said
		case chat.AgentThinking:
			if strings.HasPrefix(said.Text, b.Text) && b.Kind == chat.ThinkingBlock {
				return []chat.Draft{draft}, nil
			}
			said.Block = ""
			draft.Body = said
		}
		if b.Kind == chat.ThinkingBlock {
			shown = chat.AgentThinking{Block: block, Text: b.Text, Partial: true}
		}
		first := chat.NewDraft(shown)
		first.Workstream, first.Via = b.Workstream, via
		own := draft.Payload
		if draft, err = draft.WithBody(draft.Body); err != nil {
			return nil, err
		}
		if draft.Payload, err = withPosted(draft.Payload, own); err != nil {
			return nil, err
		}
		draft.Body = nil // read again from the payload
		return []chat.Draft{first, draft}, nil
	}
	return []chat.Draft{draft}, nil
}

// withPosted adds the message's own words, as they stand in another payload.
func withPosted(payload, from json.RawMessage) (json.RawMessage, error) {
	var own struct {
		Vertesia json.RawMessage `json:"vertesia"`
	}
	if err := json.Unmarshal(from, &own); err != nil {
		return nil, malformed(err)
	}
	return join(payload, own.Vertesia), nil
}

// join adds the key vertesia to an object.
func join(object, own []byte) json.RawMessage {
	b := append(make([]byte, 0, len(object)+len(own)+16), object[:len(object)-1]...)
	if len(b) > 1 {
		b = append(b, ',')
	}
	return append(append(append(b, `"vertesia":`...), own...), '}')
}

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

func requestOf(m CompactMessage, d *knownDetails) chat.AgentInputRequest {
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

// postChunk shows a chunk. Chunks have no offsets, so they are put behind each
// other in the order in which they come.
func (d *Dialect) postChunk(ctx context.Context, c chat.Caller, id chat.SessionID, m CompactMessage) error {
	if m.M == "" {
		return nil // the end of a stream without text: its final message ends it
	}
	var known knownDetails
	_ = json.Unmarshal(m.D, &known) // details are open
	block := blockOf(m, &known)
	if block == "" {
		block = "chunks"
	}
	release := d.lock.hold(id)
	defer release()
	open, err := d.opt.Sessions.Blocks(ctx, c, id)
	if err != nil {
		return err
	}
	p := chat.Preview{Block: block, Text: m.M, Workstream: m.W, Kind: chat.TextBlock}
	for _, b := range open {
		if b.ID == block {
			p.Offset = len(b.Text)
		}
	}
	return d.opt.Sessions.Preview(ctx, c, id, []chat.Preview{p})
}

// telemetry keeps what a worker reports of itself.
func (d *Dialect) telemetry(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var in struct {
		Events []json.RawMessage `json:"events"`
	}
	if err := d.read(r, &in); err != nil {
		return err
	}
	sess, err := d.run(r, c)
	if err != nil {
		return err
	}
	if len(in.Events) > 0 {
		draft, err := ownDraft(typeTelemetry, in)
		if err != nil {
			return err
		}
		if _, err := d.opt.Sessions.Append(r.Context(), c, sess.ID, []chat.Draft{draft}); err != nil {
			return err
		}
	}
	d.send(w, r, http.StatusOK, map[string]int{"ingested": len(in.Events)})
	return nil
}
