package llm

import (
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
)

// Log is the access to a session that List needs.
type Log interface {
	// Read returns stored events; more says whether the range has further ones.
	Read(ctx context.Context, r chat.Range) (facts []chat.Fact, more bool, err error)
	// State returns the session's state. List ignores events after the state's last
	// one.
	State(ctx context.Context) (*chat.State, error)
}

// SessionLog is a Log that reads a session with the rights of a caller.
type SessionLog struct {
	Sessions interface {
		Read(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) (facts []chat.Fact, more bool, err error)
		State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error)
	}
	Caller chat.Caller
	ID     chat.SessionID
}

// Read returns stored events.
func (l SessionLog) Read(ctx context.Context, r chat.Range) ([]chat.Fact, bool, error) {
	return l.Sessions.Read(ctx, l.Caller, l.ID, r)
}

// State returns the session's state.
func (l SessionLog) State(ctx context.Context) (*chat.State, error) {
	return l.Sessions.State(ctx, l.Caller, l.ID)
}

// Query selects messages. A position in the list is the id of a message or the
// sequence of an event.
type Query struct {
	Options
	After  string // only messages after this message or event
	Before string // only messages before this message or event
	Limit  int    // 0 means all
	Desc   bool   // newest first: a full page omits older messages; without Desc it omits newer ones
}

// Page is a part of a session's messages.
type Page struct {
	Messages []Message `json:"messages"`
	More     bool      `json:"more"` // there are further messages in that direction

	// Times has the times of the events that added the messages. They never decrease
	// within a list, so lists of several sessions can be merged by them. A message's
	// CreatedAt may be the time of an import or of sending instead.
	Times []chat.At `json:"-"`
}

// List returns a part of a session's messages, in the order in which the model
// receives them. Messages that wait for a turn are last. List reads the part of the log
// that it needs, from the start of a turn on; a session without turns is read whole.
func List(ctx context.Context, log Log, q Query) (Page, error) {
	st, err := log.State(ctx)
	if err != nil {
		return Page{}, err
	}
	l := lister{Query: q, window: window{log: log, line: q.Workstream, last: st.Last}}
	if l.after, err = markOf("after", q.After); err != nil {
		return Page{}, err
	}
	if l.before, err = markOf("before", q.Before); err != nil {
		return Page{}, err
	}
	for _, m := range []mark{l.after, l.before} {
		if err := m.check(ctx, log, st); err != nil {
			return Page{}, err
		}
	}
	return l.list(ctx)
}

// mark is a position in the list.
type mark struct {
	id    string
	seq   chat.Seq
	given bool
}

func markOf(name, s string) (mark, error) {
	if s == "" {
		return mark{}, nil
	}
	if seq, ok := SeqOf(s); ok {
		return mark{s, seq, true}, nil
	}
	c, err := chat.ParseCursor(s)
	if err != nil || len(c.Blocks) > 0 {
		return mark{}, chat.Errorf(chat.Invalid, "%s=%q: give the id of a message, or the sequence of an event", name, clip(s)).With("parameter", name)
	}
	return mark{"", c.Seq, true}, nil
}

// check refuses the id of a message of another session, because its sequence would
// select a position in this one. In an imported log, event ids may contain the number
// of another session.
func (m mark) check(ctx context.Context, log Log, st *chat.State) error {
	if m.id == "" || numberOf(IDPrefix, m.id) == st.Number {
		return nil
	}
	facts, _, err := log.Read(ctx, chat.Range{After: max(m.seq, 1) - 1, Limit: 1})
	if err != nil {
		return err
	}
	if len(facts) == 1 {
		e, err := facts[0].Event()
		if err != nil {
			return err
		}
		if e.Seq == m.seq && numberOf(chat.EventPrefix, string(e.ID)) == numberOf(IDPrefix, m.id) {
			return nil
		}
	}
	return chat.Errorf(chat.NotFound, "there is no message %q here", clip(m.id))
}

// numberOf returns the number of the session in which an id was created.
func numberOf(prefix, id string) chat.Number {
	parsed, _ := chat.ParseID(prefix, id)
	n, _, _ := parsed.Parts()
	return n
}

type lister struct {
	Query
	window
	after, before mark
}

// eventsPerMessage is the initial estimate of the number of events per message; a
// window that is too small is doubled. A question and its answer are four events.
const eventsPerMessage = 2

// nearby is the number of events to read first when a message was added later than the
// sequence in its id: it waited for a turn, or it is an agent message.
const nearby = 64

// list extends a window of the log until it contains the page.
func (l *lister) list(ctx context.Context) (Page, error) {
	step, look := nearby+(l.Limit+1)*eventsPerMessage, nearby
	begin := l.after // the mark at which the page begins
	if l.Desc {
		begin = l.before
	}
	switch {
	case begin.given:
		l.hi = min(begin.seq, l.last)
	case l.Desc:
		l.hi = l.last
	}
	l.lo = l.hi + 1
	for ; ; step *= 2 {
		start, end := l.bounds()
		f := l.fold(start, end, l.Options)
		from, to := l.cut(f)
		full := l.Limit > 0 && to-from > l.Limit
		var err error
		switch {
		case l.lo > 1 && (start < 0 || begin.given && l.events[start].Seq > begin.seq):
			err = l.extendBack(ctx, step)
		case l.hi < l.last && begin.given && !l.reaches(begin, f, end):
			err = l.extendForward(ctx, look)
			look *= 2
		case !full && l.Desc && l.lo > 1 && !(l.after.given && l.events[start].Seq <= l.after.seq):
			err = l.extendBack(ctx, step)
		case !full && !l.Desc && l.hi < l.last && !l.reaches(l.before, f, end):
			err = l.extendForward(ctx, step)
		default:
			return l.page(f, from, to, full), nil
		}
		if err != nil {
			return Page{}, err
		}
	}
}

// reaches reports whether a Fold up to end has the messages up to a mark. A message may
// be added after the event in its id, because it waited for a turn.
func (l *lister) reaches(m mark, f *Fold, end int) bool {
	if m.id != "" {
		return m.find(f) >= 0
	}
	return m.given && l.lo+chat.Seq(end) > m.seq
}

// cut returns the range of the messages between the marks.
func (l *lister) cut(f *Fold) (from, to int) {
	from, to = 0, len(f.messages)
	if l.after.given {
		if from = l.after.find(f) + 1; from == 0 {
			from = firstAt(f, l.after.seq+1)
		}
	}
	if l.before.given {
		if to = l.before.find(f); to < 0 {
			to = firstAt(f, l.before.seq)
		}
	}
	return from, max(from, to)
}

func (m mark) find(f *Fold) int {
	if m.id == "" {
		return -1
	}
	return slices.IndexFunc(f.messages, func(o Message) bool { return o.ID == m.id })
}

// firstAt returns the index of the first message that was added by that event or later.
func firstAt(f *Fold, seq chat.Seq) int {
	i, _ := slices.BinarySearch(f.sequences, seq)
	return i
}

func (l *lister) page(f *Fold, from, to int, more bool) Page {
	switch {
	case more && l.Desc:
		from = to - l.Limit
	case more:
		to = from + l.Limit
	}
	p := Page{Messages: slices.Clone(f.messages[from:to]), More: more, Times: make([]chat.At, to-from)}
	for i, seq := range f.sequences[from:to] {
		p.Times[i] = l.time(seq)
	}
	if l.Desc {
		slices.Reverse(p.Messages)
		slices.Reverse(p.Times)
	}
	return p
}
