package audit

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// maxScan is how many entries one request reads at most.
const maxScan = 20_000

// position is the position of an entry: its month, and its sequence in that month.
type position struct {
	month time.Time
	seq   chat.Seq
}

func (p position) String() string {
	return p.month.Format("2006-01") + "." + strconv.FormatUint(uint64(p.seq), 10)
}

// parsePosition reads the id of an entry; "" gives the zero value.
func parsePosition(name, s string) (p position, err error) {
	if s == "" {
		return p, nil
	}
	month, seq, _ := strings.Cut(s, ".")
	p.month, err = time.Parse("2006-01", month)
	n, serr := strconv.ParseUint(seq, 10, 63)
	if p.seq = chat.Seq(n); err != nil || serr != nil || n == 0 {
		return p, chat.Errorf(chat.Invalid, "%s: it is the id of an entry, such as 2026-11.17", name).With("parameter", name)
	}
	return p, nil
}

// List returns entries: all of them to an administrator of all workspaces, those of
// one workspace to an administrator of that workspace.
func (l *Log) List(ctx context.Context, s sessions, c chat.Caller, q chat.AuditQuery) (chat.AuditPage, error) {
	page := chat.AuditPage{Entries: []chat.AuditEntry{}}
	if !c.Administers(c.In()) {
		return page, chat.Errorf(chat.Denied, "the audit log needs the scope admin")
	}
	after, err := parsePosition("after", q.After)
	if err != nil {
		return page, err
	}
	before, err := parsePosition("before", q.Before)
	if err != nil {
		return page, err
	}
	q.Limit = min(cmp.Or(max(q.Limit, 0), 100), 1000)
	looked := 0
	for _, month := range l.months(after.month, before.month, q.Desc) {
		r := chat.Range{Desc: q.Desc, Types: []string{entryType}}
		if month.Equal(after.month) {
			r.After = after.seq
		}
		if month.Equal(before.month) {
			r.Before = before.seq
		}
		for event, err := range s.Events(ctx, caller(), sessionAt(month), r) {
			if code := chat.CodeOf(err); code == chat.NotFound || code == chat.Gone {
				break // no entries in that month, or it was erased
			}
			if err != nil {
				return page, err
			}
			if len(page.Entries) == q.Limit || looked == maxScan {
				page.More = true
				return page, nil
			}
			looked++
			var e chat.AuditEntry
			if err := json.Unmarshal(event.Payload, &e); err != nil {
				return page, err
			}
			page.Last = position{month, event.Seq}.String()
			if e.ID = page.Last; wanted(&e, c, q) {
				page.Entries = append(page.Entries, e)
			}
		}
	}
	return page, nil
}

func wanted(e *chat.AuditEntry, c chat.Caller, q chat.AuditQuery) bool {
	if !c.AllWorkspaces && e.Workspace != c.In() {
		return false
	}
	return (q.Event == "" || e.Event == q.Event) && (q.Session == "" || e.Session == q.Session)
}

// months lists the months from one to another that may have entries.
func (l *Log) months(from, to time.Time, desc bool) (out []time.Time) {
	now := l.opt.Now()
	oldest := monthOf(now).AddDate(-10, 0, 0)
	if l.opt.Retention > 0 {
		oldest = monthOf(now.Add(-l.opt.Retention)).AddDate(0, -1, 0)
	}
	for m := monthOf(now); !m.Before(oldest) && !m.Before(from); m = m.AddDate(0, -1, 0) {
		if to.IsZero() || !m.After(to) {
			out = append(out, m)
		}
	}
	if !desc {
		slices.Reverse(out)
	}
	return out
}
