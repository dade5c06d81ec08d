package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// testLog is an audit log on a real store with its own clock.
type testLog struct {
	*Log
	t        *testing.T
	sessions sessions
	now      time.Time
}

func newTestLog(t *testing.T, opt Options) *testLog {
	h := servertest.Open(t, servertest.Options{})
	h.Serve(nil)
	w := &testLog{t: t, sessions: h.Sessions, now: time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)}
	opt.Now = func() time.Time { return w.now }
	w.Log = New(opt)
	return w
}

// stored waits until all entries are stored, as at a shutdown.
func (w *testLog) stored() {
	ctx, cancel := context.WithCancel(w.t.Context())
	cancel()
	w.Run(ctx, w.sessions, quiet)
}

func (w *testLog) list(c chat.Caller, q chat.AuditQuery) chat.AuditPage {
	w.t.Helper()
	page, err := w.List(w.t.Context(), w.sessions, c, q)
	if err != nil {
		w.t.Fatal(err)
	}
	return page
}

func admin(workspace string) chat.Caller {
	return chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "root"}, Workspace: workspace, Scopes: []chat.Scope{chat.ScopeAdmin}}
}

func everywhere() chat.Caller { c := admin(""); c.AllWorkspaces = true; return c }

func user(id, workspace string) chat.Caller {
	return chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: id, Email: id + "@example.com"}, Workspace: workspace, Scopes: []chat.Scope{chat.ScopeUser}}
}

func events(p chat.AuditPage) string {
	var out []string
	for _, e := range p.Entries {
		out = append(out, e.Event)
	}
	return strings.Join(out, " ")
}

func TestEntriesAreListed(t *testing.T) {
	w := newTestLog(t, Options{Retention: 90 * 24 * time.Hour})
	w.now = w.now.AddDate(0, -1, 0)
	w.Report("sign_in", user("ann", "tea"), map[string]any{"address": "192.0.2.7", "by": "link"})
	w.stored()
	w.now = w.now.AddDate(0, 1, 0)
	w.Report("session_erased", user("bob", ""), map[string]any{"session_id": "s1", "outcome": "denied"})
	w.Report("configuration_reloaded", chat.Trusted, map[string]any{"agents": "demo"})
	w.Report("backup", everywhere(), map[string]any{"text": strings.Repeat("x", 5000)})
	w.stored()

	all := w.list(everywhere(), chat.AuditQuery{})
	if got := events(all); got != "sign_in session_erased configuration_reloaded backup" || all.More {
		t.Fatalf("%s %+v", got, all)
	}
	e := all.Entries[0]
	if e.Actor.ID != "ann" || e.Actor.Email != "" || e.Workspace != "tea" || e.Address != "192.0.2.7" || e.Outcome != chat.AuditDone || e.Details["by"] != "link" || e.At.Time().Month() != time.October {
		t.Errorf("%+v", e)
	}
	if e := all.Entries[1]; e.Session != "s1" || e.Outcome != "denied" || e.Workspace != chat.DefaultWorkspace {
		t.Errorf("%+v", e)
	}
	if text, _ := all.Entries[3].Details["text"].(string); len(text) > 300 {
		t.Errorf("a detail has %d bytes", len(text))
	}

	// An administrator of one workspace sees only its entries; users see none.
	if got := events(w.list(admin("tea"), chat.AuditQuery{})); got != "sign_in" {
		t.Errorf("of one workspace: %s", got)
	}
	if got := events(w.list(admin(""), chat.AuditQuery{})); got != "session_erased backup" {
		t.Errorf("of the default workspace: %s", got)
	}
	if _, err := w.List(t.Context(), w.sessions, user("ann", "tea"), chat.AuditQuery{}); chat.CodeOf(err) != chat.Denied {
		t.Errorf("a user: %v", err)
	}
	if _, err := w.sessions.Append(t.Context(), everywhere(), "sys-audit-2026-11", []chat.Draft{{Type: entryType, Payload: []byte(`{}`)}}); chat.CodeOf(err) != chat.Denied {
		t.Errorf("an administrator writes: %v", err)
	}
	if _, err := w.sessions.Erase(t.Context(), everywhere(), "sys-audit-2026-11"); chat.CodeOf(err) != chat.Denied {
		t.Errorf("an administrator erases: %v", err)
	}

	// Pages in both directions reach every entry once.
	for _, desc := range []bool{false, true} {
		var got []string
		for q := (chat.AuditQuery{Limit: 1, Desc: desc}); ; {
			page := w.list(everywhere(), q)
			got = append(got, events(page))
			if !page.More {
				break
			}
			if q.After = page.Last; desc {
				q.After, q.Before = "", page.Last
			}
		}
		want := "sign_in session_erased configuration_reloaded backup"
		if desc {
			want = "backup configuration_reloaded session_erased sign_in"
		}
		if strings.TrimSpace(strings.Join(got, " ")) != want {
			t.Errorf("desc %t: %q", desc, got)
		}
	}
	for q, want := range map[chat.AuditQuery]string{
		{Event: "backup"}: "backup", {Session: "s1"}: "session_erased", {Event: "none"}: "",
		{After: all.Entries[0].ID}:                            "session_erased configuration_reloaded backup",
		{Before: all.Entries[3].ID, After: all.Entries[1].ID}: "configuration_reloaded",
		{Before: all.Entries[1].ID, Desc: true}:               "sign_in",
		{After: all.Entries[1].ID, Desc: true, Limit: 1}:      "backup",
		{After: "2026-11.999"}:                                "",
	} {
		if got := events(w.list(everywhere(), q)); got != want {
			t.Errorf("%+v: %s", q, got)
		}
	}
	for _, bad := range []string{"x", "2026-11", "2026-13.1", "2026-11.0", "2026-11.-1"} {
		if _, err := w.List(t.Context(), w.sessions, everywhere(), chat.AuditQuery{After: bad}); chat.CodeOf(err) != chat.Invalid {
			t.Errorf("after=%s: %v", bad, err)
		}
	}
}

// Many failed sign-ins are stored as a few entries that count all attempts.
func TestRepeatedEntriesAreCounted(t *testing.T) {
	w := newTestLog(t, Options{})
	const attempts = 50_000
	for i := range attempts {
		address := "192.0.2.1"
		if i%2 == 1 {
			address = fmt.Sprint("2001:db8::", i%1000)
		}
		w.Report(signInRefused, chat.Caller{}, map[string]any{"address": address, "reason": fmt.Sprint("attempt ", i)})
		w.now = w.now.Add(time.Millisecond)
	}
	w.stored()
	page := w.list(everywhere(), chat.AuditQuery{Limit: 1000})
	count, one := 0, 0
	for _, e := range page.Entries {
		if e.Event != signInRefused || e.Outcome != string(chat.Unauthenticated) {
			t.Fatalf("%+v", e)
		}
		count += max(e.Count, 1)
		if e.Address == "192.0.2.1" {
			one++
		}
	}
	// 50 s are within one window: the first of each address, and one that counts the rest.
	if most := 2 * (maxAddresses + 1); len(page.Entries) > most || one != 2 {
		t.Errorf("%d entries, %d of one address", len(page.Entries), one)
	}
	if count != attempts {
		t.Errorf("%d of %d attempts are counted", count, attempts)
	}
	// Other repeated entries are counted too.
	for range 1000 {
		w.Report("session_exported", user("ann", ""), map[string]any{"session_id": "s1"})
	}
	w.Report("session_exported", user("ann", ""), map[string]any{"session_id": "s2"})
	w.stored()
	page = w.list(everywhere(), chat.AuditQuery{Event: "session_exported"})
	if len(page.Entries) != 3 || page.Entries[0].Count+page.Entries[1].Count+page.Entries[2].Count != 999 {
		t.Errorf("%+v", page.Entries)
	}
}

// An entry has the number of entries that were dropped when the queue was full.
func TestOverflowIsRecorded(t *testing.T) {
	w := newTestLog(t, Options{Queue: 4})
	for i := range 100 {
		w.Report("backup", user(fmt.Sprint("u", i), ""), nil)
	}
	w.stored()
	page := w.list(everywhere(), chat.AuditQuery{})
	last := page.Entries[len(page.Entries)-1]
	if len(page.Entries) != 5 || last.Event != dropped || last.Count != 96 {
		t.Errorf("%+v", page.Entries)
	}
}

// failing fails a few times.
type failing struct {
	sessions
	left int
}

func (s *failing) Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error) {
	if s.left--; s.left >= 0 {
		return nil, errors.Join(chat.Errorf(chat.Unavailable, "the disk is full"))
	}
	return s.sessions.Append(ctx, c, id, drafts)
}

func TestEntriesWaitForTheDisk(t *testing.T) {
	w := newTestLog(t, Options{})
	w.Report("backup", user("ann", ""), nil)
	door := w.sessions
	w.sessions = &failing{sessions: door, left: 2}
	w.stored()
	w.sessions = door
	if got := events(w.list(everywhere(), chat.AuditQuery{})); got != "backup" {
		t.Errorf("%q", got)
	}
}

// Months older than the retention are erased, and the erasure is recorded.
func TestOldMonthsAreErased(t *testing.T) {
	w := newTestLog(t, Options{Retention: 90 * 24 * time.Hour})
	today := w.now
	for back := 8; back >= 0; back-- {
		w.now = today.AddDate(0, -back, 0)
		w.Report("backup", user(fmt.Sprint("u", back), ""), nil)
		w.stored()
	}
	(&writer{log: w.Log, sessions: w.sessions, logger: quiet}).prune(t.Context())
	w.stored()
	var left []string
	for back := 8; back >= 0; back-- {
		month := today.AddDate(0, -back, 0)
		_, err := w.sessions.Get(t.Context(), caller(), sessionAt(month))
		if err == nil {
			left = append(left, month.Format("2006-01"))
		} else if chat.CodeOf(err) != chat.Gone {
			t.Errorf("%s: %v", month, err)
		}
	}
	if got := strings.Join(left, " "); got != "2026-08 2026-09 2026-10 2026-11" {
		t.Errorf("left: %s", got)
	}
	if got := events(w.list(everywhere(), chat.AuditQuery{})); got != "backup backup backup backup audit_erased audit_erased audit_erased audit_erased audit_erased" {
		t.Errorf("%q", got)
	}
}
