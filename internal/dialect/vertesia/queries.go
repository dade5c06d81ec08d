package vertesia

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/text"
)

// query answers a query about the state of a run.
func (d *Dialect) query(r *http.Request, c chat.Caller, sess run) (any, error) {
	st, err := d.opt.Sessions.State(r.Context(), c, sess.ID)
	if err != nil {
		return nil, err
	}
	switch name := r.PathValue("name"); name {
	case "ActiveWorkstreams":
		return d.activeWorkstreams(r.Context(), c, sess)
	case "AgentPlan":
		if st.Plan == nil {
			return planDetails{Plan: []planTask{}}, nil
		}
		return planDetails{planOf(*st.Plan), st.Plan.Comment}, nil
	case "AvailableTools":
		return map[string]any{"tools": d.tools(r.Context(), st, sess.workstream)}, nil
	case "PendingQuestions":
		return map[string]any{"asks": openQuestions(st)}, nil
	default:
		return nil, chat.Errorf(chat.NotFound, "a run answers ActiveWorkstreams, AgentPlan, AvailableTools and PendingQuestions, not %q", text.Clip(name, 60))
	}
}

// toolsTimeout is how long an agent may take to list its tools.
const toolsTimeout = 3 * time.Second

// tools lists the tools that the agent of a workstream has and the settings of the
// run allow. For an agent that does not list its tools, these are the tools that
// the settings name.
func (d *Dialect) tools(ctx context.Context, st *chat.State, workstream string) []Tool {
	tools := []Tool{}
	names := st.Session.Settings.Tools
	var launched []string
	if w := st.Workstream(workstream); w != nil {
		launched = w.Tools
	}
	ctx, cancel := context.WithTimeout(ctx, toolsTimeout)
	defer cancel()
	if all, known := d.opt.Tools(ctx, st.AgentOf(workstream)); known {
		for _, t := range all {
			if chat.Allowed(names, t.Name) && chat.Allowed(launched, t.Name) && (t.Server == "" || !slices.Contains(st.Session.Settings.Without, t.Server)) {
				tools = append(tools, t)
			}
		}
		return tools
	}
	for _, name := range slices.Concat(names, launched) {
		name = strings.TrimPrefix(name, "+")
		if name != "" && name[0] != '-' && !slices.ContainsFunc(tools, func(t Tool) bool { return t.Name == name }) {
			tools = append(tools, Tool{Name: name})
		}
	}
	return tools
}

// progressInfo is the last progress of a workstream.
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
		if sess.workstream != "" && ws.Parent != sess.workstream {
			continue
		}
		id := runID(sess.ID, ws.ID)
		e := workstreamEntry{
			Launch: ws.ID, Workstream: ws.ID, Kind: "agent", Name: ws.Name, Interaction: cmp.Or(ws.Agent, sess.Agent), StartedAt: millis(ws.StartedAt),
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

// question is a prompt that waits for an answer, in the form of the protocol.
type question struct {
	AskID        string     `json:"askId"`
	RunID        string     `json:"runId"`
	WorkflowID   string     `json:"workflowId"`
	ProjectID    string     `json:"projectId"`
	AccountID    string     `json:"accountId"`
	Agent        string     `json:"agentName"`
	Questions    []string   `json:"questions"`
	TimeoutHours float64    `json:"timeoutHours"`
	Channels     []struct{} `json:"userChannels"`
	CreatedAt    float64    `json:"createdAt"`
	ExpiresAt    float64    `json:"expiresAt"`
	Status       string     `json:"status"`
}

// questionID names a prompt among all runs.
func questionID(session chat.SessionID, request string) string {
	return string(session) + "~" + request
}

// openQuestions are the open prompts of a session.
func openQuestions(st *chat.State) []question {
	list := []question{}
	for _, p := range st.Prompts {
		about := ""
		switch {
		case p.Input != nil:
			about = inputText(*p.Input)
		case p.Approval != nil:
			about = approvalText(*p.Approval)
		case p.Permission != nil:
			about = permissionAsked(*p.Permission)
		}
		q := question{
			AskID: questionID(st.Session.ID, p.RequestID), RunID: string(st.Session.ID), WorkflowID: string(st.Session.ID), ProjectID: st.Session.Workspace,
			AccountID: st.Session.Workspace, Agent: st.Session.Agent, Questions: []string{about}, Channels: []struct{}{}, CreatedAt: millis(p.AskedAt), Status: "pending",
		}
		if p.Deadline != 0 {
			q.ExpiresAt, q.TimeoutHours = millis(p.Deadline), float64(p.Deadline-p.AskedAt)/3.6e9
		}
		list = append(list, q)
	}
	return list
}

// maxQuestions bounds a list of questions.
const maxQuestions = 1000

// listQuestions lists the open questions of all runs that the caller may see.
func (d *Dialect) listQuestions(r *http.Request, c chat.Caller) (any, error) {
	all := []question{}
	for s, err := range d.opt.Sessions.ListAll(r.Context(), c, core.Filter{Status: chat.Waiting}) {
		var st *chat.State
		if err == nil {
			st, err = d.opt.Sessions.State(r.Context(), c, s.ID)
		}
		if code := chat.CodeOf(err); code == chat.NotFound || code == chat.Gone {
			continue
		}
		if err != nil {
			return nil, err
		}
		if all = append(all, openQuestions(st)...); len(all) >= maxQuestions {
			break
		}
	}
	return map[string]any{"asks": all[:min(len(all), maxQuestions)]}, nil
}

// findQuestion returns the state of the session of a question, and its request id.
func (d *Dialect) findQuestion(ctx context.Context, c chat.Caller, name string) (*chat.State, string, error) {
	id, request, ok := strings.Cut(name, "~")
	missing := chat.Errorf(chat.NotFound, "there is no open question %q, or it is not yours", text.Clip(name, 120))
	if !ok {
		return nil, "", missing
	}
	st, err := d.opt.Sessions.State(ctx, c, chat.SessionID(id))
	if chat.CodeOf(err) == chat.NotFound {
		err = missing
	}
	return st, request, err
}

func (d *Dialect) showQuestion(r *http.Request, c chat.Caller) (any, error) {
	st, request, err := d.findQuestion(r.Context(), c, r.PathValue("ask"))
	if err != nil {
		return nil, err
	}
	for _, q := range openQuestions(st) {
		if q.AskID == questionID(st.Session.ID, request) {
			return q, nil
		}
	}
	return nil, chat.Errorf(chat.NotFound, "the question %q is not open any more", text.Clip(request, 120))
}

// resolveQuestion answers a question.
func (d *Dialect) resolveQuestion(r *http.Request, c chat.Caller) (any, error) {
	var in struct {
		Response string `json:"response"`
	}
	if err := d.http.Read(r, &in); err != nil {
		return nil, err
	}
	st, request, err := d.findQuestion(r.Context(), c, r.PathValue("ask"))
	if err != nil {
		return nil, err
	}
	waited := int64(0) // milliseconds
	if p := st.Prompt(request); p != nil {
		waited = max(0, int64(d.now()-p.AskedAt)/1000)
	}
	_, err = d.answer(r.Context(), c, st.Session.ID, request, userInput{Message: in.Response}, nil)
	return map[string]any{"success": true, "webhookSent": false, "waitDurationMs": waited}, err
}

// registerQuestion asks a question for an agent that runs outside of this server.
func (d *Dialect) registerQuestion(r *http.Request, c chat.Caller) (any, error) {
	var in struct {
		RunID     string   `json:"runId"`
		Questions []string `json:"questions"`
		Hours     float64  `json:"timeoutHours"`
	}
	if err := d.http.Read(r, &in); err != nil {
		return nil, err
	}
	if len(in.Questions) == 0 {
		return nil, chat.Errorf(chat.Invalid, "there is nothing to ask: questions is empty")
	}
	sess, err := d.findRun(r.Context(), c, in.RunID)
	if err != nil {
		return nil, err
	}
	draft := chat.NewDraft(chat.AgentInputRequest{InputType: chat.InputText, Text: strings.Join(in.Questions, "\n\n"), Timeout: in.Hours * 3600})
	draft.Via, draft.Workstream = via, sess.workstream
	events, err := d.opt.Sessions.Append(r.Context(), c, sess.ID, []chat.Draft{draft})
	if err != nil {
		return nil, err
	}
	p, _ := chat.AsPrompt(&events[0])
	return map[string]any{"success": true, "askId": questionID(sess.ID, p.RequestID), "webhookSent": false}, nil
}
