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
	After  string // only messages after this position
	Before string // only messages before this position
	Limit  int    // 0 means all
	Desc   bool   // newest first: a full page omits older messages; without Desc it omits newer ones
}

// Page is a part of a session's messages.
type Page struct {
	Messages []Message `json:"messages"`
	More     bool      `json:"more"` // there are further messages in that direction

	// Places are the times of the events that added the messages. They never decrease
	// within a list, so lists of several sessions can be merged by them. A message's
	// CreatedAt may be the time of an import or of sending instead.
	Places []chat.At `json:"-"`
}

// List returns a part of a session's messages, in the order in which the model
// receives them. Messages that wait for a turn are last. List reads only the necessary
// part of the log, independent of the log's length.
func List(ctx context.Context, log Log, q Query) (Page, error) {
	st, err := log.State(ctx)
	if err != nil {
		return Page{}, err
	}
	line := st.Line(q.Workstream)
	l := lister{Query: q, window: window{log: log, line: q.Workstream, last: st.Last, busy: line.Turn != nil, queue: line.Queue}}
	if line.Turn != nil {
		l.queue = slices.Concat(line.Turn.Steered, line.Queue)
		slices.Sort(l.queue)
	}
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
	l.lo, l.hi = 1, 0
	switch {
	case l.Desc && l.before.given:
		l.lo = min(l.before.seq, l.last) + 1
		l.hi = l.lo - 1
	case l.Desc:
		l.lo, l.hi = l.last+1, l.last
	case l.after.given:
		l.lo = min(l.after.seq, l.last) + 1
		l.hi = l.lo - 1
	}
	if l.Desc || l.after.given {
		if err := l.extendBack(ctx, step); err != nil {
			return Page{}, err
		}
	}
	for ; ; step *= 2 {
		list, start, end, err := l.fold(ctx, l.Options)
		if err != nil {
			return Page{}, err
		}
		found, ok := l.cut(list)
		full := l.Limit > 0 && len(found) > l.Limit
		switch {
		case l.lo > 1 && (start < 0 || !l.reaches(start)):
			err = l.extendBack(ctx, step)
		case end < 0 || l.hi < l.last && (!ok || l.endsTooEarly(end)):
			err = l.extendForward(ctx, look)
			look *= 2
		case l.Desc && !full && l.lo > 1 && (!l.after.given || l.events[start].Seq > l.after.seq):
			err = l.extendBack(ctx, step)
		case !l.Desc && !full && l.hi < l.last && !l.ended(list):
			err = l.extendForward(ctx, step)
		default:
			return l.page(found, full), nil
		}
		if err != nil {
			return Page{}, err
		}
	}
}

// reaches reports whether a Fold from start contains the position at which the page
// begins. A message is never added before the event in its id.
func (l *lister) reaches(start int) bool {
	from := l.after
	if l.Desc {
		from = l.before
	}
	return !from.given || start < len(l.events) && l.events[start].Seq <= from.seq || l.Desc && from.id == ""
}

// endsTooEarly reports whether a Fold up to end stops before the event that limits the page,
// because that event is in the middle of a turn.
func (l *lister) endsTooEarly(end int) bool {
	return l.Desc && l.before.given && l.before.id == "" && l.lo+chat.Seq(end) < l.before.seq
}

// cut returns the messages between the marks. ok is false if the message of a mark is
// not in the list; it may have been added after the event in its id, because it waited
// for a turn.
func (l *lister) cut(list []placed) (found []placed, ok bool) {
	from, to, ok := 0, len(list), true
	if l.after.given {
		i := l.after.find(list)
		if ok = l.after.id == "" || i >= 0; i >= 0 {
			from = i + 1
		} else {
			from = firstAt(list, l.after.seq+1)
		}
	}
	if l.before.given {
		i := l.before.find(list)
		ok = ok && (l.before.id == "" || i >= 0 || !l.Desc)
		if to = i; i < 0 {
			to = firstAt(list, l.before.seq)
		}
	}
	return list[from:max(from, to)], ok
}

// ended reports whether the list contains the end position of the query.
func (l *lister) ended(list []placed) bool {
	if !l.before.given {
		return false
	}
	return l.before.find(list) >= 0 || l.before.id == "" && firstAt(list, l.before.seq) < len(list)
}

func (m mark) find(list []placed) int {
	if m.id == "" {
		return -1
	}
	return slices.IndexFunc(list, func(p placed) bool { return p.ID == m.id })
}

func firstAt(list []placed, seq chat.Seq) int {
	for i := range list {
		if list[i].at >= seq {
			return i
		}
	}
	return len(list)
}

func (l *lister) page(found []placed, more bool) Page {
	switch {
	case more && l.Desc:
		found = found[len(found)-l.Limit:]
	case more:
		found = found[:l.Limit]
	}
	p := Page{Messages: make([]Message, len(found)), More: more, Places: make([]chat.At, len(found))}
	for i := range found {
		p.Messages[i], p.Places[i] = *found[i].Message, l.time(found[i].at)
	}
	if l.Desc {
		slices.Reverse(p.Messages)
		slices.Reverse(p.Places)
	}
	return p
}
