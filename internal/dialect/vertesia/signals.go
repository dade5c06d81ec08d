package vertesia

import (
	"cmp"
	"context"
	"maps"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// signalReply answers a signal.
type signalReply struct {
	Status     string `json:"status"`
	Message    string `json:"message"`
	Launch     string `json:"launch_id,omitempty"` // of the workstream that was launched
	Workstream string `json:"workstream_id,omitempty"`
}

// signal takes a signal over HTTP.
func (d *Dialect) signal(r *http.Request, c chat.Caller, sess run) (any, error) {
	b, err := d.http.Body(r)
	if err != nil {
		return nil, err
	}
	return d.takeSignal(r.Context(), c, sess, r.PathValue("name"), b)
}

// takeSignal does what a signal asks for.
func (d *Dialect) takeSignal(ctx context.Context, c chat.Caller, sess run, name string, payload json.RawMessage) (signalReply, error) {
	reply := signalReply{Status: "ok"}
	var err error
	switch name {
	case "UserInput":
		var in userInput
		if err := decodeSignal(name, payload, &in); err != nil {
			return reply, err
		}
		reply.Message, err = d.userInput(ctx, c, sess, in)
	case "Stop":
		var in userInput
		if len(payload) > 0 {
			if err := decodeSignal(name, payload, &in); err != nil {
				return reply, err
			}
		}
		reply.Message, err = d.stop(ctx, c, sess, in)
	case "FileUploaded", "FileRemoved", "FileBatchClosed":
		reply.Message, err = d.changeAttachments(ctx, c, sess, name, payload)
	case "ModelConfigChanged", "McpConfigChanged", "ToolApprovalModeChanged":
		reply.Message, err = d.changeSettings(ctx, c, sess, name, payload)
	case "TriggerCheckpoint":
		reply.Message = "The conversation is summarised before the next answer."
		_, err = d.opt.Sessions.Update(ctx, c, sess.ID, chat.SessionUpdated{Compact: true})
	case "launch_workstream", "message_workstream", "steer_workstream", "terminate_workstream":
		err = d.workstreamSignal(ctx, c, sess, name, payload, &reply)
	default:
		reply.Message = "The signal was stored."
		err = d.storeSignal(ctx, c, sess, name, payload)
	}
	return reply, err
}

func decodeSignal(name string, payload json.RawMessage, v any) error {
	if len(payload) == 0 || string(payload) == "null" {
		return chat.Errorf(chat.Invalid, "the signal %s needs a payload", name)
	}
	return decode(payload, v)
}

// storeSignal stores a signal that this dialect has no meaning for. Agents can
// read it.
func (d *Dialect) storeSignal(ctx context.Context, c chat.Caller, sess run, name string, payload json.RawMessage) error {
	if name == "" || len(name) > 128 {
		return chat.Errorf(chat.Invalid, "a signal's name has 1 to 128 bytes")
	}
	content := json.RawMessage("{}")
	if len(payload) > 0 {
		if err := decode(payload, &content); err != nil {
			return err
		}
	}
	draft := dialectDraft(typeSignal, map[string]any{"name": name, "payload": content})
	draft.Workstream = sess.workstream
	return d.append(ctx, c, sess.ID, draft)
}

// clientID is a client's message id as an idempotency key; one that is too long
// is none.
func clientID(id string) string {
	if len(id) > chat.MaxClientID {
		return ""
	}
	return id
}

// workstreamOrder is the payload of the signals about workstreams: the parameters
// of the agents' tools with the same names.
type workstreamOrder struct {
	chat.Launch
	LaunchID string          `json:"launch_id"`
	Message  string          `json:"message"`
	Command  string          `json:"command"`
	Payload  json.RawMessage `json:"payload"`
	Text     string          `json:"text"`
	Reason   string          `json:"reason"`
	Ack      string          `json:"client_message_id"`
}

// workstreamSignal takes a signal about a workstream.
func (d *Dialect) workstreamSignal(ctx context.Context, c chat.Caller, sess run, name string, payload json.RawMessage, reply *signalReply) error {
	var in workstreamOrder
	if err := decodeSignal(name, payload, &in); err != nil {
		return err
	}
	client := cmp.Or(in.ClientID, clientID(in.Ack))
	if name == "launch_workstream" {
		l := in.Launch
		l.Parent, l.ClientID, l.Turn, l.Attempt = sess.workstream, client, "", 0
		launched, err := d.opt.Sessions.Launch(ctx, c, sess.ID, l)
		reply.Message, reply.Launch, reply.Workstream = "The workstream was launched.", launched.ID, launched.ID
		return err
	}
	id := cmp.Or(in.LaunchID, in.Parent, in.ID, sess.workstream)
	if id == "" {
		return chat.Errorf(chat.Invalid, "launch_id is missing: it names the workstream")
	}
	var err error
	switch name {
	case "message_workstream":
		reply.Message = "The message was received."
		_, err = d.opt.Sessions.MessageWorkstream(ctx, c, sess.ID, id, chat.Steering{Text: cmp.Or(in.Message, in.Text), ClientID: client})
	case "steer_workstream":
		text := cmp.Or(in.Text, in.Message)
		if text == "" && truthy(in.Payload) != nil && json.Unmarshal(in.Payload, &text) != nil {
			text = string(in.Payload)
		}
		reply.Message = "The workstream was steered."
		_, err = d.opt.Sessions.SteerWorkstream(ctx, c, sess.ID, id, chat.Steering{Command: in.Command, Text: text, ClientID: client})
	default:
		reply.Message = "The workstream was told to end."
		_, err = d.opt.Sessions.TerminateWorkstream(ctx, c, sess.ID, id, chat.Steering{Text: cmp.Or(in.Reason, in.Message)})
	}
	return err
}

// withLaunchID names a workstream in the details of an error as messages do: its
// id is also its launch_id.
func withLaunchID(details map[string]any) map[string]any {
	id, ok := details["workstream_id"]
	if _, launched := details["launch_id"]; !ok || !launched {
		return details
	}
	out := maps.Clone(details)
	out["launch_id"] = id
	return out
}
