package vertesia

import (
	"context"
	"maps"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// workstreams is the part of the door that leads to parallel lines of work. A
// workstream's own id serves as its launch_id here.
type workstreams interface {
	Launch(ctx context.Context, c chat.Caller, id chat.SessionID, l chat.Launch) (chat.WorkstreamStatus, error)
	MessageWorkstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string, m chat.Steering) (chat.WorkstreamStatus, error)
	SteerWorkstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string, s chat.Steering) (chat.WorkstreamStatus, error)
	TerminateWorkstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string, s chat.Steering) (chat.WorkstreamStatus, error)
	Workstreams(ctx context.Context, c chat.Caller, id chat.SessionID) ([]chat.WorkstreamStatus, error)
	StopAll(ctx context.Context, c chat.Caller, id chat.SessionID, reason string) (chat.StopResult, error)
	Fork(ctx context.Context, c chat.Caller, id chat.SessionID, f chat.Fork) (chat.Session, error)
}

func (d *Dialect) terminateWorkstream(ctx context.Context, c chat.Caller, sess run, line, reason string) error {
	_, err := d.opt.Sessions.TerminateWorkstream(ctx, c, sess.ID, line, chat.Steering{Text: reason})
	return err
}

// tellWorkstream says something to a child.
func (d *Dialect) tellWorkstream(ctx context.Context, c chat.Caller, sess run, line string, in userInput) (string, error) {
	_, err := d.opt.Sessions.MessageWorkstream(ctx, c, sess.ID, line, chat.Steering{Text: in.Message, ClientID: key(in.ClientID)})
	if err != nil {
		return "", err
	}
	return "The message was received.", nil
}

// workOrder is what the signals about workstreams carry: the parameters of the
// tools of the same name.
type workOrder struct {
	chat.Launch
	LaunchID string          `json:"launch_id"`
	Message  string          `json:"message"`
	Command  string          `json:"command"`
	Payload  json.RawMessage `json:"payload"`
	Text     string          `json:"text"`
	Reason   string          `json:"reason"`
	Ack      string          `json:"client_message_id"`
}

// workSignal takes the signals by which a client steers children; they are named
// like the tools by which an agent does.
func (d *Dialect) workSignal(ctx context.Context, c chat.Caller, sess run, name string, payload json.RawMessage) (reply signalReply, ok bool, err error) {
	reply.Status = "ok"
	switch name {
	case "launch_workstream", "message_workstream", "steer_workstream", "terminate_workstream":
	default:
		return reply, false, nil
	}
	var in workOrder
	if err := decodeSignal(name, payload, &in); err != nil {
		return reply, true, err
	}
	client := first(in.ClientID, key(in.Ack))
	line := first(in.LaunchID, in.Parent, in.ID, sess.line)
	if line == "" && name != "launch_workstream" {
		return reply, true, chat.Errorf(chat.Invalid, "which workstream? Give its launch_id")
	}
	switch name {
	case "launch_workstream":
		l := in.Launch
		l.Parent, l.ClientID, l.Turn, l.Attempt = sess.line, client, "", 0
		var launched chat.WorkstreamStatus
		launched, err = d.opt.Sessions.Launch(ctx, c, sess.ID, l)
		reply.Message, reply.Launch, reply.Workstream = "The workstream was launched.", launched.ID, launched.ID
	case "message_workstream":
		_, err = d.opt.Sessions.MessageWorkstream(ctx, c, sess.ID, line, chat.Steering{Text: first(in.Message, in.Text), ClientID: client})
		reply.Message = "The message was received."
	case "steer_workstream":
		text := first(in.Text, in.Message)
		if text == "" && truthy(in.Payload) != nil {
			if json.Unmarshal(in.Payload, &text) != nil {
				text = string(in.Payload)
			}
		}
		_, err = d.opt.Sessions.SteerWorkstream(ctx, c, sess.ID, line, chat.Steering{Command: in.Command, Text: text, ClientID: client})
		reply.Message = "The workstream was steered."
	default:
		err = d.terminateWorkstream(ctx, c, sess, line, first(in.Reason, in.Message))
		reply.Message = "The workstream was told to end."
	}
	return reply, true, err
}

// byWorkstream names a workstream in the details of an error as messages name it: its
// own id is also its launch_id here.
func byWorkstream(details map[string]any) map[string]any {
	id, ok := details["workstream_id"]
	if _, launched := details["launch_id"]; !ok || !launched {
		return details
	}
	out := maps.Clone(details)
	out["launch_id"] = id
	return out
}

// forkRun begins a run that shares this one's past.
func (d *Dialect) forkRun(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	sess, err := d.whole(r, c)
	if err != nil {
		return err
	}
	fork, err := d.opt.Sessions.Fork(r.Context(), c, sess.ID, chat.Fork{Title: sess.Title, Metadata: sess.Metadata})
	if err != nil {
		return err
	}
	return d.sendRun(w, r, c, fork.ID)
}

// progressInfo is how far a workstream has come.
type progressInfo struct {
	Launch     string  `json:"launch_id"`
	Workstream string  `json:"workstream_id"`
	Phase      string  `json:"phase"`
	Step       string  `json:"current_step,omitempty"`
	Tool       string  `json:"current_tool,omitempty"`
	Percent    int     `json:"percent"`
	UpdatedAt  float64 `json:"updated_at"`
}

// workstreamEntry is a workstream that runs or has ended.
type workstreamEntry struct {
	Launch      string        `json:"launch_id"`
	Workstream  string        `json:"workstream_id"`
	Kind        string        `json:"kind"`
	Name        string        `json:"name,omitempty"`
	Interaction string        `json:"interaction"`
	StartedAt   float64       `json:"started_at"`
	Status      string        `json:"status"`
	ChildID     string        `json:"child_workflow_id"`
	ChildRun    string        `json:"child_workflow_run_id"`
	Elapsed     *int64        `json:"elapsed_ms,omitempty"`
	Deadline    *int64        `json:"deadline_ms,omitempty"`
	Latest      *progressInfo `json:"latest_progress,omitempty"`
	Summary     string        `json:"summary,omitempty"`
	Error       string        `json:"error,omitempty"`
	Duration    *int64        `json:"duration_ms,omitempty"`
	Last        *progressInfo `json:"last_progress,omitempty"`
}

type workstreamList struct {
	Running   []workstreamEntry `json:"running"`
	Completed []workstreamEntry `json:"completed"`
}

// activeWorkstreams lists the workstreams of a run, or the children of one.
func (d *Dialect) activeWorkstreams(ctx context.Context, c chat.Caller, sess run) (workstreamList, error) {
	out := workstreamList{Running: []workstreamEntry{}, Completed: []workstreamEntry{}}
	all, err := d.opt.Sessions.Workstreams(ctx, c, sess.ID)
	if err != nil {
		return out, err
	}
	for i := range all {
		ws := &all[i]
		if sess.line != "" && ws.Parent != sess.line {
			continue
		}
		id := childID(sess.ID, ws.ID)
		e := workstreamEntry{
			Launch: ws.ID, Workstream: ws.ID, Kind: "agent", Name: ws.Name, Interaction: first(ws.Agent, sess.Agent), StartedAt: millis(ws.StartedAt),
			Status: ws.State, ChildID: id, ChildRun: id,
		}
		var progress *progressInfo
		if ws.Phase != "" {
			progress = &progressInfo{Launch: ws.ID, Workstream: ws.ID, Phase: ws.Phase, Step: ws.Message, Tool: ws.Tool, Percent: percent(ws.Share), UpdatedAt: millis(max(ws.ProgressAt, ws.StartedAt))}
		}
		if ws.EndedAt != 0 {
			e.Duration, e.Summary, e.Error, e.Last = &ws.DurationMS, ws.Summary, ws.Error, progress
			out.Completed = append(out.Completed, e)
			continue
		}
		most := int64(ws.DeadlineSeconds * 1000)
		e.Elapsed, e.Deadline, e.Latest = &ws.ElapsedMS, &most, progress
		out.Running = append(out.Running, e)
	}
	return out, nil
}
