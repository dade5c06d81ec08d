package vertesia

import (
	"context"
	"net/http"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// ask is a question that waits for a person. The names are the protocol's.
type ask struct {
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

// askID names a prompt among all runs.
func askID(session chat.SessionID, request string) string { return string(session) + "~" + request }

func asksOf(st *chat.State) []ask {
	asks := []ask{}
	for _, p := range st.Prompts {
		text := ""
		switch {
		case p.Input != nil:
			text = inputText(*p.Input)
		case p.Approval != nil:
			text = approvalText(*p.Approval)
		case p.Permission != nil:
			text = permissionAsked(*p.Permission)
		}
		a := ask{
			AskID: askID(st.Session.ID, p.RequestID), RunID: string(st.Session.ID), WorkflowID: string(st.Session.ID), ProjectID: st.Session.Workspace,
			AccountID: st.Session.Workspace, Agent: st.Session.Agent, Questions: []string{text}, Channels: []struct{}{}, CreatedAt: millis(p.AskedAt), Status: "pending",
		}
		if p.Deadline != 0 {
			a.ExpiresAt, a.TimeoutHours = millis(p.Deadline), float64(p.Deadline-p.AskedAt)/3.6e9
		}
		asks = append(asks, a)
	}
	return asks
}

// maxAsks bounds a list of questions.
const maxAsks = 1000

// listAsks lists the questions of all runs that the caller may see.
func (d *Dialect) listAsks(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	all := []ask{}
	f := chat.Filter{Status: chat.Waiting, Limit: 200}
	for len(all) < maxAsks {
		page, err := d.opt.Sessions.List(r.Context(), c, f)
		if err != nil {
			return err
		}
		for _, s := range page.Sessions {
			st, err := d.opt.Sessions.State(r.Context(), c, s.ID)
			if chat.CodeOf(err) == chat.NotFound || chat.CodeOf(err) == chat.Gone {
				continue
			}
			if err != nil {
				return err
			}
			all = append(all, asksOf(st)...)
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
	}
	d.send(w, r, http.StatusOK, map[string]any{"asks": all[:min(len(all), maxAsks)]})
	return nil
}

// askOf finds a question that is open.
func (d *Dialect) askOf(ctx context.Context, c chat.Caller, name string) (*chat.State, string, error) {
	id, request, ok := strings.Cut(name, "~")
	missing := chat.Errorf(chat.NotFound, "there is no open question %q, or it is not yours", clip(name, 120))
	if !ok {
		return nil, "", missing
	}
	st, err := d.opt.Sessions.State(ctx, c, chat.SessionID(id))
	if chat.CodeOf(err) == chat.NotFound {
		err = missing
	}
	return st, request, err
}

func (d *Dialect) showAsk(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	st, request, err := d.askOf(r.Context(), c, r.PathValue("ask"))
	if err != nil {
		return err
	}
	for _, a := range asksOf(st) {
		if a.AskID == askID(st.Session.ID, request) {
			d.send(w, r, http.StatusOK, a)
			return nil
		}
	}
	return chat.Errorf(chat.NotFound, "the question %q is not open any more", clip(request, 120))
}

// resolveAsk answers a question.
func (d *Dialect) resolveAsk(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var in struct {
		Response string `json:"response"`
	}
	if err := d.read(r, &in); err != nil {
		return err
	}
	st, request, err := d.askOf(r.Context(), c, r.PathValue("ask"))
	if err != nil {
		return err
	}
	waited := int64(0)
	if p := st.Prompt(request); p != nil {
		waited = elapsed(p.AskedAt, d.opt.Now())
	}
	if _, err := d.answer(r.Context(), c, st, request, userInput{Message: in.Response}, nil); err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, map[string]any{"success": true, "webhookSent": false, "waitDurationMs": waited})
	return nil
}

// registerAsk asks a question on behalf of an agent that runs elsewhere.
func (d *Dialect) registerAsk(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var in struct {
		RunID     string   `json:"runId"`
		Questions []string `json:"questions"`
		Hours     float64  `json:"timeoutHours"`
	}
	if err := d.read(r, &in); err != nil {
		return err
	}
	if len(in.Questions) == 0 {
		return chat.Errorf(chat.Invalid, "there is nothing to ask: questions is empty")
	}
	sess, err := d.findRun(r.Context(), c, in.RunID)
	if err != nil {
		return err
	}
	draft := chat.NewDraft(chat.AgentInputRequest{InputType: chat.InputText, Text: strings.Join(in.Questions, "\n\n"), Timeout: in.Hours * 3600})
	draft.Via, draft.Workstream = via, sess.line
	events, err := d.opt.Sessions.Append(r.Context(), c, sess.ID, []chat.Draft{draft})
	if err != nil {
		return err
	}
	p, _ := chat.AsPrompt(&events[0])
	d.send(w, r, http.StatusOK, map[string]any{"success": true, "askId": askID(sess.ID, p.RequestID), "webhookSent": false})
	return nil
}
