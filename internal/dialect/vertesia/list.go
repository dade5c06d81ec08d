package vertesia

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// filter selects and orders runs for a list.
type filter struct {
	id, interaction, startedBy, query string
	status, tags, categories          []string
	since, until                      time.Time
	activity                          string
	interactive                       *bool
	limit, offset                     int
	cursor, sort                      string
	ascending                         bool
}

func filterOf(q *edge.Query) (f filter, err error) {
	f = filter{
		id: q.Text("id"), interaction: q.Text("interaction"), startedBy: q.Text("started_by"), query: cmp.Or(q.Text("query"), q.Text("q")),
		status: split(q.All("status")), tags: split(q.All("tags")), categories: split(q.All("categories")), cursor: q.Text("cursor"),
		limit: q.Limit(50, 1000), offset: int(q.Number("offset", 0, 1_000_000, 0)),
	}
	f.readSort(q)
	for _, status := range f.status {
		if statusNames[status] == "" {
			q.Refuse("status", status, "it must be one of created, running, completed, failed, cancelled")
		}
	}
	for name, at := range map[string]*time.Time{"since": &f.since, "until": &f.until} {
		if *at, err = timeOf(q.Text(name)); err != nil {
			q.Refuse(name, q.Text(name), "it must be a time such as 2026-11-15T10:00:00Z")
		}
	}
	return f, q.Err
}

// readSort reads the order of a list: sort=FIELD and order=ORDER, or as a search has it
// sort=FIELD:ORDER. Of several fields the first one counts.
func (f *filter) readSort(q *edge.Query) {
	sort, order := q.Text("sort"), q.OneOf("order", "asc", "desc")
	first, _, _ := strings.Cut(sort, ",")
	field, own, _ := strings.Cut(first, ":")
	order = cmp.Or(own, order)
	if !slices.Contains([]string{"", "updated_at", "started_at"}, field) || !slices.Contains([]string{"", "asc", "desc"}, order) {
		q.Refuse("sort", sort, "it must be updated_at or started_at, in a search with :asc or :desc")
	}
	f.sort, f.ascending = field, order == "asc"
}

// split splits lists of values at their commas.
func split(values []string) []string {
	return slices.DeleteFunc(strings.Split(strings.Join(values, ","), ","), func(s string) bool { return s == "" })
}

// timeOf reads a time: RFC 3339, a date, or milliseconds; zero for "".
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
	return time.Time{}, chat.Errorf(chat.Invalid, "%q is not a time such as 2026-11-15T10:00:00Z", text.Clip(s, 40))
}

// selects reports whether the filter selects a run.
func (f *filter) selects(r *agentRun) bool {
	began := r.StartedAt.Time()
	switch {
	case f.id != "" && r.ID != f.id,
		f.interaction != "" && r.Interaction != f.interaction,
		f.startedBy != "" && r.StartedBy != f.startedBy,
		f.activity != "" && r.Activity != f.activity,
		f.interactive != nil && r.Interactive != *f.interactive,
		len(f.status) > 0 && !slices.Contains(f.status, r.Status),
		!f.since.IsZero() && began.Before(f.since),
		!f.until.IsZero() && began.After(f.until):
		return false
	}
	return hasOneOf(r.Tags, f.tags) && hasOneOf(r.Categories, f.categories)
}

// hasOneOf reports whether a JSON array of texts has one of some values; every
// array has one of none.
func hasOneOf(array json.RawMessage, values []string) bool {
	if len(values) == 0 {
		return true
	}
	var all []string
	if json.Unmarshal(array, &all) != nil {
		return false
	}
	return slices.ContainsFunc(values, func(s string) bool { return slices.Contains(all, s) })
}

// maxCount is how many sessions are read at least to count the selected ones.
const maxCount = 1000

// maxScan is how many sessions one request reads at most. Tests lower it.
var maxScan = 10_000

// listCursor is the cursor of a list: the last run of a page, and where the next
// request starts to read sessions, so that a list of any length has an end.
type listCursor struct {
	At     chat.At        `json:"t"`
	ID     chat.SessionID `json:"id"`
	List   string         `json:"l,omitempty"` // cursor of Sessions.List
	Before int            `json:"n,omitempty"` // selected sessions before that
}

func (m listCursor) String() string {
	b, _ := json.Marshal(m) // it cannot fail
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseListCursor(s string) (m listCursor, err error) {
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

// runs returns a page of the caller's runs, how many there are at least, and the
// cursor of the next page.
func (d *Dialect) runs(ctx context.Context, c chat.Caller, f filter) (found []agentRun, total int, next string, err error) {
	page, total, next, err := d.listPage(ctx, c, &f)
	for _, s := range page {
		r, err := d.describe(ctx, c, s)
		if err != nil {
			return nil, 0, "", err
		}
		found = append(found, r)
	}
	return found, total, next, err
}

// listPage is runs with the sessions of the runs.
func (d *Dialect) listPage(ctx context.Context, c chat.Caller, f *filter) (page []*chat.Session, total int, next string, err error) {
	from, err := parseListCursor(f.cursor)
	if err != nil {
		return nil, 0, "", err
	}
	all, starts, err := d.selected(ctx, c, f, from)
	if err != nil {
		return nil, 0, "", err
	}
	slices.SortFunc(all, f.compare)
	i := min(f.after(all, from)+f.offset, len(all))
	end := min(i+f.limit, len(all))
	if end < len(all) && end > i {
		last := all[end-1]
		to := listCursor{At: f.key(last), ID: last.ID, List: from.List, Before: from.Before}
		for _, s := range starts {
			if surelyBefore(s.first, last.UpdatedAt) {
				to.List, to.Before = s.list, s.before
			}
		}
		next = to.String()
	}
	return all[i:end], from.Before + len(all), next, nil
}

// listStart is a position in the list of all sessions from which a later request
// can read on.
type listStart struct {
	list   string
	before int     // selected sessions before it
	first  chat.At // when the first session after it was last active
}

// surelyBefore reports whether a session that was active at a is before one that
// was active at b in the list of all sessions. Those of one second have any order.
func surelyBefore(a, b chat.At) bool { return b.Time().Add(2 * time.Second).Before(a.Time()) }

// selected returns the caller's selected sessions, the most recently active first.
func (d *Dialect) selected(ctx context.Context, c chat.Caller, f *filter, from listCursor) (all []*chat.Session, starts []listStart, err error) {
	if f.id != "" {
		all, err = d.selectedByID(ctx, c, f)
		return all, nil, err
	}
	searches := maxSearches
	list := core.Filter{Limit: 200}
	if f.byActivity() {
		list.Cursor = from.List
	}
	for read := 0; read < maxScan; read += list.Limit {
		page, err := d.opt.Sessions.List(ctx, c, list)
		if err != nil {
			return nil, nil, err
		}
		if f.byActivity() && len(page.Sessions) > 0 {
			starts = append(starts, listStart{list.Cursor, from.Before + len(all), page.Sessions[0].UpdatedAt})
		}
		for i := range page.Sessions {
			s := &page.Sessions[i]
			ok, err := d.matches(ctx, c, f, s)
			if err == nil && ok {
				ok, err = d.mentions(ctx, c, s, f.query, &searches)
			}
			if err != nil {
				return nil, nil, err
			}
			if ok {
				all = append(all, s)
			}
		}
		if list.Cursor = page.Next; list.Cursor == "" {
			break
		}
		if n := len(page.Sessions); n > 0 && from.Before+read+list.Limit >= maxCount && f.complete(all, from, page.Sessions[n-1].UpdatedAt) {
			break
		}
	}
	return all, starts, nil
}

// selectedByID is selected for a filter that names one run.
func (d *Dialect) selectedByID(ctx context.Context, c chat.Caller, f *filter) ([]*chat.Session, error) {
	id, err := d.opt.Sessions.Resolve(ctx, c, chat.SessionID(f.id))
	if err != nil {
		return nil, err
	}
	f.id = string(id)
	sess, err := d.opt.Sessions.Get(ctx, c, id)
	if chat.CodeOf(err) == chat.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ok, err := d.matches(ctx, c, f, &sess)
	if err != nil || !ok {
		return nil, err
	}
	return []*chat.Session{&sess}, nil
}

// byActivity reports whether the list has the order in which sessions are read.
func (f *filter) byActivity() bool { return f.sort != "started_at" && !f.ascending }

// complete reports whether all has the whole page and one more, when sessions were
// read down to a time.
func (f *filter) complete(all []*chat.Session, from listCursor, read chat.At) bool {
	if !f.byActivity() {
		return false
	}
	slices.SortFunc(all, f.compare)
	end := f.after(all, from) + f.offset + f.limit
	return end < len(all) && surelyBefore(all[end-1].UpdatedAt, read)
}

// matches reports whether the filter selects a session. It reads how the run ended
// only for a filter by status.
func (d *Dialect) matches(ctx context.Context, c chat.Caller, f *filter, s *chat.Session) (bool, error) {
	r := outline(s)
	if len(f.status) > 0 {
		var err error
		if r, err = d.describe(ctx, c, s); err != nil {
			return false, err
		}
	}
	return f.selects(&r), nil
}

// key is the time that runs are sorted by.
func (f *filter) key(s *chat.Session) chat.At {
	if f.sort == "started_at" {
		return s.CreatedAt
	}
	return s.UpdatedAt
}

// compare orders the newest first, or the oldest when the list is ascending.
func (f *filter) compare(a, b *chat.Session) int {
	order := cmp.Or(cmp.Compare(f.key(b), f.key(a)), cmp.Compare(b.ID, a.ID))
	if f.ascending {
		return -order
	}
	return order
}

// after is the index of the first session after a cursor.
func (f *filter) after(all []*chat.Session, from listCursor) int {
	if from.ID == "" {
		return 0
	}
	i, found := slices.BinarySearchFunc(all, &chat.Session{ID: from.ID, CreatedAt: from.At, UpdatedAt: from.At}, f.compare)
	if found {
		i++
	}
	return i
}

// maxSearches bounds the runs whose log is searched for one request.
const maxSearches = 200

// mentions reports whether all words of a query occur in the title, id, agent or
// metadata of a run, or the whole query in its messages.
func (d *Dialect) mentions(ctx context.Context, c chat.Caller, s *chat.Session, query string, searches *int) (bool, error) {
	if query == "" {
		return true, nil
	}
	about := strings.ToLower(strings.Join([]string{string(s.ID), s.Title, s.Summary, s.Agent, string(s.Metadata)}, " "))
	if !slices.ContainsFunc(strings.Fields(strings.ToLower(query)), func(word string) bool { return !strings.Contains(about, word) }) {
		return true, nil
	}
	if *searches--; *searches < 0 {
		return false, nil
	}
	page, err := d.opt.Sessions.Search(ctx, c, s.ID, query, 0, 1)
	if chat.CodeOf(err) == chat.Gone || chat.CodeOf(err) == chat.NotFound {
		return false, nil
	}
	return len(page.Hits) > 0, err
}

func (d *Dialect) listRuns(r *http.Request, c chat.Caller) (any, error) {
	q := edge.NewQuery(r)
	f, err := filterOf(q)
	if err != nil {
		return nil, err
	}
	body := struct {
		Items []agentRun `json:"items"`
		Total int        `json:"total_count"`
		Next  *string    `json:"next_cursor"`
	}{Items: []agentRun{}}
	if q.Text("run_kind") == "process" {
		return body, nil // this server has no processes
	}
	found, total, next, err := d.runs(r.Context(), c, f)
	if next != "" {
		body.Next = &next
	}
	body.Items, body.Total = append(body.Items, found...), total
	return body, err
}

// searchHit is a run that a search found.
type searchHit struct {
	agentRun
	Score float64 `json:"score"`
	Name  string  `json:"interaction_name"`
}

func (d *Dialect) searchRuns(r *http.Request, c chat.Caller) (any, error) {
	f, err := filterOf(edge.NewQuery(r))
	if err != nil {
		return nil, err
	}
	found, total, _, err := d.runs(r.Context(), c, f)
	hits := []searchHit{}
	for _, r := range found {
		hits = append(hits, searchHit{agentRun: r, Score: 1, Name: r.Interaction})
	}
	return map[string]any{"hits": hits, "total": total}, err
}
