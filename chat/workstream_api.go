package chat

import "github.com/parley-hq/parley/internal/json"

// Launch asks for a workstream: a line of work of its own, in the
// background, with its own history, tools and agent.
type Launch struct {
	ID                  string          `json:"id"` // names the line; every launch of a session needs its own
	Name                string          `json:"name,omitempty"`
	Instruction         string          `json:"instruction"`
	AllowedTools        []string        `json:"allowed_tools,omitempty"` // absent means those of its agent
	Context             json.RawMessage `json:"context,omitempty"`       // an object
	MergeChildArtifacts *bool           `json:"merge_child_artifacts,omitempty"`
	Model               string          `json:"model,omitempty"`
	DeadlineSeconds     float64         `json:"deadline_seconds,omitempty"` // 300 when absent; 30 to 1800
	Interactive         bool            `json:"interactive,omitempty"`      // waits for follow-ups until it is terminated
	Agent               string          `json:"agent,omitempty"`            // absent means that of the line that launches it

	Parent   string `json:"workstream_id,omitempty"` // the line that launches it; absent means the main line
	Turn     TurnID `json:"turn_id,omitempty"`       // the turn that launches it, for agents
	Attempt  int    `json:"attempt,omitempty"`
	ClientID string `json:"client_id,omitempty"`
}

// Steering is sent to a workstream: a directive, a follow-up, or the reason
// why it is to end.
type Steering struct {
	Command  string `json:"command,omitempty"`
	Text     string `json:"text,omitempty"`
	ClientID string `json:"client_id,omitempty"`
	Turn     TurnID `json:"turn_id,omitempty"` // the turn that says it, for agents
	Attempt  int    `json:"attempt,omitempty"`
}

// WorkstreamStatus is a workstream as it is at a moment.
type WorkstreamStatus struct {
	LaunchID        string   `json:"launch_id"`
	ID              string   `json:"workstream_id"`
	Name            string   `json:"name,omitempty"`
	Task            string   `json:"task"`
	Agent           string   `json:"agent,omitempty"`
	Parent          string   `json:"parent,omitempty"` // absent means the main line
	Sequence        Seq      `json:"sequence"`         // of its launch
	State           string   `json:"state"`            // running, canceling, completed, failed, timeout, canceled
	Phase           string   `json:"phase,omitempty"`  // planning, executing_tool, synthesizing, blocked, done
	Tool            string   `json:"tool,omitempty"`
	Iteration       int      `json:"iteration,omitempty"`
	Message         string   `json:"message,omitempty"`
	ProgressAt      At       `json:"progress_at,omitzero"`
	Share           float64  `json:"share"`      // of the deadline that has passed, 0 to 1
	ElapsedMS       int64    `json:"elapsed_ms"` // on the clock that the deadline is measured by
	DurationMS      int64    `json:"duration_ms,omitempty"`
	StartedAt       At       `json:"started_at"`
	EndedAt         At       `json:"ended_at,omitzero"`
	Deadline        At       `json:"deadline,omitzero"` // absent when it has ended, and while an interactive one rests
	DeadlineSeconds float64  `json:"deadline_seconds"`
	Interactive     bool     `json:"interactive,omitempty"`
	Waiting         bool     `json:"waiting,omitempty"` // interactive, and waiting for a follow-up
	Paused          bool     `json:"paused,omitempty"`
	WrappingUp      bool     `json:"wrapping_up,omitempty"`
	Warned          float64  `json:"warned,omitempty"` // the share of the last warning
	Summary         string   `json:"summary,omitempty"`
	Error           string   `json:"error,omitempty"`
	Reason          string   `json:"reason,omitempty"`
	Files           []string `json:"files,omitempty"`    // merged ones
	Children        []string `json:"children,omitempty"` // ids of those it launched
	Turn            TurnID   `json:"turn_id,omitempty"`  // running
}

// Over reports whether there is nothing to wait for: it has ended, or it is
// interactive and rests.
func (w *WorkstreamStatus) Over() bool {
	return w.EndedAt != 0 || w.Waiting
}

// Fork asks for a session that shares another one's past.
type Fork struct {
	ID       SessionID       `json:"id,omitempty"`    // made by the server when absent
	After    Seq             `json:"after,omitempty"` // the last event they share; absent means all
	Title    string          `json:"title,omitempty"` // absent: the other one's, or none with a Message
	Agent    string          `json:"agent,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Settings *Settings       `json:"settings,omitempty"` // absent: the other one's, without approvals
	Message  *UserMessage    `json:"message,omitempty"`  // the first one in the fork; what was queued at After is withdrawn
}

// WorkFolder is where the files of a line of work stand among those of its
// session: those of the main line at the top.
func WorkFolder(workstream string) string {
	if workstream == "" {
		return ""
	}
	return "workstreams/" + workstream + "/"
}
