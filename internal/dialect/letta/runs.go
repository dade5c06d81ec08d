package letta

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
)

// runState is a run as clients see it.
func (d *Dialect) runState(ctx context.Context, c chat.Caller, r *run) (map[string]any, error) {
	end, err := d.completed(ctx, c, r)
	if err != nil {
		return nil, err
	}
	var st *chat.State
	if end == nil {
		if st, err = d.opt.Sessions.State(ctx, c, r.session); err != nil {
			return nil, err
		}
	}
	b, err := d.bookOf(ctx, c)
	if err != nil {
		return nil, err
	}
	state := r.state(end, st)
	withCall(b, state)
	return state, nil
}

// state words a run: end is the event that ended it, st the session's state
// while it is under way.
func (r *run) state(end *chat.Event, st *chat.State) map[string]any {
	s := map[string]any{
		"id": r.id, "agent_id": r.agentID, "conversation_id": or(r.conversation), "background": r.options.Background,
		"created_at": stamp(r.started.At), "completed_at": nil, "status": "running", "stop_reason": nil, "metadata": nil, "request_config": nil,
		"callback_url": nil, "callback_sent_at": nil, "callback_status_code": nil, "callback_error": nil, "base_template_id": nil,
		"ttft_ns": nil, "total_duration_ns": nil,
	}
	finish := func(status, reason string, at chat.At) {
		s["status"], s["stop_reason"], s["completed_at"] = status, reason, stamp(at)
		s["total_duration_ns"] = int64(at-r.started.At) * 1000
	}
	if end != nil {
		e := endingOf(end.Body.(chat.TurnCompleted), end.At)
		status := "completed"
		switch e.reason {
		case stopCancelled:
			status = "cancelled"
		case stopError:
			status = "failed"
			s["metadata"] = map[string]any{"error": map[string]string{"type": "internal_error", "message": e.failed}}
		}
		finish(status, e.reason, end.At)
		return s
	}
	if st == nil {
		return s
	}
	for _, p := range st.Prompts {
		if p.Turn != r.turn || p.Workstream != mainLine {
			continue
		}
		// It goes on, under the same id, when somebody answers.
		reason := stopEndTurn
		if p.Approval != nil {
			reason = stopApproval
		}
		finish("completed", reason, p.AskedAt)
		return s
	}
	return s
}

func (d *Dialect) getRun(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	run, err := d.loadRun(r.Context(), c, r.PathValue("run"))
	if err != nil {
		return err
	}
	state, err := d.runState(r.Context(), c, run)
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, state)
	return nil
}

// runMessages are the messages of a run, what it answers included.
func (d *Dialect) runMessages(ctx context.Context, c chat.Caller, r *run) ([]llm.Message, []chat.Event, error) {
	fold := llm.NewFold(llm.Options{AgentID: r.agentID, ConversationID: r.conversation})
	if r.trigger.Seq > 0 {
		fold.Apply(&r.trigger)
	}
	fold.Apply(&r.started)
	var usage []chat.Event
	after, done := r.started.Seq, false
	for !done {
		facts, more, err := d.opt.Sessions.Read(ctx, c, r.session, chat.Range{After: after, Limit: 500, MaxBytes: 4 << 20})
		if err != nil {
			return nil, nil, err
		}
		for _, f := range facts {
			e, err := f.Event()
			if err != nil {
				return nil, nil, err
			}
			after = e.Seq
			fold.Apply(&e)
			if e.Turn != r.turn || e.Workstream != mainLine {
				continue
			}
			switch e.Body.(type) {
			case chat.AgentUsage:
				usage = append(usage, e)
			case chat.TurnCompleted:
				usage, done = append(usage, e), true
			}
			if done {
				break
			}
		}
		done = done || !more || len(facts) == 0
	}
	out := slices.DeleteFunc(slices.Clone(fold.Messages()), func(m llm.Message) bool { return m.RunID != r.id })
	return out, usage, nil
}

// listRunMessages lists the messages of a run, the oldest first unless asked
// otherwise.
func (d *Dialect) listRunMessages(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	q := newQuery(r)
	l := q.messages("asc")
	if q.err != nil {
		return q.err
	}
	run, err := d.loadRun(r.Context(), c, r.PathValue("run"))
	if err != nil {
		return err
	}
	messages, _, err := d.runMessages(r.Context(), c, run)
	if err != nil {
		return err
	}
	page, err := sliceOf(messages, l.asc, l.limit, l.after, l.before, func(m llm.Message) string { return m.ID })
	if err != nil {
		return err
	}
	d.sendItems(w, r, l.show(&place{form: run.form}, page))
	return nil
}

// sliceOf is a page of a list that is at hand; after and before are places in
// the order asked for.
func sliceOf[T any](list []T, asc bool, limit int, after, before string, id func(T) string) ([]T, error) {
	list = slices.Clone(list)
	if !asc {
		slices.Reverse(list)
	}
	if after != "" {
		i := slices.IndexFunc(list, func(v T) bool { return id(v) == after })
		if i < 0 {
			return nil, chat.Errorf(chat.NotFound, "after: there is no %q in this list", clip(after))
		}
		list = list[i+1:]
	}
	if before != "" {
		i := slices.IndexFunc(list, func(v T) bool { return id(v) == before })
		if i < 0 {
			return nil, chat.Errorf(chat.NotFound, "before: there is no %q in this list", clip(before))
		}
		list = list[max(0, i-limit):i]
	}
	return list[:min(limit, len(list))], nil
}

// resumeBody is a request to go on with a stream.
type resumeBody struct {
	AgentID  string   `json:"agent_id"`
	RunID    string   `json:"run_id"`
	OTID     string   `json:"otid"`
	After    *float64 `json:"starting_after"`
	Pings    *bool    `json:"include_pings"`
	Interval *float64 `json:"poll_interval"`
	Batch    *float64 `json:"batch_size"`
}

func (b *resumeBody) check() error {
	if b.After != nil && (*b.After < 0 || *b.After != float64(int64(*b.After)) || *b.After > 1<<53) {
		return unfit("starting_after: it is the seq_id of the last frame, or 0")
	}
	return nil
}

// follow is who follows a run from the place that a request names.
func (b *resumeBody) follow(d *Dialect, c chat.Caller, p *place, run *run) *follower {
	f := &follower{d: d, caller: c, place: p, run: run, tokens: run.options.Tokens, pings: b.Pings == nil || *b.Pings, form: run.form}
	f.form.summaries = run.options.Compaction
	f.form.assistant = true
	if b.After != nil {
		f.after = chat.At(*b.After)
	}
	return f
}

// resumeRun goes on with the stream of a run, whether it is under way or not.
func (d *Dialect) resumeRun(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var b resumeBody
	if err := d.readJSON(r, &b); err != nil {
		return err
	}
	if err := b.check(); err != nil {
		return err
	}
	run, err := d.loadRun(r.Context(), c, r.PathValue("run"))
	if err != nil {
		return err
	}
	p := &place{session: run.session, agentID: run.agentID, conversation: run.conversation, form: run.form}
	return b.follow(d, c, p, run).stream(w, r)
}

// resumeConversation goes on with the stream of a conversation's run: of the one
// that is named, of that which answers an otid, or of that which is under way.
func (d *Dialect) resumeConversation(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	ctx := r.Context()
	var b resumeBody
	if err := d.readJSON(r, &b); err != nil {
		return err
	}
	if err := b.check(); err != nil {
		return err
	}
	p, err := d.conversationPlace(ctx, c, r.PathValue("conversation"), first(b.AgentID, r.URL.Query().Get("agent_id")))
	if err != nil {
		return err
	}
	var run *run
	switch {
	case b.RunID != "":
		if run, err = d.loadRun(ctx, c, b.RunID); err == nil && run.session != p.session {
			err = errNoRun(b.RunID)
		}
	case b.OTID != "":
		e, ferr := d.sentBefore(ctx, c, p, b.OTID)
		if ferr == nil && e == nil {
			ferr = chat.Errorf(chat.NotFound, "nothing was sent to this conversation with the otid %q", clip(b.OTID))
		}
		if ferr != nil {
			return ferr
		}
		f, ferr := d.attach(ctx, c, p, &ask{}, *e)
		if ferr != nil {
			return ferr
		}
		if f.run == nil { // it waits for its turn
			f.pings = b.Pings == nil || *b.Pings
			f.tokens = optionsOf(e).Tokens
			return f.stream(w, r)
		}
		run = f.run
	default:
		run, err = d.activeRun(ctx, c, p)
	}
	if err != nil {
		return err
	}
	return b.follow(d, c, p, run).stream(w, r)
}

// activeRun is the run that is under way in a conversation.
func (d *Dialect) activeRun(ctx context.Context, c chat.Caller, p *place) (*run, error) {
	st, err := d.opt.Sessions.State(ctx, c, p.session)
	if err != nil {
		return nil, err
	}
	t := st.Line(mainLine).Turn
	if t == nil {
		return nil, chat.Errorf(chat.Invalid, "No active runs found for this conversation.")
	}
	started, err := d.event(ctx, c, p.session, t.Seq)
	if err != nil {
		return nil, err
	}
	return d.runIn(ctx, c, p, started)
}

func (d *Dialect) getRunUsage(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	run, err := d.loadRun(r.Context(), c, r.PathValue("run"))
	if err != nil {
		return err
	}
	_, reports, err := d.runMessages(r.Context(), c, run)
	if err != nil {
		return err
	}
	var u chat.Usage
	for _, e := range reports {
		if b, ok := e.Body.(chat.AgentUsage); ok {
			u = u.Plus(b.Usage)
		}
	}
	d.send(w, r, http.StatusOK, map[string]any{
		"prompt_tokens": u.InputTokens, "completion_tokens": u.OutputTokens, "total_tokens": u.InputTokens + u.OutputTokens,
		"prompt_tokens_details":     map[string]int64{"cached_tokens": u.CacheReadTokens, "cache_read_tokens": u.CacheReadTokens, "cache_creation_tokens": u.CacheCreationTokens},
		"completion_tokens_details": map[string]int64{"reasoning_tokens": u.ReasoningTokens},
	})
	return nil
}

// seqText is a sequence as the marks of llm.List take it.
func seqText(seq chat.Seq) string { return strconv.FormatUint(uint64(seq), 10) }
