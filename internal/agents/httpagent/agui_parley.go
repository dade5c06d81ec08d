package httpagent

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/jsonpatch"
)

// An agent of another Parley server sends what AG-UI has no event for in the forms of the dialect agui. Other servers may send
// activities and custom events of the same names; what is not of this form is ignored.

// activityTypes are the events that Parley shows as activities.
var activityTypes = map[string]string{"plan": chat.AgentPlan{}.Type(), "progress": chat.AgentToolProgress{}.Type(), "artifact": chat.AgentArtifact{}.Type()}

// activity stores an activity. A change of one that is not known is ignored, as is one that does not fit.
func (u *aguiRun) activity(ctx context.Context, e *aguiEvent) error {
	content, known := u.activities[e.MessageID]
	if e.Type == "ACTIVITY_SNAPSHOT" {
		content = e.Content
	} else if next, err := jsonpatch.Apply(content, e.Patch, maxState); known && err == nil {
		content = next
	} else {
		return nil
	}
	if activityTypes[e.Activity] == "" || len(content) > maxState || !known && len(u.activities) >= maxCalls {
		return nil
	}
	u.activities[e.MessageID] = content
	return u.storeParley(ctx, e, activityTypes[e.Activity], content)
}

// customTypes are the events that Parley shows as custom events.
var customTypes = map[string]string{
	"parley.status": chat.AgentStatus{}.Type(), "parley.error": chat.AgentError{}.Type(), "parley.share": chat.AgentShare{}.Type(),
	"parley.notification": chat.AgentInputRequest{}.Type(),
}

// storeParley stores the payload of an event of another Parley server. Paths are of files that this server does not have; what
// subagents do is part of their call; and RUN_ERROR follows an error that ends the turn.
func (u *aguiRun) storeParley(ctx context.Context, e *aguiEvent, typ string, payload json.RawMessage) error {
	d := chat.Draft{Type: typ, Payload: payload}
	if typ == "" || e.Subagent != "" || d.Normalize() != nil {
		return nil
	}
	keep := true
	switch b := d.Body.(type) {
	case chat.AgentPlan:
		keep = len(b.Tasks) > 0
	case chat.AgentToolProgress:
		if keep = b.CallID+b.BatchID+b.Tool != ""; b.CallID != "" {
			b.CallID = u.out.sessionCallID(b.CallID)
			d.Body = b
		}
	case chat.AgentArtifact:
		keep = b.Path == ""
	case chat.AgentShare:
		keep = b.Path == "" && b.URL != ""
	case chat.AgentStatus:
		keep = b.Message != ""
	case chat.AgentError:
		keep = b.Recoverable
	case chat.AgentInputRequest:
		b.RequestID = ""
		d.Body, keep = b, b.InputType == chat.InputNotification
	}
	if !keep {
		return nil
	}
	_, err := u.out.store(ctx, d.Body)
	return err
}

// maxStopTime is less than the time that an agent has to stop.
const maxStopTime = 4 * time.Second

// stopParley ends the turn at another Parley server: a run goes on there when the connection ends. Other servers have no such request.
func (a *Agent) stopParley(ctx context.Context, turn *agent.Turn) {
	path, name, ok := strings.Cut(strings.TrimSuffix(a.url.EscapedPath(), "/"), "/ag-ui/")
	if !ok || strings.Contains(name, "/") {
		return
	}
	base := url.URL{Scheme: a.url.Scheme, User: a.url.User, Host: a.url.Host}
	address := base.JoinPath(path, "api/copilotkit/agent", name, "stop", url.PathEscape(aguiThread(turn))).String()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxStopTime)
	defer cancel()
	err := func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader("{}"))
		if err != nil {
			return err
		}
		if err := a.authorize(req.Header); err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := a.client.Do(req)
		if err != nil {
			return err
		}
		if res.Body.Close(); res.StatusCode >= 300 && res.StatusCode != http.StatusNotFound {
			return fmt.Errorf("status %d", res.StatusCode)
		}
		return nil
	}()
	if err != nil {
		a.opt.Logger.WarnContext(ctx, "a turn was stopped, but not at the agent's endpoint", "endpoint", a.address(), "session", turn.Session, "err", err)
	}
}
