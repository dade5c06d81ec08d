package nemo

import (
	"context"
	"net/http"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/text"
)

// feedbackType is the event of a reaction to an answer.
const feedbackType = "user.feedback"

// maxTraceSessions is how many of a caller's sessions are searched for the trace id of a tracing system.
const maxTraceSessions = 50

// feedbackBody is what the UI sends for a reaction or a comment.
type feedbackBody struct {
	TraceID  string `json:"observability_trace_id"`
	Reaction string `json:"reaction_type"`
	Comment  string `json:"comment"`
}

// feedbackFact is the payload of the event.
type feedbackFact struct {
	TraceID  string      `json:"trace_id"`
	TurnID   chat.TurnID `json:"turn_id"`
	Reaction string      `json:"reaction,omitempty"`
	Comment  string      `json:"comment,omitempty"`
}

func (d *Dialect) feedback(r *http.Request, c chat.Caller) (any, error) {
	var b feedbackBody
	if err := d.http.Read(r, &b); err != nil {
		return nil, err
	}
	switch {
	case b.TraceID == "":
		return nil, refuse(codeMessage, "observability_trace_id is missing: it names the answer")
	case b.Reaction == "" && b.Comment == "":
		return nil, refuse(codeMessage, "send reaction_type, comment or both")
	case utf8.RuneCountInString(b.Comment) > 1024 || len(b.Reaction) > 64:
		return nil, refuse(codeMessage, "a comment has at most 1024 characters, a reaction at most 64 bytes")
	}
	sess, turn, err := d.turnOfTrace(r.Context(), c, b.TraceID)
	if err != nil {
		return nil, err
	}
	fact := feedbackFact{TraceID: b.TraceID, TurnID: turn, Reaction: b.Reaction, Comment: b.Comment}
	draft := chat.NewDraft(chat.Unknown{Name: feedbackType, Payload: appendJSON(nil, fact)})
	draft.Via = via
	if _, err := d.opt.Sessions.Append(r.Context(), c, sess, []chat.Draft{draft}); err != nil {
		return nil, err
	}
	return map[string]string{"message": "Feedback added to trace " + b.TraceID}, nil
}

// turnOfTrace finds the turn of a trace id: the turn's own id, or the id of a tracing system in one of the caller's latest
// sessions.
func (d *Dialect) turnOfTrace(ctx context.Context, c chat.Caller, trace string) (chat.SessionID, chat.TurnID, error) {
	missing := chat.Errorf(chat.NotFound, "no answer has the trace %q", text.Clip(trace, 80))
	if id, ok := chat.ParseID("", trace); ok {
		sess, seq, err := d.opt.Sessions.ByID(ctx, c, id)
		if err == nil {
			var e chat.Event
			if e, err = d.opt.Sessions.Event(ctx, c, sess.ID, seq); err == nil && e.Type == "turn.started" {
				return sess.ID, e.Turn, nil
			}
		}
		if err != nil && chat.CodeOf(err) != chat.NotFound {
			return "", "", err
		}
	}
	page, err := d.opt.Sessions.List(ctx, c, core.Filter{Limit: maxTraceSessions})
	if err != nil {
		return "", "", err
	}
	for _, sess := range page.Sessions {
		traced := map[chat.Seq]bool{} // messages with this trace
		var started []chat.Event
		for e, err := range d.opt.Sessions.Events(ctx, c, sess.ID, chat.Range{Limit: 200, Desc: true, Types: []string{"agent.trace", "user.message", "turn.started"}}) {
			if err != nil {
				return "", "", err
			}
			switch b := e.Body.(type) {
			case chat.AgentTrace:
				if b.TraceID == trace && e.Turn != "" {
					return sess.ID, e.Turn, nil
				}
			case chat.UserMessage:
				traced[e.Seq] = traceID(contextOf(b).Traceparent) == trace
			case chat.TurnStarted:
				started = append(started, e)
			}
		}
		for _, e := range started {
			if traced[e.Body.(chat.TurnStarted).Trigger] {
				return sess.ID, e.Turn, nil
			}
		}
	}
	return "", "", missing
}
