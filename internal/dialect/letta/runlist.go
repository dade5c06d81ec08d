package letta

import (
	"context"
	"net/http"
	"slices"

	"github.com/parley-hq/parley/chat"
)

// runFilter says which runs are wanted.
type runFilter struct {
	statuses   []string
	reason     string
	background *bool
	active     bool
	asc        bool
	limit      int
	after      *chat.Event // only runs behind the one that this began, in the order of the list
	before     *chat.Event
}

func (f *runFilter) fits(s map[string]any) bool {
	status, _ := s["status"].(string)
	reason, _ := s["stop_reason"].(string)
	return (len(f.statuses) == 0 || slices.Contains(f.statuses, status)) && (f.reason == "" || f.reason == reason) &&
		(f.background == nil || s["background"] == *f.background) && (!f.active || status == "created" || status == "running")
}

// runStatuses are those that a list of runs can be asked for.
var runStatuses = []string{"created", "running", "completed", "failed", "cancelled"}

func (d *Dialect) listRuns(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	ctx, q := r.Context(), newQuery(r)
	f := runFilter{statuses: q.texts("statuses"), reason: q.text("stop_reason"), active: q.flag("active", false), asc: q.ascending(), limit: q.limit(100, 1000)}
	if q.has("background") {
		b := q.flag("background", false)
		f.background = &b
	}
	if !q.has("order") && q.has("ascending") {
		f.asc = q.flag("ascending", false)
	}
	for _, status := range f.statuses {
		if !slices.Contains(runStatuses, status) {
			q.fail("statuses=%q is not one of %v", clip(status), runStatuses)
		}
	}
	if q.err != nil {
		return q.err
	}
	for _, m := range []struct {
		name string
		into **chat.Event
	}{{"after", &f.after}, {"before", &f.before}} {
		if id := q.text(m.name); id != "" {
			run, err := d.loadRun(ctx, c, id)
			if err != nil {
				return err
			}
			*m.into = &run.started
		}
	}
	places, err := d.runPlaces(ctx, c, append(q.texts("agent_ids"), q.texts("agent_id")...), q.text("conversation_id"), f.active)
	if err != nil {
		return err
	}
	type listed struct {
		started *chat.Event
		state   map[string]any
	}
	var all []listed
	for _, p := range places {
		err := d.runsIn(ctx, c, p, &f, func(run *run, state map[string]any) { all = append(all, listed{&run.started, state}) })
		if err != nil {
			return err
		}
	}
	newest := !f.asc != (f.before != nil && f.after == nil) // the order in which a full page was cut
	slices.SortStableFunc(all, func(x, y listed) int {
		if newest {
			x, y = y, x
		}
		return beganInOrder(x.started, y.started)
	})
	all = all[:min(len(all), f.limit)]
	if newest == f.asc {
		slices.Reverse(all)
	}
	out := make([]any, 0, len(all))
	for _, l := range all {
		out = append(out, l.state)
	}
	d.send(w, r, http.StatusOK, out)
	return nil
}

// beganInOrder compares two runs by when they began.
func beganInOrder(x, y *chat.Event) int { return inOrder(x.At, x.Session, y.At, y.Session) }

// recentPlaces is how many conversations are looked through when no agent is
// named: those in which something happened last.
const recentPlaces = 200

// runPlaces are the conversations whose runs are wanted.
func (d *Dialect) runPlaces(ctx context.Context, c chat.Caller, agents []string, conversation string, active bool) ([]*place, error) {
	agents = slices.DeleteFunc(agents, func(s string) bool { return s == "" || s == "null" })
	if conversation != "" {
		agent := ""
		if len(agents) > 0 {
			agent = agents[0]
		}
		p, err := d.conversationPlace(ctx, c, conversation, agent)
		if err != nil {
			return nil, err
		}
		return []*place{p}, nil
	}
	var out []*place
	for _, id := range agents {
		places, err := d.placesOf(ctx, c, id, "")
		if err != nil {
			return nil, err
		}
		out = append(out, places...)
	}
	if len(agents) > 0 {
		return out, nil
	}
	page, err := d.opt.Sessions.List(ctx, c, chat.Filter{Limit: recentPlaces})
	if err != nil {
		return nil, err
	}
	for i := range page.Sessions {
		sess := &page.Sessions[i]
		if sess.Agent == chat.NoAgent || active && sess.Status != chat.Running && sess.Status != chat.Waiting {
			continue
		}
		p, err := d.placeOf(ctx, c, sess)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// runsIn calls add with the runs of a conversation that fit, at most a page, in
// the direction of the list.
func (d *Dialect) runsIn(ctx context.Context, c chat.Caller, p *place, f *runFilter, add func(*run, map[string]any)) error {
	st, err := d.opt.Sessions.State(ctx, c, p.session)
	if err != nil {
		return err
	}
	b, err := d.bookOf(ctx, c)
	if err != nil {
		return err
	}
	// after and before are places in the order of the list; here they become
	// times.
	older, newer := f.after, f.before // runs lie before older and behind newer
	if f.asc {
		older, newer = f.before, f.after
	}
	desc := !f.asc != (f.before != nil && f.after == nil)
	rg := chat.Range{Limit: 256, Desc: desc, Workstream: &mainLine, Types: []string{chat.TurnStarted{}.Type(), chat.TurnCompleted{}.Type()}}
	var last *chat.Event // the event read before
	found := 0
	one := func(started chat.Event, end *chat.Event) error {
		if older != nil && beganInOrder(&started, older) >= 0 || newer != nil && beganInOrder(&started, newer) <= 0 {
			return nil
		}
		run, err := d.runIn(ctx, c, p, started)
		if err != nil {
			return err
		}
		if state := run.state(end, st); f.fits(state) {
			withCall(b, state)
			add(run, state)
			found++
		}
		return nil
	}
	for found < f.limit {
		facts, more, err := d.opt.Sessions.Read(ctx, c, p.session, rg)
		if err != nil {
			return err
		}
		for _, fact := range facts {
			e, err := fact.Event()
			if err != nil {
				return err
			}
			if desc {
				rg.Before = e.Seq
			} else {
				rg.After = e.Seq
			}
			// A start and its end are neighbours: one turn runs at a time.
			_, began := e.Body.(chat.TurnStarted)
			switch {
			case desc && began:
				err = one(e, last)
				last = nil
			case !desc && !began && last != nil:
				err = one(*last, &e)
				last = nil
			default:
				last = &e
			}
			if err != nil {
				return err
			}
			if found == f.limit {
				return nil
			}
		}
		if !more || len(facts) == 0 {
			break
		}
	}
	if !desc && last != nil {
		return one(*last, nil) // it is under way
	}
	return nil
}
