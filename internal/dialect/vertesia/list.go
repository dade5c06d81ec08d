package vertesia

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// wanted narrows a list of runs.
type wanted struct {
	id, interaction, startedBy, query string
	status, tags, categories          []string
	since, until                      time.Time
	activity                          string
	interactive                       *bool
	limit, offset                     int
	cursor, sort                      string
	ascending                         bool
}

func wantedOf(q url.Values) (w wanted, err error) {
	w = wanted{
		id: q.Get("id"), interaction: q.Get("interaction"), startedBy: q.Get("started_by"), query: first(q.Get("query"), q.Get("q")),
		status: list(q.Get("status")), tags: list(q.Get("tags")), categories: list(q.Get("categories")), cursor: q.Get("cursor"), limit: 50,
		sort: q.Get("sort"), ascending: q.Get("order") == "asc",
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

// maxCount is among how many sessions, at least, those that are wanted are counted:
// to look at all of them takes many times as long as the page.
const maxCount = 1000

// maxScan bounds the sessions that one request looks at. Tests lower it.
var maxScan = 10_000

// mark is a cursor: the last run of a page, and from where on sessions have to be
// read to find what follows, so that a long list can be read to its end.
type mark struct {
	At     chat.At        `json:"t"`
	ID     chat.SessionID `json:"id"`
	List   string         `json:"l,omitempty"` // where sessions are read from
	Before int            `json:"n,omitempty"` // wanted ones that stand before that
}

func (m mark) String() string {
	b, _ := json.Marshal(m) // nothing in it can fail
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseMark(s string) (m mark, err error) {
	if s == "" {
		return m, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil || m.ID == "" || m.Before < 0 {
		return m, chat.Errorf(chat.Invalid, "the cursor is not one that was given here: begin without one").Because(err)
	}
	return m, nil
}

// runs returns the part of the caller's runs that is wanted, how many there are at
// least, and where to go on.
func (d *Dialect) runs(ctx context.Context, c chat.Caller, w wanted) (found []agentRun, total int, next string, err error) {
	listed, total, next, err := d.listed(ctx, c, &w)
	for _, s := range listed {
		one, err := d.describeListed(ctx, c, s)
		if err != nil {
			return nil, 0, "", err
		}
		found = append(found, one)
	}
	return found, total, next, err
}

// listed is runs without a closer look at them.
func (d *Dialect) listed(ctx context.Context, c chat.Caller, w *wanted) (page []*chat.Session, total int, next string, err error) {
	m, err := parseMark(w.cursor)
	if err != nil {
		return nil, 0, "", err
	}
	all, starts, err := d.matching(ctx, c, w, m)
	if err != nil {
		return nil, 0, "", err
	}
	slices.SortFunc(all, w.compare)
	from := min(w.from(all, m)+w.offset, len(all))
	until := min(from+w.limit, len(all))
	if until < len(all) && until > from {
		last := all[until-1]
		to := mark{At: w.key(last), ID: last.ID, List: m.List, Before: m.Before}
		for _, s := range starts {
			if later(s.top, last.UpdatedAt) {
				to.List, to.Before = s.list, s.before
			}
		}
		next = to.String()
	}
	return all[from:until], m.Before + len(all), next, nil
}

// start is a place in the list of sessions.
type start struct {
	list   string
	before int     // wanted sessions before it
	top    chat.At // when the first one behind it was last active
}

// later reports whether a place of the list stands surely before another: sessions
// of one second may come in any order.
func later(a, b chat.At) bool { return b.Time().Add(2 * time.Second).Before(a.Time()) }

// matching are the caller's sessions that are wanted, the most recently active first.
func (d *Dialect) matching(ctx context.Context, c chat.Caller, w *wanted, m mark) (all []*chat.Session, starts []start, err error) {
	if w.id != "" {
		id, err := d.opt.Sessions.Resolve(ctx, c, chat.SessionID(w.id))
		if err != nil {
			return nil, nil, err
		}
		sess, err := d.opt.Sessions.Get(ctx, c, id)
		if chat.CodeOf(err) == chat.NotFound {
			return nil, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if ok, err := d.matches(ctx, c, w, &sess); err != nil || !ok {
			return nil, nil, err
		}
		return []*chat.Session{&sess}, nil, nil
	}
	looks := maxLooks
	f := chat.Filter{Limit: 200}
	if w.recent() {
		f.Cursor = m.List
	}
	for seen := 0; seen < maxScan; seen += f.Limit {
		page, err := d.opt.Sessions.List(ctx, c, f)
		if err != nil {
			return nil, nil, err
		}
		if w.recent() && len(page.Sessions) > 0 {
			starts = append(starts, start{f.Cursor, m.Before + len(all), page.Sessions[0].UpdatedAt})
		}
		for i := range page.Sessions {
			s := &page.Sessions[i]
			ok, err := d.matches(ctx, c, w, s)
			if err == nil && ok {
				ok, err = d.mentions(ctx, c, s, w.query, &looks)
			}
			if err != nil {
				return nil, nil, err
			}
			if ok {
				all = append(all, s)
			}
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
		if n := len(page.Sessions); n > 0 && m.Before+seen+f.Limit >= maxCount && w.enough(all, m, page.Sessions[n-1].UpdatedAt) {
			break
		}
	}
	return all, starts, nil
}

// recent reports whether runs are wanted in the order in which sessions are read.
func (w *wanted) recent() bool { return w.sort != "started_at" && !w.ascending }

// enough reports whether all have the page and what comes next, when sessions are
// read down to that time.
func (w *wanted) enough(all []*chat.Session, m mark, read chat.At) bool {
	if !w.recent() {
		return false
	}
	slices.SortFunc(all, w.compare)
	until := w.from(all, m) + w.offset + w.limit
	return until < len(all) && later(all[until-1].UpdatedAt, read)
}

// matches looks closer, at how a run has ended, only where that is asked for.
func (d *Dialect) matches(ctx context.Context, c chat.Caller, w *wanted, s *chat.Session) (bool, error) {
	if !w.narrow() {
		return true, nil
	}
	one := outline(s)
	if w.status != nil {
		var err error
		if one, err = d.describeListed(ctx, c, s); err != nil {
			return false, err
		}
	}
	return w.fits(&one), nil
}

// narrow reports whether runs need to be looked at to know whether they are wanted.
func (w *wanted) narrow() bool {
	return w.id != "" || w.interaction != "" || w.startedBy != "" || w.status != nil || w.tags != nil || w.categories != nil ||
		!w.since.IsZero() || !w.until.IsZero() || w.activity != "" || w.interactive != nil
}

// key is what runs are sorted by.
func (w *wanted) key(s *chat.Session) chat.At {
	if w.sort == "started_at" {
		return s.CreatedAt
	}
	return s.UpdatedAt
}

// compare puts the newest first, or the oldest where that is asked for.
func (w *wanted) compare(a, b *chat.Session) int {
	order := cmp.Or(cmp.Compare(w.key(b), w.key(a)), cmp.Compare(b.ID, a.ID))
	if w.ascending {
		return -order
	}
	return order
}

// from is where the list goes on behind a mark.
func (w *wanted) from(all []*chat.Session, m mark) int {
	if m.ID == "" {
		return 0
	}
	i, found := slices.BinarySearchFunc(all, &chat.Session{ID: m.ID, CreatedAt: m.At, UpdatedAt: m.At}, w.compare)
	if found {
		i++
	}
	return i
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
		found, total, next, err := d.runs(r.Context(), c, want)
		if err != nil {
			return err
		}
		if next != "" {
			body.Next = &next
		}
		body.Items, body.Total = append(body.Items, found...), total
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
	found, total, _, err := d.runs(r.Context(), c, want)
	if err != nil {
		return err
	}
	body := struct {
		Hits  []searchHit `json:"hits"`
		Total int         `json:"total"`
	}{[]searchHit{}, total}
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
