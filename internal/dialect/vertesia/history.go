package vertesia

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// runHistory is the history of a run: its events, or its tool calls.
type runHistory struct {
	Type   string      `json:"type"`
	Events []runEvent  `json:"events,omitempty"`
	Tasks  []agentTask `json:"agentTasks,omitempty"`
}

// runEvent is one event.
type runEvent struct {
	ID      chat.Seq        `json:"event_id"`
	Time    chat.At         `json:"event_time"`
	Type    string          `json:"event_type"`
	Attempt int             `json:"attempt"`
	TaskID  string          `json:"task_id,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
}

// agentTask is one tool call.
type agentTask struct {
	Type        string          `json:"taskType"`
	Tool        string          `json:"toolName"`
	UseID       string          `json:"toolUseId,omitempty"`
	RunID       string          `json:"toolRunId,omitempty"`
	ScheduledAt chat.At         `json:"scheduled_at"`
	StartedAt   chat.At         `json:"started_at"`
	CompletedAt *chat.At        `json:"completed_at"`
	Status      string          `json:"status"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Result      string          `json:"result,omitempty"`
	Error       *taskError      `json:"error,omitempty"`
	Workstream  string          `json:"workstreamId,omitempty"`
}

type taskError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// maxHistory bounds the events of a history; the updates have all.
const maxHistory = 10_000

// history returns the last events of a run, or the tool calls among them.
func (d *Dialect) history(ctx context.Context, c chat.Caller, sess run, format string) (*runHistory, error) {
	rng := chat.Range{Limit: maxHistory, Desc: true}
	if sess.workstream != "" {
		rng.Workstream = &sess.workstream
	}
	var events []chat.Event // the last one first
	for e, err := range d.opt.Sessions.Events(ctx, c, sess.ID, rng) {
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	h := &runHistory{Type: format}
	calls := map[string]int{}
	for _, e := range slices.Backward(events) {
		if format == "events" {
			h.Events = append(h.Events, eventOf(&e))
		} else {
			h.task(&e, calls)
		}
	}
	return h, nil
}

func eventOf(e *chat.Event) runEvent {
	return runEvent{ID: e.Seq, Time: e.At, Type: e.Type, Attempt: 1, TaskID: string(e.Turn), Result: e.Payload}
}

// task adds a tool call or a message of a person; a result completes its call.
func (h *runHistory) task(e *chat.Event, calls map[string]int) {
	end := func(call string, f func(*agentTask)) {
		if i, ok := calls[call]; ok {
			at := e.At
			h.Tasks[i].CompletedAt = &at
			f(&h.Tasks[i])
		}
	}
	switch b := e.Body.(type) {
	case chat.AgentToolCall:
		calls[b.CallID] = len(h.Tasks)
		h.Tasks = append(h.Tasks, agentTask{Type: "tool_call", Tool: b.Tool, UseID: b.CallID, RunID: b.CallID, ScheduledAt: e.At, StartedAt: e.At, Status: "running", Parameters: b.Params, Workstream: e.Workstream})
	case chat.AgentToolResult:
		end(b.CallID, func(t *agentTask) { t.Status, t.Result = "completed", string(b.Result) })
	case chat.AgentToolError:
		end(b.CallID, func(t *agentTask) { t.Status, t.Error = "error", &taskError{cmp.Or(b.Code, "error"), b.Error} })
	case chat.UserMessage:
		at := e.At
		h.Tasks = append(h.Tasks, agentTask{Type: "input", Tool: "user_input", ScheduledAt: e.At, StartedAt: e.At, CompletedAt: &at, Status: "received", Result: b.PlainText(), Workstream: e.Workstream})
	}
}

// eventCoding shows the events of a run themselves. It leaves previews out.
type eventCoding struct{}

// Name implements core.Encoding.
func (eventCoding) Name() string { return "vertesia/history" }

// AppendEvent implements core.Encoding. After the event that ends the run it
// appends a control event.
func (eventCoding) AppendEvent(dst []byte, e *core.Entry) []byte {
	ev, err := e.Fact.Event()
	if err != nil {
		return dst
	}
	b, err := json.Marshal(map[string]any{"runId": ev.Session, "event": eventOf(&ev)})
	if err != nil {
		return dst
	}
	dst = wire.AppendSSE(dst, "history", "", b)
	switch ev.Body.(type) {
	case chat.SessionCompleted, chat.SessionFailed:
		dst = wire.AppendSSE(dst, "control", "", []byte(`{"type":"done"}`))
	}
	return dst
}

// AppendPiece implements core.Encoding.
func (eventCoding) AppendPiece(dst []byte, _ *core.Entry) []byte { return dst }

// streamDetails follows the events of a run.
func (d *Dialect) streamDetails(w http.ResponseWriter, r *http.Request, c chat.Caller, sess run) error {
	return d.serveSSE(w, r, wire.SSEOptions{}, func(ctx context.Context, s *wire.Stream) error {
		start := core.Start{Cursor: &chat.Cursor{}, Idle: heartbeat}
		for b, err := range d.opt.Sessions.Watch(ctx, c, sess.ID, start, eventCoding{}) {
			if err != nil {
				return err
			}
			frames := b.Bytes
			if b.Idle {
				frames = wire.AppendSSEComment(nil, "ping")
			}
			if len(frames) == 0 {
				continue
			}
			if err := s.Write(ctx, frames); err != nil {
				return err
			}
		}
		return nil
	})
}
