package vertesia

import (
	"fmt"
	"math"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// toolDetails are those of a tool call, from its start to its outcome under one
// tool_run_id.
type toolDetails struct {
	Class   string          `json:"event_class"`
	Tool    string          `json:"tool"`
	Event   string          `json:"tool_event"`
	Status  string          `json:"tool_status"`
	RunID   string          `json:"tool_run_id,omitempty"`
	UseID   string          `json:"tool_use_id,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   string          `json:"error,omitempty"`
	Percent *int            `json:"percent,omitempty"`
}

func toolMessages(e *chat.Event) ([]message, bool) {
	var d toolDetails
	var text string
	call := func(id, tool, event, status string) {
		d = toolDetails{Class: "activity", Tool: first(tool, "tool"), Event: event, Status: status, RunID: id, UseID: id}
	}
	switch b := e.Body.(type) {
	case chat.AgentToolCall:
		call(b.CallID, b.Tool, "started", "running")
		d.Params, text = b.Params, "Using "+d.Tool+"."
	case chat.AgentToolResult:
		call(b.CallID, b.Tool, "completed", "completed")
		d.Result, text = b.Result, d.Tool+" is done."
	case chat.AgentToolError:
		call(b.CallID, b.Tool, "failed", "error")
		d.Error, text = b.Error, d.Tool+" failed: "+first(b.Error, b.Code, "no reason given")
	case chat.AgentToolProgress:
		if b.BatchID != "" {
			return []message{batchMessage(e, b)}, true
		}
		call(b.CallID, b.Tool, "progress", "running")
		text = first(b.Message, progressText(d.Tool, b))
		if b.Total > 0 {
			share := int(100 * b.Done / b.Total)
			d.Percent = &share
		}
	default:
		return nil, false
	}
	return []message{{t: Thought, text: text, line: e.Workstream, d: detailsOf(d)}}, true
}

func progressText(tool string, b chat.AgentToolProgress) string {
	if b.Total > 0 {
		return fmt.Sprintf("%s: %d of %d.", tool, b.Done, b.Total)
	}
	return fmt.Sprintf("%s: %d.", tool, b.Done)
}

// batchDetails are those of many calls of one tool.
type batchDetails struct {
	BatchID     string              `json:"batch_id"`
	Tool        string              `json:"tool_name"`
	Total       int64               `json:"total"`
	Completed   int64               `json:"completed"`
	Succeeded   int64               `json:"succeeded"`
	Failed      int64               `json:"failed"`
	Items       []chat.ProgressItem `json:"items"`
	StartedAt   float64             `json:"started_at"`
	CompletedAt float64             `json:"completed_at,omitempty"`
}

func batchMessage(e *chat.Event, b chat.AgentToolProgress) message {
	d := batchDetails{BatchID: b.BatchID, Tool: first(b.Tool, "tool"), Total: b.Total, Completed: b.Done, Items: b.Items, StartedAt: millis(e.At)}
	if d.Items == nil {
		d.Items = []chat.ProgressItem{}
	}
	for _, it := range d.Items {
		if it.Status == "error" {
			d.Failed++
		}
	}
	d.Succeeded = max(0, d.Completed-d.Failed)
	if d.Total > 0 && d.Completed >= d.Total {
		d.CompletedAt = millis(e.At)
	}
	return message{t: BatchProgress, text: first(b.Message, progressText(d.Tool, b)), line: e.Workstream, d: detailsOf(d)}
}

// workDetails are those of a parallel line of work. A workstream's id is never
// used twice in a session, so it also serves as its launch_id.
type workDetails struct {
	Class       string   `json:"event_class,omitempty"`
	Event       string   `json:"workstream_event,omitempty"` // launched, progress, warning, completed
	Workstream  string   `json:"workstream_id"`
	Launch      string   `json:"launch_id"`
	Kind        string   `json:"kind,omitempty"`
	Status      string   `json:"status,omitempty"`
	Interaction string   `json:"interaction,omitempty"`
	Name        string   `json:"name,omitempty"`
	Task        string   `json:"task,omitempty"`
	Deadline    float64  `json:"deadline_ms,omitempty"` // how long it may take
	Interactive bool     `json:"interactive,omitempty"`
	ChildID     string   `json:"child_workflow_id,omitempty"`
	ChildRun    string   `json:"child_workflow_run_id,omitempty"`
	Phase       string   `json:"phase,omitempty"`
	Tool        string   `json:"current_tool,omitempty"`
	Step        string   `json:"current_step,omitempty"`
	Iteration   int      `json:"iteration,omitempty"`
	Percent     int      `json:"percent,omitempty"` // of the deadline
	Command     string   `json:"command,omitempty"`
	Summary     string   `json:"summary,omitempty"`
	Error       string   `json:"error,omitempty"`
	Reason      string   `json:"reason,omitempty"`
	Ack         string   `json:"ack,omitempty"`
	Files       []string `json:"outputFiles,omitempty"`
}

// workMessages tell of parallel lines. What an agent launches, and the warnings,
// stand on the line that launched, the rest on the child's own.
func workMessages(e *chat.Event) []message {
	about := func(t Type, id, line, text string, change func(d *workDetails)) []message {
		d := workDetails{Workstream: id, Launch: id}
		change(&d)
		for _, said := range []*string{&d.Step, &d.Summary} {
			if *said == text {
				*said = "" // once is enough: it may be a long one
			}
		}
		return []message{{t: t, text: text, line: line, d: detailsOf(d)}}
	}
	switch b := e.Body.(type) {
	case chat.WorkstreamLaunched:
		line := e.Workstream
		if e.Turn == "" {
			line = b.ID // a line that launched nothing itself may be at rest, and would seem to work from then on
		}
		list := about(Update, b.ID, line, "Started "+first(b.Name, b.ID)+": "+clip(b.Task, 500), func(d *workDetails) {
			d.Class, d.Event, d.Kind, d.Status, d.Interaction = "activity", "launched", "agent", "running", b.Agent
			d.Name, d.Task, d.Interactive, d.Deadline = b.Name, b.Task, b.Interactive, b.DeadlineSeconds*1000
			d.ChildID = childID(e.Session, b.ID)
			d.ChildRun = d.ChildID
		})
		list[0].born = b.ID
		return list
	case chat.WorkstreamProgress:
		list := about(Update, b.ID, b.ID, first(b.Message, b.Summary, phaseText(b.Phase), "Working."), func(d *workDetails) {
			d.Class, d.Event, d.Status, d.Phase, d.Iteration, d.Percent = "activity", "progress", "running", b.Phase, b.Iteration, percent(b.Share)
			d.Step, d.Tool, d.Summary = b.Message, b.Tool, b.Summary
		})
		list[0].rest = b.Phase == chat.PhaseDone
		return list
	case chat.WorkstreamWarning:
		return about(Warning, b.ID, e.Workstream, strings.TrimSpace(fmt.Sprintf("%s has used %d %% of its time. %s", b.ID, percent(b.Share), b.Message)), func(d *workDetails) {
			d.Event, d.Percent = "warning", percent(b.Share)
		})
	case chat.WorkstreamSteered:
		return about(Update, b.ID, b.ID, steerText(b), func(d *workDetails) {
			d.Class, d.Event, d.Command, d.Ack = "activity", "steered", b.Command, e.ClientID
		})
	case chat.WorkstreamMessage:
		return about(Question, b.ID, b.ID, b.Text, func(d *workDetails) { d.Ack = e.ClientID })
	case chat.WorkstreamCanceling:
		return about(Update, b.ID, b.ID, first(b.Reason, "It was told to end."), func(d *workDetails) {
			d.Class, d.Status, d.Reason = "activity", "canceling", b.Reason
		})
	case chat.WorkstreamCompleted:
		return about(Complete, b.ID, b.ID, first(b.Summary, "Completed."), func(d *workDetails) {
			d.Event, d.Status, d.Summary, d.Files = "completed", "completed", b.Summary, b.Files
		})
	case chat.WorkstreamFailed:
		list := about(Error, b.ID, b.ID, first(b.Error, "It failed."), func(d *workDetails) {
			d.Status, d.Error, d.Files = "failed", b.Error, b.Files
		})
		list[0].over = true
		return list
	case chat.WorkstreamTimeout:
		list := about(Warning, b.ID, b.ID, first(b.Summary, "Its time is over."), func(d *workDetails) {
			d.Status, d.Summary, d.Files = "timeout", b.Summary, b.Files
		})
		list[0].over = true
		return list
	case chat.WorkstreamCanceled:
		// Never Terminated: that would close the stream of the whole run.
		list := about(Update, b.ID, b.ID, first(b.Reason, "Canceled."), func(d *workDetails) {
			d.Class, d.Status, d.Reason, d.Files = "activity", "canceled", b.Reason, b.Files
		})
		list[0].over = true
		return list
	}
	return nil
}

// steerText says what a workstream was told, to people.
func steerText(b chat.WorkstreamSteered) string {
	switch b.Command {
	case chat.SteerPriority:
		return "Priority: " + b.Text
	case chat.SteerConstraint:
		return "Constraint: " + b.Text
	case chat.SteerPause:
		return strings.TrimSpace("It was paused. " + b.Text)
	case chat.SteerResume:
		return strings.TrimSpace("It goes on. " + b.Text)
	}
	return first(b.Text, b.Command)
}

func percent(share float64) int {
	if math.IsNaN(share) {
		return 0
	}
	return int(math.Round(100 * min(max(share, 0), 1)))
}

func phaseText(phase string) string {
	switch phase {
	case "planning":
		return "Planning."
	case "executing_tool":
		return "Using a tool."
	case "synthesizing":
		return "Putting it together."
	case "blocked":
		return "Waiting."
	case "done":
		return "Done."
	}
	return ""
}
