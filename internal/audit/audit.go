package audit

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/sleep"
)

// The events that this package adds, and the one that it counts.
const (
	dropped       = "entries_dropped" // count: entries that were not stored because too many came at once
	monthErased   = "audit_erased"    // the retention of a month has passed
	signInRefused = "sign_in_refused"
)

// workspace is where the sessions of the log are. No token has it.
const workspace = "parley.audit"

// prefix begins the ids of the sessions; the month follows.
const prefix = "sys-audit-"

// entryType is the type of the events.
const entryType = "audit.entry"

// sessions is the part of session.Sessions that the log uses.
type sessions interface {
	Create(ctx context.Context, c chat.Caller, n chat.NewSession) (chat.Session, bool, error)
	Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
	Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error)
	Events(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) iter.Seq2[chat.Event, error]
	Erase(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Receipt, error)
}

// Options of a [Log].
type Options struct {
	Retention time.Duration    // entries that are older are erased, a month at a time; 0 means never
	Queue     int              // entries that may wait to be stored; 0 means 4096
	Now       func() time.Time // nil means time.Now
}

// Log is the audit log. Report may be called before Run.
type Log struct {
	opt     Options
	queue   chan chat.AuditEntry
	dropped atomic.Int64

	mu      sync.Mutex
	repeats repeats
}

// New returns a log that stores nothing until [Log.Run] is called.
func New(opt Options) *Log {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Log{opt: opt, queue: make(chan chat.AuditEntry, cmp.Or(opt.Queue, 4096))}
}

// Report adds an entry and returns at once. Of the details session_id, workspace,
// address, outcome, count and refused become fields of the entry; without a workspace it
// is that of the caller.
func (l *Log) Report(event string, c chat.Caller, details map[string]any) {
	e := entryOf(event, c, details)
	e.At = chat.AtOf(l.opt.Now())
	l.mu.Lock()
	entries := l.repeats.add(e)
	l.mu.Unlock()
	l.add(entries...)
}

func (l *Log) add(entries ...chat.AuditEntry) {
	for _, e := range entries {
		select {
		case l.queue <- e:
		default:
			l.dropped.Add(1)
		}
	}
}

// batch is how many entries one commit stores at most.
const batch = 256

// tick is the interval between checks of counted repeats, prune that between erasures of old months.
const (
	tick  = 5 * time.Second
	prune = 6 * time.Hour
)

// Run stores entries until ctx ends, and then those that are still in the queue.
func (l *Log) Run(ctx context.Context, s sessions, logger *slog.Logger) {
	w := &writer{log: l, sessions: s, logger: logger}
	w.prune(ctx)
	minute, hours := time.NewTicker(tick), time.NewTicker(prune)
	defer minute.Stop()
	defer hours.Stop()
	for {
		select {
		case e := <-l.queue:
			if rest := w.store(ctx, l.gather(e)); len(rest) > 0 { // ctx has ended meanwhile
				l.drain(w, rest)
				return
			}
		case <-minute.C:
			l.mu.Lock()
			due := l.repeats.due(chat.AtOf(l.opt.Now()), false)
			l.mu.Unlock()
			l.add(due...)
		case <-hours.C:
			w.prune(ctx)
		case <-ctx.Done():
			l.drain(w, nil)
			return
		}
	}
}

// drain stores these entries and those in the queue when the server ends.
func (l *Log) drain(w *writer, entries []chat.AuditEntry) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	l.mu.Lock()
	due := l.repeats.due(chat.AtOf(l.opt.Now()), true)
	l.mu.Unlock()
	l.add(due...)
	for {
		if entries = l.gather(entries...); len(entries) == 0 {
			return
		}
		if entries = w.store(ctx, entries); len(entries) > 0 {
			w.logger.Error("entries of the audit log were not stored before the server ended", "entries", len(entries)+len(l.queue))
			return
		}
	}
}

// gather adds the waiting entries, and an entry about dropped ones.
func (l *Log) gather(entries ...chat.AuditEntry) []chat.AuditEntry {
	for len(entries) < batch {
		select {
		case e := <-l.queue:
			entries = append(entries, e)
			continue
		default:
		}
		break
	}
	if n := l.dropped.Swap(0); n > 0 {
		e := entryOf(dropped, chat.Caller{}, nil)
		e.At, e.Count, e.Workspace = chat.AtOf(l.opt.Now()), int(n), ""
		entries = append(entries, e)
	}
	return entries
}

// caller writes and reads the sessions of the log.
func caller() chat.Caller {
	c := chat.Trusted
	c.Workspace = workspace
	return c
}

// writer stores entries.
type writer struct {
	log      *Log
	sessions sessions
	logger   *slog.Logger
}

// store appends entries to the sessions of their months. It retries until it succeeds or ctx ends; meanwhile new entries
// wait in the queue. It returns the entries that are not stored.
func (w *writer) store(ctx context.Context, entries []chat.AuditEntry) []chat.AuditEntry {
	for len(entries) > 0 {
		id, n := sessionOf(entries[0].At), 1
		for n < len(entries) && sessionOf(entries[n].At) == id {
			n++
		}
		drafts := make([]chat.Draft, 0, n)
		for i := range entries[:n] {
			payload, err := json.Marshal(&entries[i])
			if err != nil {
				payload, _ = json.Marshal(map[string]any{"event": entries[i].Event, "outcome": entries[i].Outcome}) // two texts
			}
			drafts = append(drafts, chat.NewDraft(chat.Unknown{Name: entryType, Payload: payload}))
		}
		if !w.append(ctx, id, drafts) {
			break
		}
		entries = entries[n:]
	}
	return entries
}

func (w *writer) append(ctx context.Context, id chat.SessionID, drafts []chat.Draft) bool {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		_, err := w.sessions.Append(ctx, caller(), id, drafts)
		if chat.CodeOf(err) == chat.NotFound {
			if _, _, err = w.sessions.Create(ctx, caller(), chat.NewSession{ID: id, Agent: chat.NoAgent, Title: "Audit log"}); err == nil {
				_, err = w.sessions.Append(ctx, caller(), id, drafts)
			}
		}
		switch code := chat.CodeOf(err); {
		case err == nil:
			return true
		case code == chat.Gone || code == chat.Invalid || code == chat.TooLarge:
			w.logger.Error("the audit log refuses an entry", "session", id, "entries", len(drafts), "err", err)
			w.log.dropped.Add(int64(len(drafts)))
			return true
		case ctx.Err() == nil:
			w.logger.Warn("the audit log cannot be written; trying again", "session", id, "err", err)
		}
		if sleep.For(ctx, pause) != nil {
			return false
		}
	}
}

// prune erases the months whose retention has passed.
func (w *writer) prune(ctx context.Context) {
	keep := w.log.opt.Retention
	if keep <= 0 || ctx.Err() != nil {
		return
	}
	now := w.log.opt.Now()
	for m := monthOf(now.Add(-keep)).AddDate(0, -1, 0); m.After(now.Add(-keep).AddDate(-10, 0, 0)); m = m.AddDate(0, -1, 0) {
		id := sessionAt(m)
		if _, err := w.sessions.Get(ctx, caller(), id); err != nil {
			continue // it does not exist, or it is erased
		}
		_, err := w.sessions.Erase(ctx, caller(), id)
		if _, now := w.sessions.Get(ctx, caller(), id); chat.CodeOf(now) != chat.Gone { // an erasure that failed later is recorded and repeated by the server
			w.logger.Warn("an old month of the audit log could not be erased; trying again later", "session", id, "err", err)
			continue
		}
		w.log.Report(monthErased, chat.Trusted, map[string]any{"session_id": string(id), "workspace": ""})
	}
}

// monthOf is the first moment of a month.
func monthOf(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

func sessionOf(at chat.At) chat.SessionID { return sessionAt(at.Time()) }

func sessionAt(t time.Time) chat.SessionID {
	return chat.SessionID(prefix + t.UTC().Format("2006-01"))
}
