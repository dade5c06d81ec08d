package aisdk

import (
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/pages"
)

// workView is a workstream as a page sees it. Each change replaces the part.
type workView struct {
	ID       string          `json:"id"`
	Name     string          `json:"name,omitempty"`
	Task     string          `json:"task,omitempty"`
	Agent    string          `json:"agent,omitempty"`
	State    string          `json:"state"`
	Phase    string          `json:"phase,omitempty"`
	Tool     string          `json:"tool,omitempty"`
	Message  string          `json:"message,omitempty"`
	Share    float64         `json:"share,omitempty"`
	Deadline chat.At         `json:"deadline,omitzero"`
	Summary  string          `json:"summary,omitempty"`
	Error    string          `json:"error,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
	Files    []string        `json:"files,omitempty"`
}

// workstream shows changes of workstreams, and the ends of prompts of all lines.
func (r *run) workstream(e *chat.Event) {
	switch b := e.Body.(type) {
	case chat.UserInputResponse, chat.UserApprovalResponse, chat.UserPermissionResponse, chat.PromptClosed:
		r.answered(e)
	case chat.AgentInputRequest:
		if b.InputType == chat.InputNotification {
			r.emit(chunk{Type: dataNotification, ID: b.RequestID, Data: e.Payload})
		}
	case chat.WorkstreamLaunched:
		r.changed(b.ID, func(w *workView) {
			w.Name, w.Task, w.Agent, w.Deadline = b.Name, b.Task, b.Agent, b.Deadline
		})
	case chat.WorkstreamProgress:
		r.changed(b.ID, func(w *workView) {
			w.Phase, w.Tool, w.Message, w.Share = b.Phase, b.Tool, b.Message, b.Share
			if b.Summary != "" {
				w.Summary = b.Summary
			}
		})
	case chat.WorkstreamWarning:
		r.changed(b.ID, func(w *workView) { w.Share, w.Message = b.Share, b.Message })
	case chat.WorkstreamCanceling:
		r.changed(b.ID, func(w *workView) { w.State, w.Message = chat.WorkCanceling, b.Reason })
	case chat.WorkstreamCompleted:
		r.changed(b.ID, func(w *workView) {
			w.State, w.Summary, w.Result, w.Files = chat.WorkCompleted, b.Summary, b.Result, b.Files
		})
	case chat.WorkstreamFailed:
		r.changed(b.ID, func(w *workView) { w.State, w.Error, w.Files = chat.WorkFailed, b.Error, b.Files })
	case chat.WorkstreamTimeout:
		r.changed(b.ID, func(w *workView) { w.State, w.Summary, w.Files = chat.WorkTimeout, b.Summary, b.Files })
	case chat.WorkstreamCanceled:
		r.changed(b.ID, func(w *workView) { w.State, w.Error, w.Files = chat.WorkCanceled, b.Reason, b.Files })
	}
}

// changed shows a workstream after a change.
func (r *run) changed(id string, change func(*workView)) {
	if r.turn == "" {
		return
	}
	w := r.work[id]
	if w == nil {
		w = &workView{ID: id, State: chat.WorkRunning}
		r.work[id] = w
	}
	change(w)
	r.emit(chunk{Type: dataWorkstream, ID: id, Data: pages.Marshal(w)})
}
