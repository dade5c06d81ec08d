package letta

import (
	"cmp"
	"slices"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/letta/stream"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
)

// step is one call of the model in a run, with its messages.
type step struct {
	id         string
	run        *run
	model      string
	messages   []llm.Message
	usage      chat.Usage
	status     string
	stopReason any // nil unless it is the last step of a completed run
}

func stepID(s *step) string { return s.id }

// began is when the step's first message was created.
func (s *step) began() time.Time { return s.messages[0].CreatedAt }

// MarshalJSON writes the step as clients see it.
func (s *step) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"id": s.id, "run_id": s.run.ID, "agent_id": s.run.AgentID, "model": orNull(s.model), "model_handle": orNull(s.model), "provider_name": "parley",
		"prompt_tokens": s.usage.InputTokens, "completion_tokens": s.usage.OutputTokens, "total_tokens": s.usage.InputTokens + s.usage.OutputTokens,
		"cached_input_tokens": s.usage.CacheReadTokens, "cache_write_tokens": s.usage.CacheCreationTokens, "reasoning_tokens": s.usage.ReasoningTokens,
		"status": s.status, "stop_reason": s.stopReason, "messages": s.messages, "tags": []string{}, "origin": nil, "trace_id": nil, "feedback": nil,
	})
}

// steps returns the steps of a run. A usage report counts for the step that was the last one at its time.
func (q *request) steps(run *run) ([]*step, error) {
	messages, reports, err := q.runMessages(run)
	if err != nil {
		return nil, err
	}
	var steps []*step
	for _, m := range messages {
		if m.StepID == "" {
			continue
		}
		i := slices.IndexFunc(steps, func(s *step) bool { return s.id == m.StepID })
		if i < 0 {
			i = len(steps)
			steps = append(steps, &step{id: m.StepID, run: run, status: "success"})
		}
		s := steps[i]
		s.model = cmp.Or(s.model, m.Model)
		m.ConversationID = run.Conversation // "" for the default one
		s.messages = append(s.messages, m)
	}
	if len(steps) == 0 {
		return nil, nil
	}
	last := steps[len(steps)-1]
	last.status = "pending"
	for _, e := range reports {
		switch b := e.Body.(type) {
		case chat.AgentUsage:
			s := steps[0]
			for _, next := range steps[1:] {
				if !next.began().After(e.At.Time()) {
					s = next
				}
			}
			s.usage = s.usage.Plus(b.Usage)
		case chat.TurnCompleted:
			reason := stream.EndingOf(b, 0).Reason
			last.stopReason = reason
			last.status = cmp.Or(map[string]string{stream.StopCancelled: "cancelled", stream.StopError: "failed"}[reason], "success")
		}
	}
	return steps, nil
}

func (q *request) listRunSteps(run *run) (any, error) {
	page := q.page("desc", 100)
	steps, err := q.steps(run)
	if err != nil {
		return nil, err
	}
	return pageOf(steps, &page, stepID, nil)
}

// findStep returns the step with an id.
func (q *request) findStep(id string) (*step, error) {
	sess, seq, err := q.eventByID("step", llm.StepPrefix, id)
	if err != nil {
		return nil, err
	}
	started, err := q.turnAt(sess.ID, seq)
	if err != nil {
		return nil, err
	}
	if started == nil {
		return nil, errNotFound("step", id)
	}
	run, err := q.runIn(q.conversationOf(&sess), *started)
	if err != nil {
		return nil, err
	}
	steps, err := q.steps(run)
	if err != nil {
		return nil, err
	}
	for _, s := range steps {
		if s.id == id {
			return s, nil
		}
	}
	return nil, errNotFound("step", id)
}

// turnAt returns the turn.started of the first turn with an event at or after a number. The id of a step has the number
// at which the agent began to write, and a waiting message may be stored there.
func (q *request) turnAt(id chat.SessionID, seq chat.Seq) (*chat.Event, error) {
	for e, err := range q.opt.Sessions.Events(q.ctx, q.caller, id, chat.Range{After: seq - 1, Limit: 100, Workstream: &mainLine}) {
		if err != nil {
			return nil, err
		}
		if e.Turn != "" {
			return q.turnStarted(id, e.Turn)
		}
	}
	return nil, nil
}

func (q *request) getStep(s *step) (any, error) { return s, nil }

// getStepMetrics answers with the start of a step; other times are not stored.
func (q *request) getStepMetrics(s *step) (any, error) {
	return map[string]any{
		"id": s.id, "agent_id": s.run.AgentID, "run_id": s.run.ID, "step_start_ns": s.began().UnixNano(), "step_ns": nil,
		"llm_request_start_ns": nil, "llm_request_ns": nil, "tool_execution_ns": nil, "provider_id": nil, "project_id": nil,
		"template_id": nil, "base_template_id": nil,
	}, nil
}

// getStepTrace answers null: requests to providers are not stored.
func (q *request) getStepTrace(*step) (any, error) { return nil, nil }

func (q *request) listStepMessages(s *step) (any, error) {
	list := q.messagePage("asc")
	page, err := pageOf(s.messages, &list.pageQuery, messageID, nil)
	return list.items(page), err
}

// listSteps lists the steps of an agent's runs, or of the runs in recent conversations.
func (q *request) listSteps() (any, error) {
	page, model := q.page("desc", 50), q.Text("model")
	from, to := q.Time("start_date"), q.Time("end_date")
	none := q.Bool("has_feedback", false) || q.Text("feedback") != "" || len(q.All("trace_ids")) > 0 || len(q.All("tags")) > 0
	f := runFilter{asc: page.asc, limit: page.limit}
	err := f.setMarks(&page, func(id string) (*run, error) {
		s, err := q.findStep(id)
		if err != nil {
			return nil, err
		}
		return s.run, nil
	})
	if err != nil {
		return nil, err
	}
	if none { // steps have no feedback, traces and tags
		return []*step{}, nil
	}
	conversations, err := q.selectConversations(q.All("agent_id"), "", false)
	if err != nil {
		return nil, err
	}
	steps, err := q.stepsOf(conversations, &f)
	if err != nil {
		return nil, err
	}
	return pageOf(steps, &page, stepID, func(s *step) (bool, error) {
		return (model == "" || s.model == model) && (from.IsZero() || !s.began().Before(from)) && (to.IsZero() || !s.began().After(to)), nil
	})
}

// stepsOf returns the steps of as many runs as a page can need, the oldest first. The runs that after and before name are
// included.
func (q *request) stepsOf(conversations []*conversation, f *runFilter) ([]*step, error) {
	var runs []*run
	for _, cv := range conversations {
		for _, mark := range []*chat.Event{f.after, f.before} {
			if mark == nil || mark.Session != cv.session {
				continue
			}
			run, err := q.runIn(cv, *mark)
			if err != nil {
				return nil, err
			}
			runs = append(runs, run)
		}
		list, err := q.runsOf(cv, f)
		if err != nil {
			return nil, err
		}
		for _, l := range list {
			runs = append(runs, l.run)
		}
	}
	slices.SortStableFunc(runs, func(x, y *run) int {
		return comparePositions(x.Started.At, x.session, y.Started.At, y.session)
	})
	runs = slices.CompactFunc(runs, func(x, y *run) bool { return x.ID == y.ID })
	var out []*step
	for _, run := range runs {
		steps, err := q.steps(run)
		if err != nil {
			return nil, err
		}
		out = append(out, steps...)
	}
	return out, nil
}
