package chat

import "github.com/parley-hq/parley/internal/json"

// WorkstreamLaunched begins a parallel line of work. Events of that line carry
// its id as workstream_id; the lifecycle events here belong to the line that
// launched it and name the child in their payload.
type WorkstreamLaunched struct {
	ID              string          `json:"id"`
	LaunchID        string          `json:"launch_id,omitempty"`
	Name            string          `json:"name,omitempty"`
	Task            string          `json:"task"`
	Agent           string          `json:"agent,omitempty"`
	Tools           []string        `json:"tools,omitempty"`
	Model           string          `json:"model,omitempty"`
	Context         json.RawMessage `json:"context,omitempty"`
	DeadlineSeconds float64         `json:"deadline_seconds,omitempty"`
	Deadline        At              `json:"deadline,omitzero"`
	Interactive     bool            `json:"interactive,omitempty"`
	MergeArtifacts  *bool           `json:"merge_artifacts,omitempty"` // nil means true
}

// WorkstreamProgress reports the progress of a workstream.
type WorkstreamProgress struct {
	ID        string  `json:"id"`
	Phase     string  `json:"phase,omitempty"` // planning, executing_tool, synthesizing, blocked, done
	Tool      string  `json:"tool,omitempty"`  // the running tool in the phase executing_tool
	Iteration int     `json:"iteration,omitempty"`
	Message   string  `json:"message,omitempty"`
	Share     float64 `json:"share,omitempty"`   // of the deadline, 0 to 1
	Summary   string  `json:"summary,omitempty"` // the answer of an interactive workstream, in the phase done
}

// The phases of a workstream.
const (
	PhasePlanning     = "planning"
	PhaseTool         = "executing_tool"
	PhaseSynthesizing = "synthesizing"
	PhaseBlocked      = "blocked"
	PhaseDone         = "done"
)

// WorkstreamWarning says that a share of the deadline has passed.
type WorkstreamWarning struct {
	ID      string  `json:"id"`
	Share   float64 `json:"share"`
	Message string  `json:"message,omitempty"`
}

// WorkstreamSteered hands a directive to a workstream.
type WorkstreamSteered struct {
	ID      string `json:"id"`
	Command string `json:"command"` // add_instruction, set_priority, add_constraint, pause_requested, resume_requested, wrap_up
	Text    string `json:"text,omitempty"`
}

// The commands of steering.
const (
	SteerAdd        = "add_instruction"
	SteerPriority   = "set_priority"
	SteerConstraint = "add_constraint"
	SteerPause      = "pause_requested"
	SteerResume     = "resume_requested"
	SteerWrapUp     = "wrap_up" // sent by the server when most of the deadline has passed
)

// WorkstreamMessage is a follow-up to an interactive workstream.
type WorkstreamMessage struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// WorkstreamCanceling says that a workstream has to end.
type WorkstreamCanceling struct {
	ID       string `json:"id"`
	By       *Actor `json:"by,omitempty"` // who requested it
	Reason   string `json:"reason,omitempty"`
	Deadline At     `json:"deadline,omitzero"` // end of the grace time
}

// WorkstreamCompleted ends a workstream with its result.
type WorkstreamCompleted struct {
	ID      string          `json:"id"`
	Summary string          `json:"summary,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Files   []string        `json:"files,omitempty"` // files that were merged into those of the line that launched it
}

// WorkstreamFailed ends a workstream with an error.
type WorkstreamFailed struct {
	ID    string   `json:"id"`
	Error string   `json:"error,omitempty"`
	Files []string `json:"files,omitempty"`
}

// WorkstreamTimeout ends a workstream whose deadline has passed.
type WorkstreamTimeout struct {
	ID      string   `json:"id"`
	Summary string   `json:"summary,omitempty"` // its text up to then
	Files   []string `json:"files,omitempty"`
}

// WorkstreamCanceled ends a workstream after its end was requested.
type WorkstreamCanceled struct {
	ID     string   `json:"id"`
	Reason string   `json:"reason,omitempty"`
	Files  []string `json:"files,omitempty"`
}

// Type is the type on the wire.
func (WorkstreamLaunched) Type() string  { return "workstream.launched" }
func (WorkstreamProgress) Type() string  { return "workstream.progress" }
func (WorkstreamWarning) Type() string   { return "workstream.warning" }
func (WorkstreamSteered) Type() string   { return "workstream.steered" }
func (WorkstreamMessage) Type() string   { return "workstream.message" }
func (WorkstreamCanceling) Type() string { return "workstream.canceling" }
func (WorkstreamCompleted) Type() string { return "workstream.completed" }
func (WorkstreamFailed) Type() string    { return "workstream.failed" }
func (WorkstreamTimeout) Type() string   { return "workstream.timeout" }
func (WorkstreamCanceled) Type() string  { return "workstream.canceled" }

// CheckWorkstream reports why s cannot name a workstream.
func CheckWorkstream(s string) error {
	if !wordOf(s, 64, "._-") || s == "all" || s == "main" || s == "." || s == ".." {
		return Errorf(Invalid, "a workstream id has 1 to 64 of A-Z a-z 0-9 . _ - and is neither \"all\" nor \"main\"")
	}
	return nil
}

func (b WorkstreamLaunched) check() error  { return CheckWorkstream(b.ID) }
func (b WorkstreamProgress) check() error  { return CheckWorkstream(b.ID) }
func (b WorkstreamWarning) check() error   { return CheckWorkstream(b.ID) }
func (b WorkstreamSteered) check() error   { return CheckWorkstream(b.ID) }
func (b WorkstreamMessage) check() error   { return CheckWorkstream(b.ID) }
func (b WorkstreamCanceling) check() error { return CheckWorkstream(b.ID) }
func (b WorkstreamCompleted) check() error { return CheckWorkstream(b.ID) }
func (b WorkstreamFailed) check() error    { return CheckWorkstream(b.ID) }
func (b WorkstreamTimeout) check() error   { return CheckWorkstream(b.ID) }
func (b WorkstreamCanceled) check() error  { return CheckWorkstream(b.ID) }

func init() {
	register(plain[WorkstreamLaunched])
	register(plain[WorkstreamProgress])
	register(plain[WorkstreamWarning])
	register(plain[WorkstreamSteered])
	register(plain[WorkstreamMessage])
	register(plain[WorkstreamCanceling])
	register(plain[WorkstreamCompleted])
	register(plain[WorkstreamFailed])
	register(plain[WorkstreamTimeout])
	register(plain[WorkstreamCanceled])
}
