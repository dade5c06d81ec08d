package chat

import (
	"cmp"
	"slices"
	"strconv"
)

// Workstream is the state of a parallel line of work.
type Workstream struct {
	WorkstreamLaunched
	State      string   `json:"state"`              // running, canceling, completed, failed, timeout, canceled
	Sequence   Seq      `json:"sequence,omitempty"` // of its launch
	Parent     string   `json:"parent,omitempty"`
	Phase      string   `json:"phase,omitempty"`
	Tool       string   `json:"tool,omitempty"`
	Iteration  int      `json:"iteration,omitempty"`
	Message    string   `json:"message,omitempty"`
	Share      float64  `json:"share,omitempty"`
	ProgressAt At       `json:"progress_at,omitzero"`
	Warned     float64  `json:"warned,omitempty"`
	WrappingUp bool     `json:"wrapping_up,omitempty"` // it got the request to finish
	Summary    string   `json:"summary,omitempty"`
	Error      string   `json:"error,omitempty"`
	Files      []string `json:"files,omitempty"`
	Paused     bool     `json:"paused,omitempty"`
	LaunchedAt At       `json:"launched_at,omitzero"`
	EndedAt    At       `json:"ended_at,omitzero"`
	CancelBy   At       `json:"cancel_by,omitzero"`     // end of the grace time
	Reason     string   `json:"reason,omitempty"`       // why it is canceled
	Since      At       `json:"working_since,omitzero"` // since when the clock of an interactive workstream runs
	Worked     int64    `json:"worked_ms,omitempty"`    // what that clock had counted before then
}

// Ended reports whether the workstream is over.
func (w *Workstream) Ended() bool { return w.State != WorkRunning && w.State != WorkCanceling }

// The states of a workstream.
const (
	WorkRunning   = "running"
	WorkCanceling = "canceling"
	WorkCompleted = "completed"
	WorkFailed    = "failed"
	WorkTimeout   = "timeout"
	WorkCanceled  = "canceled"
)

func newWorkstream(e *Event, b WorkstreamLaunched) *Workstream {
	return &Workstream{
		WorkstreamLaunched: b, State: WorkRunning, Sequence: e.Seq, Parent: e.Workstream, Phase: PhasePlanning, LaunchedAt: e.At,
	}
}

// workstreamOf returns the workstream that a body is about, or "".
func workstreamOf(b Body) string {
	switch b := b.(type) {
	case WorkstreamLaunched:
		return b.ID
	case WorkstreamProgress:
		return b.ID
	case WorkstreamWarning:
		return b.ID
	case WorkstreamSteered:
		return b.ID
	case WorkstreamMessage:
		return b.ID
	case WorkstreamCanceling:
		return b.ID
	case WorkstreamCompleted:
		return b.ID
	case WorkstreamFailed:
		return b.ID
	case WorkstreamTimeout:
		return b.ID
	case WorkstreamCanceled:
		return b.ID
	}
	return ""
}

// ChildOf returns the workstream that an event for its parent is about, or "".
func ChildOf(b Body) string {
	switch b.(type) {
	case WorkstreamProgress, WorkstreamWarning, WorkstreamCompleted, WorkstreamFailed, WorkstreamTimeout, WorkstreamCanceled:
		return workstreamOf(b)
	}
	return ""
}

// WorkstreamText describes an event of a workstream for the line that launched it; "" for other
// bodies.
func WorkstreamText(b Body) string {
	text := func(id, what, more string) string {
		if more == "" {
			return "Workstream " + id + " " + what + "."
		}
		return "Workstream " + id + " " + what + ": " + more
	}
	switch b := b.(type) {
	case WorkstreamProgress:
		if b.Summary == "" && b.Message != "" {
			return text(b.ID, "is idle", b.Message)
		}
		return text(b.ID, "answered", b.Summary)
	case WorkstreamWarning:
		return text(b.ID, "has used "+strconv.Itoa(int(b.Share*100+0.5))+" % of its time", b.Message)
	case WorkstreamCompleted:
		return text(b.ID, "completed", b.Summary)
	case WorkstreamFailed:
		return text(b.ID, "failed", b.Error)
	case WorkstreamTimeout:
		return text(b.ID, "ran out of time", b.Summary)
	case WorkstreamCanceled:
		return text(b.ID, "was canceled", b.Reason)
	}
	return ""
}

// apply folds a later event into the workstream it is about.
func (w *Workstream) apply(e *Event) {
	switch b := e.Body.(type) {
	case WorkstreamProgress:
		if b.Phase != "" {
			w.Phase, w.Tool = b.Phase, b.Tool
		}
		w.Iteration, w.Message = max(b.Iteration, w.Iteration), cmp.Or(b.Message, w.Message)
		w.Summary, w.Share, w.ProgressAt = cmp.Or(b.Summary, w.Summary), b.Share, e.At
	case WorkstreamWarning:
		w.Warned = b.Share
	case WorkstreamSteered:
		w.Paused = b.Command == SteerPause || w.Paused && b.Command != SteerResume
		w.WrappingUp = w.WrappingUp || b.Command == SteerWrapUp
	case WorkstreamCanceling:
		w.State, w.CancelBy, w.Reason = WorkCanceling, b.Deadline, b.Reason
	case WorkstreamCompleted:
		w.end(WorkCompleted, e.At, b.Files)
		w.Summary, w.Phase, w.Tool = b.Summary, PhaseDone, ""
	case WorkstreamFailed:
		w.end(WorkFailed, e.At, b.Files)
		w.Error = b.Error
	case WorkstreamTimeout:
		w.end(WorkTimeout, e.At, b.Files)
		w.Summary = b.Summary
	case WorkstreamCanceled:
		w.end(WorkCanceled, e.At, b.Files)
		w.Reason = cmp.Or(b.Reason, w.Reason)
	}
}

func (w *Workstream) end(state string, at At, files []string) {
	w.State, w.EndedAt, w.Files, w.CancelBy = state, at, files, 0
}

// applyWorkstream folds an event about a workstream: the state of the workstream, and
// the lines that receive the event. It reports whether the session's record changed.
func (s *State) applyWorkstream(e *Event) (changed bool) {
	if b, ok := e.Body.(WorkstreamLaunched); ok {
		s.Workstreams = append(s.Workstreams, newWorkstream(e, b))
		s.line(b.ID).Wakes = []Seq{e.Seq}
		if b.Agent != "" && b.Agent != s.Session.Agent && !slices.Contains(s.Session.Agents, b.Agent) {
			s.Session.Agents = append(slices.Clip(s.Session.Agents), b.Agent)
			changed = true
		}
		return changed
	}
	i := s.workstream(workstreamOf(e.Body))
	if i < 0 {
		return false
	}
	w := *s.Workstreams[i] // copies of the state share the old one
	was := w.Ended()
	w.apply(e)
	s.Workstreams[i] = &w
	if was {
		return false
	}
	switch b := e.Body.(type) {
	case WorkstreamMessage:
		s.wake(w.ID, e.Seq)
	case WorkstreamSteered:
		s.tell(w.ID, e.Seq)
	case WorkstreamProgress:
		switch {
		case b.Phase != PhaseDone || !w.Interactive:
		case b.Message == "":
			s.wake(w.Parent, e.Seq)
		default: // it was stopped and has no answer
			s.unasked(w.Parent, e.Seq)
		}
	case WorkstreamWarning, WorkstreamCompleted, WorkstreamFailed, WorkstreamTimeout:
		s.wake(w.Parent, e.Seq)
	case WorkstreamCanceled:
		s.unasked(w.Parent, e.Seq)
	}
	if l := s.Lines[w.ID]; w.Ended() && l != nil && l.Turn == nil {
		delete(s.Lines, w.ID)
	}
	return false
}

// wake hands something to the running turn of a line, or lets it begin one.
func (s *State) wake(line string, seq Seq) {
	if line == "" && s.Session.Agent == NoAgent {
		return
	}
	if w := s.Workstream(line); line != "" && (w == nil || w.Ended()) {
		return
	}
	l := s.line(line)
	if l.Turn != nil && !l.Turn.Stopping {
		l.Turn.Woken = append(l.Turn.Woken, seq)
		return
	}
	l.Wakes = append(l.Wakes, seq)
}

// unasked adds an event that a person caused to a line. It starts no turn of the main
// line. It does start one of a workstream, which may be waiting for its children alone.
func (s *State) unasked(line string, seq Seq) {
	if !s.tell(line, seq) && line != "" {
		s.wake(line, seq)
	}
}

// tell adds an event to those of the running turn of a line, if there is one.
func (s *State) tell(line string, seq Seq) bool {
	l := s.Lines[line]
	if l == nil || l.Turn == nil {
		return false
	}
	l.Turn.Told = append(l.Turn.Told, seq)
	return true
}

// clock starts and stops the clock of an interactive workstream, which counts
// only while it works.
func (s *State) clock(id string, at At, works bool) {
	if id == "" {
		return
	}
	i := s.workstream(id)
	if i < 0 || !s.Workstreams[i].Interactive {
		return
	}
	w := *s.Workstreams[i]
	if works {
		if w.Since = at; w.Phase == PhaseDone { // with what it was asked before
			w.Phase = PhasePlanning
		}
	} else if w.Since != 0 {
		w.Worked, w.Since = w.Worked+int64(at/1000-w.Since/1000), 0
	}
	s.Workstreams[i] = &w
}

func (s *State) workstream(id string) int {
	if id == "" {
		return -1
	}
	return slices.IndexFunc(s.Workstreams, func(w *Workstream) bool { return w.ID == id })
}

// WorkstreamBy returns a workstream by its id or its launch id.
func (s *State) WorkstreamBy(name string) *Workstream {
	for _, w := range s.Workstreams {
		if w.ID == name || w.LaunchID == name && name != "" {
			return w
		}
	}
	return nil
}
