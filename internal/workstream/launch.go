package workstream

import (
	"bytes"
	"math"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// The bounds of a deadline, and its default.
const (
	defaultDeadline = 300 * time.Second
	minDeadline     = 30 * time.Second
	maxDeadline     = 1800 * time.Second
)

// Limits of a session's workstreams.
const (
	maxDepth   = 3    // a child's child's child; the main line is at 0
	maxRunning = 128  // at once in a session
	maxTotal   = 1000 // ever in one session: ids are not reused
	maxText    = 64 << 10
	maxTools   = 256
)

// Launched checks a launch and returns its event, without the launch id and the time of the deadline, which the server
// adds.
func Launched(l chat.Launch) (chat.WorkstreamLaunched, error) {
	var none chat.WorkstreamLaunched
	if err := chat.CheckWorkstream(l.ID); err != nil {
		return none, err
	}
	switch {
	case l.Instruction == "":
		return none, chat.Errorf(chat.Invalid, "a workstream needs an instruction").With("field", "instruction")
	case len(l.Instruction) > maxText:
		return none, chat.Errorf(chat.TooLarge, "an instruction has at most %d KiB; put more into a file", maxText>>10).With("field", "instruction")
	case len(l.Name) > chat.MaxTitle:
		return none, chat.Errorf(chat.TooLarge, "a name has at most %d bytes", chat.MaxTitle).With("field", "name")
	case len(l.Model) > 256:
		return none, chat.Errorf(chat.TooLarge, "the name of a model has at most 256 bytes").With("field", "model")
	case len(l.AllowedTools) > maxTools:
		return none, chat.Errorf(chat.TooLarge, "allowed_tools names at most %d tools", maxTools).With("field", "allowed_tools")
	case l.Agent == chat.NoAgent:
		return none, chat.Errorf(chat.Invalid, "a workstream needs an agent").With("field", "agent")
	}
	for _, tool := range l.AllowedTools {
		if tool == "" || len(tool) > 256 {
			return none, chat.Errorf(chat.Invalid, "the name of a tool has 1 to 256 bytes").With("field", "allowed_tools")
		}
	}
	if err := chat.CheckAgentName(l.Agent); err != nil {
		return none, err
	}
	about := bytes.TrimSpace(l.Context)
	if len(about) > 0 && (!json.Valid(about) || about[0] != '{' && string(about) != "null") {
		return none, chat.Errorf(chat.Invalid, "context is an object").With("field", "context")
	}
	if len(about) > maxText {
		return none, chat.Errorf(chat.TooLarge, "context has at most %d KiB", maxText>>10).With("field", "context")
	}
	if string(about) == "null" {
		about = nil
	}
	seconds, err := deadline(l.DeadlineSeconds)
	if err != nil {
		return none, err
	}
	b := chat.WorkstreamLaunched{
		ID: l.ID, Name: l.Name, Task: l.Instruction, Agent: l.Agent, Tools: l.AllowedTools, Model: l.Model, Context: about,
		DeadlineSeconds: seconds, Interactive: l.Interactive, MergeArtifacts: l.MergeChildArtifacts,
	}
	if b.Name == "" {
		b.Name = b.ID
	}
	return b, nil
}

func deadline(seconds float64) (float64, error) {
	if seconds == 0 {
		return defaultDeadline.Seconds(), nil
	}
	if math.IsNaN(seconds) || seconds < minDeadline.Seconds() || seconds > maxDeadline.Seconds() {
		return 0, chat.Errorf(chat.Invalid, "deadline_seconds is between %g and %g", minDeadline.Seconds(), maxDeadline.Seconds()).With("field", "deadline_seconds")
	}
	return seconds, nil
}

// CheckLaunch reports why a line cannot launch a workstream: the line has ended, the id is in use, there are too many
// workstreams, or the depth is too large.
func CheckLaunch(st *chat.State, parent, id string) error {
	if w := st.Workstream(id); w != nil {
		return chat.Errorf(chat.Conflict, "this session has a workstream %q already, which is %s; every launch needs an id of its own", id, w.State).
			With("workstream_id", w.ID).With("launch_id", w.LaunchID).With("state", w.State)
	}
	if parent != "" {
		switch w := st.Workstream(parent); {
		case w == nil:
			return notFound(parent)
		case w.State != chat.WorkRunning:
			return ended(w)
		}
	}
	if d := Depth(st, parent) + 1; d > maxDepth {
		return chat.Errorf(chat.Denied, "workstreams are at most %d deep; do this in the current line", maxDepth).With("depth", d)
	}
	running := 0
	for _, w := range st.Workstreams {
		if !w.Ended() {
			running++
		}
	}
	if running >= maxRunning {
		return chat.Errorf(chat.SlowDown, "%d workstreams run in this session already; let one end first", running)
	}
	if len(st.Workstreams) >= maxTotal {
		return chat.Errorf(chat.TooLarge, "this session has had %d workstreams, the limit; create another session", maxTotal)
	}
	return nil
}

// Depth is the number of launches from the main line to a line.
func Depth(st *chat.State, line string) int {
	depth := 0
	for line != "" && depth <= maxDepth {
		w := st.Workstream(line)
		if w == nil {
			break
		}
		line = w.Parent
		depth++
	}
	return depth
}

func notFound(name string) error {
	return chat.Errorf(chat.NotFound, "this session has no workstream %q", name)
}

func ended(w *chat.Workstream) error {
	what := "has ended as " + w.State
	if !w.Ended() {
		what = "is being canceled"
	}
	return chat.Errorf(chat.Conflict, "workstream %q %s", w.ID, what).
		With("workstream_id", w.ID).With("launch_id", w.LaunchID).With("state", w.State)
}
