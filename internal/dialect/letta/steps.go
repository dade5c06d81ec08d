package letta

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
)

// listRunSteps lists the steps of a run: each is one call of the model and what
// came of it.
func (d *Dialect) listRunSteps(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	q := newQuery(r)
	asc, limit := q.order("desc") == "asc", q.limit(100, 1000)
	if q.err != nil {
		return q.err
	}
	run, err := d.loadRun(r.Context(), c, r.PathValue("run"))
	if err != nil {
		return err
	}
	messages, reports, err := d.runMessages(r.Context(), c, run)
	if err != nil {
		return err
	}
	page, err := sliceOf(stepsOf(run, messages, reports), asc, limit, q.text("after"), q.text("before"), func(s map[string]any) string { return s["id"].(string) })
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, append([]map[string]any{}, page...))
	return nil
}

// stepsOf gathers the messages of a run by step, and gives each step the tokens
// that were reported while it was the last.
func stepsOf(run *run, messages []llm.Message, reports []chat.Event) []map[string]any {
	type step struct {
		id       string
		model    string
		began    time.Time
		messages []llm.Message
		usage    chat.Usage
	}
	var steps []*step
	for _, m := range messages {
		if m.StepID == "" {
			continue
		}
		i := slices.IndexFunc(steps, func(s *step) bool { return s.id == m.StepID })
		if i < 0 {
			i = len(steps)
			steps = append(steps, &step{id: m.StepID, began: m.CreatedAt})
		}
		s := steps[i]
		s.model = first(s.model, m.Model)
		if run.conversation == "" {
			m.ConversationID = "" // the default one has no name
		}
		s.messages = append(s.messages, m)
	}
	var end *chat.TurnCompleted
	for _, e := range reports {
		switch b := e.Body.(type) {
		case chat.AgentUsage:
			for i := len(steps) - 1; i >= 0; i-- {
				if !steps[i].began.After(e.At.Time()) || i == 0 {
					steps[i].usage = steps[i].usage.Plus(b.Usage)
					break
				}
			}
		case chat.TurnCompleted:
			end = &b
		}
	}
	out := make([]map[string]any, len(steps))
	for i, s := range steps {
		status, reason := "success", any(nil)
		if i == len(steps)-1 {
			status = "pending"
			if end != nil {
				how := endingOf(*end, 0)
				reason = how.reason
				status = map[string]string{stopCancelled: "cancelled", stopError: "failed"}[how.reason]
				status = first(status, "success")
			}
		}
		out[i] = map[string]any{
			"id": s.id, "run_id": run.id, "agent_id": run.agentID, "model": or(s.model), "model_handle": or(s.model), "provider_name": "parley",
			"prompt_tokens": s.usage.InputTokens, "completion_tokens": s.usage.OutputTokens, "total_tokens": s.usage.InputTokens + s.usage.OutputTokens,
			"cached_input_tokens": s.usage.CacheReadTokens, "cache_write_tokens": s.usage.CacheCreationTokens, "reasoning_tokens": s.usage.ReasoningTokens,
			"status": status, "stop_reason": reason, "messages": s.messages, "tags": []string{}, "origin": nil, "trace_id": nil, "feedback": nil,
		}
	}
	return out
}

// findStep finds a step by its id, with the run that it is of.
func (d *Dialect) findStep(ctx context.Context, c chat.Caller, id string) (*run, map[string]any, error) {
	nothing := chat.Errorf(chat.NotFound, "there is no step %q, or it is not yours", clip(id))
	sess, seq, err := d.byID(ctx, c, llm.StepPrefix, id, nothing)
	if err != nil {
		return nil, nil, err
	}
	started, err := d.turnAt(ctx, c, sess.ID, seq)
	if err != nil {
		return nil, nil, err
	}
	if started == nil {
		return nil, nil, nothing
	}
	run, err := d.runOf(ctx, c, &sess, *started)
	if err != nil {
		return nil, nil, err
	}
	messages, reports, err := d.runMessages(ctx, c, run)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range stepsOf(run, messages, reports) {
		if s["id"] == id {
			return run, s, nil
		}
	}
	return nil, nil, nothing
}

// turnAt returns the beginning of the turn that an event is of, or the next one
// that is of any: a step is named after the place where the agent began to speak,
// and a message that waits may stand there.
func (d *Dialect) turnAt(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (*chat.Event, error) {
	facts, _, err := d.opt.Sessions.Read(ctx, c, id, chat.Range{After: seq - 1, Limit: 100, Workstream: &mainLine})
	if err != nil {
		return nil, err
	}
	for _, f := range facts {
		e, err := f.Event()
		if err != nil {
			return nil, err
		}
		if e.Turn != "" {
			return d.began(ctx, c, id, e.Turn)
		}
	}
	return nil, nil
}

func (d *Dialect) getStep(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	_, step, err := d.findStep(r.Context(), c, r.PathValue("step"))
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, step)
	return nil
}

// getStepMetrics tells what is known of a step's timing, which is when it began.
func (d *Dialect) getStepMetrics(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	run, step, err := d.findStep(r.Context(), c, r.PathValue("step"))
	if err != nil {
		return err
	}
	began := step["messages"].([]llm.Message)[0].CreatedAt
	d.send(w, r, http.StatusOK, map[string]any{
		"id": step["id"], "agent_id": run.agentID, "run_id": run.id, "step_start_ns": began.UnixNano(), "step_ns": nil,
		"llm_request_start_ns": nil, "llm_request_ns": nil, "tool_execution_ns": nil, "provider_id": nil, "project_id": nil,
		"template_id": nil, "base_template_id": nil,
	})
	return nil
}

// getStepTrace answers that what went to a provider was not kept.
func (d *Dialect) getStepTrace(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	if _, _, err := d.findStep(r.Context(), c, r.PathValue("step")); err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, nil)
	return nil
}

// listStepMessages lists what was said in a step.
func (d *Dialect) listStepMessages(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	q := newQuery(r)
	l := q.messages("asc")
	if q.err != nil {
		return q.err
	}
	run, step, err := d.findStep(r.Context(), c, r.PathValue("step"))
	if err != nil {
		return err
	}
	page, err := sliceOf(step["messages"].([]llm.Message), l.asc, l.limit, l.after, l.before, func(m llm.Message) string { return m.ID })
	if err != nil {
		return err
	}
	d.sendItems(w, r, l.show(&place{form: run.form}, page))
	return nil
}

// listSteps lists the steps of an agent's runs, or of those that happened last.
func (d *Dialect) listSteps(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	ctx, q := r.Context(), newQuery(r)
	asc, limit, model := q.ascending(), q.limit(50, 1000), q.text("model")
	from, to := q.time("start_date"), q.time("end_date")
	if q.flag("has_feedback", false) || q.text("feedback") != "" || len(q.texts("trace_ids")) > 0 || len(q.texts("tags")) > 0 {
		limit = 0 // steps here have none of these
	}
	if q.err != nil {
		return q.err
	}
	f := runFilter{asc: asc, limit: max(limit, 1)}
	for _, m := range []struct {
		name string
		into **chat.Event
	}{{"after", &f.after}, {"before", &f.before}} {
		if id := q.text(m.name); id != "" {
			run, _, err := d.findStep(ctx, c, id)
			if err != nil {
				return err
			}
			*m.into = &run.started
		}
	}
	out, err := d.stepsIn(ctx, c, q, &f)
	if err != nil {
		return err
	}
	out = slices.DeleteFunc(out, func(s map[string]any) bool {
		at := s["messages"].([]llm.Message)[0].CreatedAt
		return model != "" && s["model"] != model || !from.IsZero() && at.Before(from) || !to.IsZero() && at.After(to)
	})
	page, err := sliceOf(out, true, max(limit, 1), q.text("after"), q.text("before"), func(s map[string]any) string { return s["id"].(string) })
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, append([]map[string]any{}, page[:min(limit, len(page))]...))
	return nil
}

// stepsIn gathers the steps of as many runs as a page can need, in the order of
// the list. The runs of the steps that a page lies between are among them.
func (d *Dialect) stepsIn(ctx context.Context, c chat.Caller, q *query, f *runFilter) ([]map[string]any, error) {
	places, err := d.runPlaces(ctx, c, q.texts("agent_id"), "", false)
	if err != nil {
		return nil, err
	}
	var runs []*run
	for _, p := range places {
		marks := *f
		for _, mark := range []*chat.Event{f.after, f.before} {
			if mark == nil || mark.Session != p.session {
				continue
			}
			at, err := d.runIn(ctx, c, p, *mark)
			if err != nil {
				return nil, err
			}
			runs = append(runs, at)
		}
		if err := d.runsIn(ctx, c, p, &marks, func(run *run, _ map[string]any) { runs = append(runs, run) }); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(runs, func(x, y *run) int {
		if !f.asc {
			x, y = y, x
		}
		return beganInOrder(&x.started, &y.started)
	})
	runs = slices.CompactFunc(runs, func(x, y *run) bool { return x.id == y.id })
	var out []map[string]any
	for _, run := range runs {
		messages, reports, err := d.runMessages(ctx, c, run)
		if err != nil {
			return nil, err
		}
		steps := stepsOf(run, messages, reports)
		if !f.asc {
			slices.Reverse(steps)
		}
		out = append(out, steps...)
	}
	return out, nil
}
