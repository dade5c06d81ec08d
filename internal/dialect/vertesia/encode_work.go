package vertesia

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// toolDetails are the details of a tool call, which has one tool_run_id from its
// start to its result.
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

// toolMessages are the messages about the calls of tools.
func toolMessages(e *chat.Event) ([]message, bool) {
	var d toolDetails
	var text string
	switch b := e.Body.(type) {
	case chat.AgentToolCall:
		d = toolDetails{Tool: b.Tool, RunID: b.CallID, Event: "started", Status: "running", Params: b.Params}
		text = "Using " + toolName(b.Tool) + "."
	case chat.AgentToolResult:
		d = toolDetails{Tool: b.Tool, RunID: b.CallID, Event: "completed", Status: "completed", Result: b.Result}
		text = toolName(b.Tool) + " is done."
	case chat.AgentToolError:
		d = toolDetails{Tool: b.Tool, RunID: b.CallID, Event: "failed", Status: "error", Error: b.Error}
		text = toolName(b.Tool) + " failed: " + cmp.Or(b.Error, b.Code, "no reason given")
	case chat.AgentToolProgress:
		if b.BatchID != "" {
			return []message{batchMessage(e, b)}, true
		}
		d = toolDetails{Tool: b.Tool, RunID: b.CallID, Event: "progress", Status: "running"}
		text = progressText(b)
		if b.Total > 0 {
			share := int(100 * b.Done / b.Total)
			d.Percent = &share
		}
	default:
		return nil, false
	}
	d.Class, d.Tool, d.UseID = "activity", toolName(d.Tool), d.RunID
	return one(e, Thought, text, d), true
}

func toolName(tool string) string { return cmp.Or(tool, "tool") }

func progressText(b chat.AgentToolProgress) string {
	switch {
	case b.Message != "":
		return b.Message
	case b.Total > 0:
		return fmt.Sprintf("%s: %d of %d.", toolName(b.Tool), b.Done, b.Total)
	}
	return fmt.Sprintf("%s: %d.", toolName(b.Tool), b.Done)
}

// batchDetails are the details of many calls of one tool.
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
	d := batchDetails{BatchID: b.BatchID, Tool: toolName(b.Tool), Total: b.Total, Completed: b.Done, Items: b.Items, StartedAt: millis(e.At)}
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
	return message{t: BatchProgress, text: progressText(b), workstream: e.Workstream, d: detailsOf(d)}
}

// workDetails are the details of a workstream. Its id is never used twice in a
// session, so it is also its launch_id.
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

// workMessages are the messages about a workstream. They are on its own line,
// except what its parent launches and the warnings to the parent.
func workMessages(e *chat.Event) []message {
	var m message
	var d workDetails
	switch b := e.Body.(type) {
	case chat.WorkstreamLaunched:
		// A person launches on the new line: clients would show the parent as working.
		m = message{t: Update, text: "Started " + cmp.Or(b.Name, b.ID) + ": " + text.Clip(b.Task, 500), workstream: b.ID, launched: b.ID}
		if e.Turn != "" {
			m.workstream = e.Workstream
		}
		id := runID(e.Session, b.ID)
		d = workDetails{
			Class: "activity", Event: "launched", Workstream: b.ID, Kind: "agent", Status: "running", Interaction: b.Agent, Name: b.Name, Task: b.Task,
			Interactive: b.Interactive, Deadline: b.DeadlineSeconds * 1000, ChildID: id, ChildRun: id,
		}
	case chat.WorkstreamProgress:
		m = message{t: Update, text: cmp.Or(b.Message, b.Summary, phaseTexts[b.Phase], "Working."), workstream: b.ID, idle: b.Phase == chat.PhaseDone}
		d = workDetails{
			Class: "activity", Event: "progress", Workstream: b.ID, Status: "running", Phase: b.Phase, Iteration: b.Iteration, Percent: percent(b.Share),
			Step: b.Message, Tool: b.Tool, Summary: b.Summary,
		}
	case chat.WorkstreamWarning:
		used := percent(b.Share)
		m = message{t: Warning, text: strings.TrimSpace(fmt.Sprintf("%s has used %d %% of its time. %s", b.ID, used, b.Message)), workstream: e.Workstream}
		d = workDetails{Event: "warning", Workstream: b.ID, Percent: used}
	case chat.WorkstreamSteered:
		m = message{t: Update, text: steerText(b), workstream: b.ID}
		d = workDetails{Class: "activity", Event: "steered", Workstream: b.ID, Command: b.Command, Ack: e.ClientID}
	case chat.WorkstreamMessage:
		m = message{t: Question, text: b.Text, workstream: b.ID}
		d = workDetails{Workstream: b.ID, Ack: e.ClientID}
	case chat.WorkstreamCanceling:
		m = message{t: Update, text: cmp.Or(b.Reason, "It was told to end."), workstream: b.ID}
		d = workDetails{Class: "activity", Workstream: b.ID, Status: "canceling", Reason: b.Reason}
	case chat.WorkstreamCompleted:
		m = message{t: Complete, text: cmp.Or(b.Summary, "Completed."), workstream: b.ID}
		d = workDetails{Event: "completed", Workstream: b.ID, Status: "completed", Summary: b.Summary, Files: b.Files}
	case chat.WorkstreamFailed:
		m = message{t: Error, text: cmp.Or(b.Error, "It failed."), workstream: b.ID, ended: true}
		d = workDetails{Workstream: b.ID, Status: "failed", Error: b.Error, Files: b.Files}
	case chat.WorkstreamTimeout:
		m = message{t: Warning, text: cmp.Or(b.Summary, "Its time is over."), workstream: b.ID, ended: true}
		d = workDetails{Workstream: b.ID, Status: "timeout", Summary: b.Summary, Files: b.Files}
	case chat.WorkstreamCanceled:
		// Not Terminated: clients would close the stream of the whole run.
		m = message{t: Update, text: cmp.Or(b.Reason, "Canceled."), workstream: b.ID, ended: true}
		d = workDetails{Class: "activity", Workstream: b.ID, Status: "canceled", Reason: b.Reason, Files: b.Files}
	default:
		return nil
	}
	d.Launch = d.Workstream
	// The details do not repeat the text of the message, which may be long.
	if d.Step == m.text {
		d.Step = ""
	}
	if d.Summary == m.text {
		d.Summary = ""
	}
	m.d = detailsOf(d)
	return []message{m}
}

// steerText is a steering command as a text for people.
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
	return cmp.Or(b.Text, b.Command)
}

func percent(share float64) int {
	if math.IsNaN(share) {
		return 0
	}
	return int(math.Round(100 * min(max(share, 0), 1)))
}

// phaseTexts are the phases of a workstream as texts for people.
var phaseTexts = map[string]string{
	"planning": "Planning.", "executing_tool": "Using a tool.", "synthesizing": "Putting it together.", "blocked": "Waiting.", "done": "Done.",
}
