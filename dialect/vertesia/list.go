package vertesia

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
)

// wanted narrows a list of runs.
type wanted struct {
	id, interaction, startedBy, query string
	status, tags, categories          []string
	since, until                      time.Time
	activity                          string
	interactive                       *bool
	limit, offset                     int
	cursor                            string
	ascending                         bool
}

func wantedOf(q url.Values) (w wanted, err error) {
	w = wanted{
		id: q.Get("id"), interaction: q.Get("interaction"), startedBy: q.Get("started_by"), query: first(q.Get("query"), q.Get("q")),
		status: list(q.Get("status")), tags: list(q.Get("tags")), categories: list(q.Get("categories")), cursor: q.Get("cursor"), limit: 50,
		ascending: q.Get("order") == "asc",
	}
	if w.limit, err = number(q, "limit", 50, 1, 1000); err != nil {
		return w, err
	}
	if w.offset, err = number(q, "offset", 0, 0, 1_000_000); err != nil {
		return w, err
	}
	if w.since, err = timeOf(q.Get("since")); err != nil {
		return w, err
	}
	w.until, err = timeOf(q.Get("until"))
	return w, err
}

func number(q url.Values, name string, missing, least, most int) (int, error) {
	s := q.Get(name)
	if s == "" {
		return missing, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		return 0, chat.Errorf(chat.Invalid, "%s=%q is not a number from %d to %d", name, clip(s, 20), least, most)
	}
	return n, nil
}

func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// timeOf reads a time: RFC 3339, a date, or milliseconds.
func timeOf(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		return time.UnixMilli(ms), nil
	}
	return time.Time{}, chat.Errorf(chat.Invalid, "%q is not a time such as 2026-11-15T10:00:00Z", clip(s, 40))
}

// fits reports whether a run is wanted.
func (w *wanted) fits(r *agentRun) bool {
	began := r.StartedAt.Time()
	switch {
	case w.id != "" && r.ID != w.id,
		w.interaction != "" && r.Interaction != w.interaction,
		w.startedBy != "" && r.StartedBy != w.startedBy,
		w.activity != "" && r.Activity != w.activity,
		w.interactive != nil && r.Interactive != *w.interactive,
		w.status != nil && !slices.Contains(w.status, r.Status),
		!w.since.IsZero() && began.Before(w.since),
		!w.until.IsZero() && began.After(w.until):
		return false
	}
	return has(r.Tags, w.tags) && has(r.Categories, w.categories)
}

func has(have json.RawMessage, want []string) bool {
	if len(want) == 0 {
		return true
	}
	var all []string
	if json.Unmarshal(have, &all) != nil {
		return false
	}
	return slices.ContainsFunc(want, func(s string) bool { return slices.Contains(all, s) })
}

// maxScan bounds the sessions that one request looks at.
const maxScan = 10_000

// find walks the caller's sessions, the most recently active first, and returns
// the runs that are wanted and where to go on.
func (d *Dialect) runs(ctx context.Context, c chat.Caller, w wanted) (found []agentRun, next string, err error) {
	f := chat.Filter{Limit: 200, Cursor: w.cursor}
	looks := maxLooks
	if w.id != "" {
		sess, err := d.opt.Sessions.Get(ctx, c, chat.SessionID(w.id))
		if chat.CodeOf(err) == chat.NotFound {
			return nil, "", nil
		}
		if err != nil {
			return nil, "", err
		}
		one, err := d.describe(ctx, c, &sess)
		if err != nil || !w.fits(&one) {
			return nil, "", err
		}
		return []agentRun{one}, "", nil
	}
	// Pages are as long as what is asked for, so that a cursor fits behind them.
	if w.offset == 0 && !w.narrow() {
		f.Limit = w.limit
	}
	skip := w.offset
	for seen := 0; seen < maxScan; {
		page, err := d.opt.Sessions.List(ctx, c, f)
		if err != nil {
			return nil, "", err
		}
		for i := range page.Sessions {
			seen++
			one, err := d.describe(ctx, c, &page.Sessions[i])
			if err != nil {
				return nil, "", err
			}
			if !w.fits(&one) {
				continue
			}
			if found, err := d.mentions(ctx, c, &page.Sessions[i], w.query, &looks); err != nil {
				return nil, "", err
			} else if !found {
				continue
			}
			if skip > 0 {
				skip--
				continue
			}
			if found = append(found, one); len(found) == w.limit && f.Limit != w.limit {
				return found, "", nil
			}
		}
		if page.Next == "" || len(found) >= w.limit {
			return found, page.Next, nil
		}
		f.Cursor = page.Next
	}
	return found, f.Cursor, nil
}

// maxLooks bounds the runs whose conversation is read for one search, the most
// recently active ones.
const maxLooks = 200

// mentions reports whether all words of a query occur in what a run is called or
// was begun with, or the whole of it in what was said there.
func (d *Dialect) mentions(ctx context.Context, c chat.Caller, s *chat.Session, query string, looks *int) (bool, error) {
	if query == "" {
		return true, nil
	}
	about := strings.ToLower(strings.Join([]string{string(s.ID), s.Title, s.Summary, s.Agent, string(s.Metadata)}, " "))
	if !slices.ContainsFunc(strings.Fields(strings.ToLower(query)), func(word string) bool { return !strings.Contains(about, word) }) {
		return true, nil
	}
	if *looks--; *looks < 0 {
		return false, nil
	}
	page, err := d.opt.Sessions.Search(ctx, c, s.ID, query, 0, 1)
	if chat.CodeOf(err) == chat.Gone || chat.CodeOf(err) == chat.NotFound {
		return false, nil
	}
	return len(page.Hits) > 0, err
}

func (w *wanted) narrow() bool {
	return w.query != "" || w.interaction != "" || w.startedBy != "" || w.status != nil || w.tags != nil || w.categories != nil ||
		!w.since.IsZero() || !w.until.IsZero() || w.activity != "" || w.interactive != nil
}

func (d *Dialect) listRuns(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	q := r.URL.Query()
	want, err := wantedOf(q)
	if err != nil {
		return err
	}
	body := struct {
		Items []agentRun `json:"items"`
		Total int        `json:"total_count"`
		Next  *string    `json:"next_cursor"`
	}{Items: []agentRun{}}
	if q.Get("run_kind") != "process" { // there are none
		found, next, err := d.runs(r.Context(), c, want)
		if err != nil {
			return err
		}
		if next != "" {
			body.Next = &next
		}
		body.Items = append(body.Items, found...)
		body.Total = want.offset + len(found)
		if want.ascending {
			slices.Reverse(body.Items)
		}
	}
	d.send(w, r, http.StatusOK, body)
	return nil
}

// searchHit is a run that a search found.
type searchHit struct {
	ID          string          `json:"id"`
	Score       float64         `json:"score"`
	Interaction string          `json:"interaction"`
	Name        string          `json:"interaction_name"`
	Type        string          `json:"run_type"`
	Kind        string          `json:"run_kind"`
	Status      string          `json:"status"`
	Activity    string          `json:"activity_state"`
	StartedAt   chat.At         `json:"started_at"`
	CompletedAt *chat.At        `json:"completed_at,omitempty"`
	StartedBy   string          `json:"started_by"`
	Title       string          `json:"title,omitempty"`
	Topic       string          `json:"topic,omitempty"`
	Tags        json.RawMessage `json:"tags,omitempty"`
	Categories  json.RawMessage `json:"categories,omitempty"`
	Interactive bool            `json:"interactive"`
}

func (d *Dialect) searchRuns(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	want, err := wantedOf(r.URL.Query())
	if err != nil {
		return err
	}
	found, _, err := d.runs(r.Context(), c, want)
	if err != nil {
		return err
	}
	body := struct {
		Hits  []searchHit `json:"hits"`
		Total int         `json:"total"`
	}{[]searchHit{}, want.offset + len(found)}
	for _, f := range found {
		body.Hits = append(body.Hits, searchHit{
			ID: f.ID, Score: 1, Interaction: f.Interaction, Name: f.Interaction, Type: f.Type, Kind: f.Kind, Status: f.Status, Activity: f.Activity,
			StartedAt: f.StartedAt, CompletedAt: f.CompletedAt, StartedBy: f.StartedBy, Title: f.Title, Topic: f.Topic, Tags: f.Tags,
			Categories: f.Categories, Interactive: f.Interactive,
		})
	}
	d.send(w, r, http.StatusOK, body)
	return nil
}
