package letta

import (
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/letta/stream"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/record"
	"github.com/parley-hq/parley/internal/turnlog"
)

// run is a turn in Letta's terms.
type run struct {
	stream.Run
	session chat.SessionID
	conv    *conversation
	options options // of the message that began it
}

// mainLine is the workstream of runs.
var mainLine = turnlog.MainLine

// eventByID returns the session and the number of the event that an id was made from.
func (q *request) eventByID(kind, prefix, id string) (chat.Session, chat.Seq, error) {
	parsed, ok := chat.ParseID(prefix, id)
	if !ok {
		return chat.Session{}, 0, errNotFound(kind, id)
	}
	sess, seq, err := q.opt.Sessions.ByID(q.ctx, q.caller, parsed)
	if chat.CodeOf(err) == chat.NotFound {
		err = errNotFound(kind, id)
	}
	return sess, seq, err
}

// loadRun returns the run with an id.
func (q *request) loadRun(id string) (*run, error) {
	sess, seq, err := q.eventByID("run", llm.RunPrefix, id)
	if err != nil {
		return nil, err
	}
	e, err := q.event(sess.ID, seq)
	if err != nil {
		return nil, err
	}
	if _, ok := e.Body.(chat.TurnStarted); !ok || e.Workstream != mainLine {
		return nil, errNotFound("run", id)
	}
	return q.runIn(q.conversationOf(&sess), e)
}

// runIn returns the run of a conversation that began with the given turn.started.
func (q *request) runIn(cv *conversation, started chat.Event) (*run, error) {
	b := started.Body.(chat.TurnStarted)
	r := &run{
		Run:     stream.Run{ID: llm.RunID(b.TurnID), Turn: b.TurnID, AgentID: cv.agentID, Conversation: cv.id, Started: started},
		session: cv.session, conv: cv,
	}
	if b.Trigger == 0 {
		return r, nil
	}
	var err error
	if r.Trigger, err = q.event(cv.session, b.Trigger); err != nil {
		return nil, err
	}
	r.options = optionsOf(&r.Trigger)
	return r, nil
}

// optionsOf reads the options that were stored with a message.
func optionsOf(e *chat.Event) (o options) {
	b, ok := e.Body.(chat.UserMessage)
	if !ok || e.Via != via {
		return o
	}
	var context map[string]json.RawMessage
	if json.Unmarshal(b.Context, &context) == nil {
		_ = json.Unmarshal(context[llm.SaidKey], &o)
	}
	return o
}

func (q *request) event(id chat.SessionID, seq chat.Seq) (chat.Event, error) {
	return q.opt.Sessions.Event(q.ctx, q.caller, id, seq)
}

// completed returns the turn.completed of a run, nil while the run is active.
func (q *request) completed(r *run) (*chat.Event, error) {
	for e, err := range q.opt.Sessions.Events(q.ctx, q.caller, r.session, chat.Range{
		After: r.Started.Seq, Limit: 1, Types: []string{chat.TurnCompleted{}.Type()}, Workstream: &mainLine,
	}) {
		return &e, err
	}
	return nil, nil
}

// turnOfMessage returns the turn.started of the turn that took up a message, nil when no turn has.
func (q *request) turnOfMessage(id chat.SessionID, message chat.Seq) (*chat.Event, error) {
	e, err := turnlog.Taken(q.ctx, q.opt.Sessions, q.caller, id, message)
	switch {
	case chat.CodeOf(err) == chat.Conflict: // the message was withdrawn
		return nil, nil
	case err != nil || e == nil:
		return nil, err
	}
	return q.turnStarted(id, e.Turn)
}

// turnStarted returns the turn.started of a turn, nil when the id is not one of a turn.
func (q *request) turnStarted(id chat.SessionID, turn chat.TurnID) (*chat.Event, error) {
	return turnlog.Started(q.ctx, q.opt.Sessions, q.caller, id, turn)
}

// runState is a run as clients see it.
func (q *request) runState(r *run) (map[string]any, error) {
	end, err := q.completed(r)
	if err != nil {
		return nil, err
	}
	st, err := q.opt.Sessions.State(q.ctx, q.caller, r.session)
	if err != nil {
		return nil, err
	}
	return r.state(end, st, q.records), nil
}

// state describes a run. end is its turn.completed, nil while it is active.
func (r *run) state(end *chat.Event, st *chat.State, records *record.Set) map[string]any {
	s := map[string]any{
		"id": r.ID, "agent_id": r.AgentID, "conversation_id": orNull(r.Conversation), "background": r.options.Background,
		"created_at": stamp(r.Started.At), "completed_at": nil, "status": "running", "stop_reason": nil, "metadata": nil, "request_config": nil,
		"callback_url": nil, "callback_sent_at": nil, "callback_status_code": nil, "callback_error": nil, "base_template_id": nil,
		"ttft_ns": nil, "total_duration_ns": nil,
	}
	addCallbackState(records, s)
	finish := func(status, reason string, at chat.At) {
		s["status"], s["stop_reason"], s["completed_at"] = status, reason, stamp(at)
		s["total_duration_ns"] = int64(at-r.Started.At) * 1000
	}
	if end != nil {
		e := stream.EndingOf(end.Body.(chat.TurnCompleted), end.At)
		status := "completed"
		switch e.Reason {
		case stream.StopCancelled:
			status = "cancelled"
		case stream.StopError:
			status = "failed"
			s["metadata"] = map[string]any{"error": map[string]string{"type": "internal_error", "message": e.Failed}}
		}
		finish(status, e.Reason, end.At)
		return s
	}
	for _, p := range st.Prompts {
		if p.Turn != r.Turn || p.Workstream != mainLine {
			continue
		}
		// A run that waits for an answer counts as completed. It goes on under the same id.
		reason := stream.StopEndTurn
		if p.Approval != nil {
			reason = stream.StopApproval
		}
		finish("completed", reason, p.AskedAt)
		break
	}
	return s
}

// runMessages returns the messages of a run, with the message that began it, and its agent.usage and turn.completed events.
func (q *request) runMessages(r *run) ([]llm.Message, []chat.Event, error) {
	fold := llm.NewFold(r.conv.fold())
	if r.Trigger.Seq > 0 {
		fold.Apply(&r.Trigger)
	}
	fold.Apply(&r.Started)
	var reports []chat.Event
	for e, err := range q.opt.Sessions.Events(q.ctx, q.caller, r.session, chat.Range{After: r.Started.Seq}) {
		if err != nil {
			return nil, nil, err
		}
		fold.Apply(&e)
		if e.Turn != r.Turn || e.Workstream != mainLine {
			continue
		}
		if _, usage := e.Body.(chat.AgentUsage); usage {
			reports = append(reports, e)
		}
		if _, completed := e.Body.(chat.TurnCompleted); completed {
			reports = append(reports, e)
			break
		}
	}
	messages := slices.DeleteFunc(slices.Clone(fold.Messages()), func(m llm.Message) bool { return m.RunID != r.ID })
	return messages, reports, nil
}
