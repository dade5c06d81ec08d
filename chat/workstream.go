package chat

func newWorkstream(e *Event, b WorkstreamLaunched) *Workstream {
	return &Workstream{WorkstreamLaunched: b, State: "running", Parent: e.Workstream, LaunchedAt: e.At}
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

// apply folds a later word into the workstream it is about.
func (w *Workstream) apply(e *Event) {
	switch b := e.Body.(type) {
	case WorkstreamProgress:
		w.Phase, w.Iteration = first(b.Phase, w.Phase), max(b.Iteration, w.Iteration)
		w.Message, w.Share = first(b.Message, w.Message), b.Share
	case WorkstreamWarning:
		w.Warned = b.Share
	case WorkstreamSteered:
		w.Paused = b.Command == "pause_requested" || w.Paused && b.Command != "resume_requested"
	case WorkstreamCanceling:
		w.State = "canceling"
	case WorkstreamCompleted:
		w.State, w.EndedAt, w.Summary, w.Phase = "completed", e.At, b.Summary, "done"
	case WorkstreamFailed:
		w.State, w.EndedAt, w.Error = "failed", e.At, b.Error
	case WorkstreamTimeout:
		w.State, w.EndedAt, w.Summary = "timeout", e.At, b.Summary
	case WorkstreamCanceled:
		w.State, w.EndedAt = "canceled", e.At
	}
}
