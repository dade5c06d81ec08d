package letta

import (
	"cmp"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
)

func (q *request) getRun(run *run) (any, error) { return q.runState(run) }

// listRunMessages lists the messages of a run, the oldest first by default.
func (q *request) listRunMessages(run *run) (any, error) {
	list := q.messagePage("asc")
	messages, _, err := q.runMessages(run)
	if err != nil {
		return nil, err
	}
	page, err := pageOf(messages, &list.pageQuery, messageID, nil)
	return list.items(page), err
}

func messageID(m llm.Message) string { return m.ID }

func (q *request) getRunUsage(run *run) (any, error) {
	_, reports, err := q.runMessages(run)
	var u chat.Usage
	for _, e := range reports {
		if b, ok := e.Body.(chat.AgentUsage); ok {
			u = u.Plus(b.Usage)
		}
	}
	return map[string]any{
		"prompt_tokens": u.InputTokens, "completion_tokens": u.OutputTokens, "total_tokens": u.InputTokens + u.OutputTokens,
		"prompt_tokens_details":     map[string]int64{"cached_tokens": u.CacheReadTokens, "cache_read_tokens": u.CacheReadTokens, "cache_creation_tokens": u.CacheCreationTokens},
		"completion_tokens_details": map[string]int64{"reasoning_tokens": u.ReasoningTokens},
	}, err
}

// runFilter selects runs for a list. after and before are the turn.started events of runs, in the order of the list.
type runFilter struct {
	statuses      []string
	reason        string
	background    *bool
	active        bool
	asc           bool
	limit         int
	after, before *chat.Event
}

// setMarks sets after and before to the runs that a page names.
func (f *runFilter) setMarks(p *pageQuery, load func(id string) (*run, error)) error {
	for _, mark := range []struct {
		id   string
		into **chat.Event
	}{{p.after, &f.after}, {p.before, &f.before}} {
		if mark.id == "" {
			continue
		}
		run, err := load(mark.id)
		if err != nil {
			return err
		}
		*mark.into = &run.Started
	}
	return nil
}

func (f *runFilter) fits(state map[string]any) bool {
	status, _ := state["status"].(string)
	reason, _ := state["stop_reason"].(string)
	return (len(f.statuses) == 0 || slices.Contains(f.statuses, status)) && (f.reason == "" || f.reason == reason) &&
		(f.background == nil || state["background"] == *f.background) && (!f.active || status == "created" || status == "running")
}

// newestFirst reports whether runs are read from the newest on: in that direction a full page is cut.
func (f *runFilter) newestFirst() bool { return f.asc == (f.before != nil && f.after == nil) }

// compare orders the turn.started events of runs in the direction of reading.
func (f *runFilter) compare(x, y *chat.Event) int {
	if f.newestFirst() {
		x, y = y, x
	}
	return comparePositions(x.At, x.Session, y.At, y.Session)
}

// runStatuses are the statuses that a list of runs can be filtered by.
var runStatuses = []string{"created", "running", "completed", "failed", "cancelled"}

func (q *request) listRuns() (any, error) {
	page := q.page("desc", 100)
	f := runFilter{statuses: q.All("statuses"), reason: q.Text("stop_reason"), active: q.Bool("active", false), asc: page.asc, limit: page.limit}
	if q.Text("background") != "" {
		background := q.Bool("background", false)
		f.background = &background
	}
	if q.Text("order") == "" {
		f.asc = q.Bool("ascending", false)
	}
	for _, status := range f.statuses {
		if !slices.Contains(runStatuses, status) {
			q.Refuse("statuses", status, "it must be one of "+strings.Join(runStatuses, ", "))
		}
	}
	if err := f.setMarks(&page, q.loadRun); err != nil {
		return nil, err
	}
	conversations, err := q.selectConversations(append(q.All("agent_ids"), q.All("agent_id")...), q.Text("conversation_id"), f.active)
	if err != nil {
		return nil, err
	}
	var found []listedRun
	for _, cv := range conversations {
		list, err := q.runsOf(cv, &f)
		if err != nil {
			return nil, err
		}
		found = append(found, list...)
	}
	slices.SortStableFunc(found, func(x, y listedRun) int { return f.compare(&x.Started, &y.Started) })
	found = found[:min(len(found), f.limit)]
	if f.newestFirst() == f.asc {
		slices.Reverse(found)
	}
	out := make([]any, len(found))
	for i := range found {
		out[i] = found[i].state
	}
	return out, nil
}

// listedRun is a run with its state.
type listedRun struct {
	*run
	state map[string]any
}

// runsOf returns the first runs of a conversation that fit the filter, in the direction of reading.
func (q *request) runsOf(cv *conversation, f *runFilter) ([]listedRun, error) {
	st, err := q.opt.Sessions.State(q.ctx, q.caller, cv.session)
	if err != nil {
		return nil, err
	}
	from, to := f.after, f.before
	if f.before != nil && f.after == nil {
		from, to = f.before, nil
	}
	var out []listedRun
	for started, err := range q.opt.Sessions.Events(q.ctx, q.caller, cv.session, chat.Range{
		Desc: f.newestFirst(), Workstream: &mainLine, Types: []string{chat.TurnStarted{}.Type()},
	}) {
		if err != nil {
			return nil, err
		}
		if from != nil && f.compare(&started, from) <= 0 || to != nil && f.compare(&started, to) >= 0 {
			continue
		}
		run, err := q.runIn(cv, started)
		if err != nil {
			return nil, err
		}
		end, err := q.completed(run)
		if err != nil {
			return nil, err
		}
		if state := run.state(end, st, q.records); f.fits(state) {
			out = append(out, listedRun{run, state})
		}
		if len(out) == f.limit {
			break
		}
	}
	return out, nil
}

// comparePositions orders entries of several conversations: by time and, because a fork has the times of the original,
// by session.
func comparePositions(x chat.At, in chat.SessionID, y chat.At, of chat.SessionID) int {
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(in, of))
}
