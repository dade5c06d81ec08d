package letta

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// book is what a workspace has of agents, conversations, identities and groups.
//
// Each thing has a page: a system session of its own, which is erased when the
// thing is deleted, so that nothing a person wrote about it stays in any file. On
// the page of a conversation also stand the calls that were asked for with its
// runs. The contents, another system session, names the pages and holds no text.
// The book in memory is the fold of them all, brought up to the log before every
// use.
//
// A thing comes to be in three steps: the contents name its page, its page is
// written, the contents say how far. It goes in three: the contents say that it is
// going, with all that goes with it, which is when nobody sees it any more; its
// conversation and its page are erased; the contents say that it is gone. Whatever
// step a process dies at, the next one goes on from there when it opens the book.
type book struct {
	d         *Dialect
	workspace string

	opening sync.Mutex  // held over open; taken before mu
	ready   atomic.Bool // it was opened

	mu      sync.Mutex // held over reading the log, so that one request reads for all who wait
	last    chat.Seq   // the contents up to it are in
	pages   map[string]*page
	unread  []*page
	shelves []string // the workspaces that have a book; only the default workspace's knows them
	all     map[string]*record
	list    []*record // in the order of their creation
}

// page is the place of one thing.
type page struct {
	id    string // of the thing
	kind  string
	agent string   // of a conversation: whose it is
	last  chat.Seq // the events up to it are in
	going bool     // it is being erased

	unread bool // the contents told of something new there
}

// entryType is the type of the events of the contents.
const entryType = "letta.entry"

// entry says of a page that it is there, how far it is written, or that it goes.
type entry struct {
	Kind string   `json:"kind"`
	ID   string   `json:"id"`
	Last chat.Seq `json:"last,omitempty"` // the page has events up to it
	Gone string   `json:"gone,omitempty"` // leaving or gone
}

// The steps of going.
const (
	goneSoon = "leaving"
	goneNow  = "gone"
)

// kindShelf is the kind of the entry that names a workspace which has a book.
const kindShelf = "workspace"

// contents is the system session that names the pages.
func (b *book) contents() chat.SessionID {
	if b.workspace == chat.DefaultWorkspace {
		return "sys-letta-book"
	}
	return chat.SessionID("sys-letta-book." + b.workspace)
}

// pageSession is the system session that is a thing's page.
func pageSession(id string) chat.SessionID { return chat.SessionID("sys-letta-" + id) }

// caller is as whom the server reads and writes there.
func (b *book) caller() chat.Caller {
	c := chat.Trusted
	c.Workspace = b.workspace
	return c
}

// bookOf returns the book of the caller's workspace, up to date.
func (d *Dialect) bookOf(ctx context.Context, c chat.Caller) (*book, error) {
	return d.bookIn(ctx, c.In())
}

func (d *Dialect) bookIn(ctx context.Context, workspace string) (*book, error) {
	d.mu.Lock()
	b := d.books[workspace]
	if b == nil {
		b = &book{d: d, workspace: workspace, pages: map[string]*page{}, all: map[string]*record{}}
		d.books[workspace] = b
	}
	d.mu.Unlock()
	if !b.ready.Load() {
		if err := b.open(ctx); err != nil {
			return b, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b, b.catchUp(ctx)
}

// catchUp reads what is new in the contents, and the pages that it names. A page
// that could not be read is read the next time.
func (b *book) catchUp(ctx context.Context) (err error) {
	b.last, err = b.read(ctx, b.contents(), b.last, func(e *chat.Event) {
		if p := b.index(e); p != nil && !p.unread {
			p.unread = true
			b.unread = append(b.unread, p)
		}
	})
	for err == nil && len(b.unread) > 0 {
		p := b.unread[0]
		if err = b.turn(ctx, p); err == nil {
			p.unread = false
			b.unread = b.unread[1:]
		}
	}
	return err
}

// read calls take with the events of a system session behind after, and returns
// the last one's number. One that is not there has none.
func (b *book) read(ctx context.Context, id chat.SessionID, after chat.Seq, take func(*chat.Event)) (chat.Seq, error) {
	sess, err := b.d.opt.Sessions.Get(ctx, b.caller(), id)
	if absent(err) {
		return after, nil
	}
	if err != nil {
		return after, err
	}
	for after < sess.Last {
		facts, _, err := b.d.opt.Sessions.Read(ctx, b.caller(), id, chat.Range{After: after, Limit: 1000, MaxBytes: 8 << 20})
		if absent(err) || err == nil && len(facts) == 0 {
			return after, nil
		}
		if err != nil {
			return after, err
		}
		for _, f := range facts {
			e, err := f.Event()
			if err != nil {
				return after, err
			}
			after = e.Seq
			take(&e)
		}
	}
	return after, nil
}

// absent reports whether an error says that something is not there, or no more.
func absent(err error) bool {
	code := chat.CodeOf(err)
	return err != nil && (code == chat.NotFound || code == chat.Gone)
}

// index takes an event of the contents in and returns the page that is to be
// read, nil if there is none.
func (b *book) index(ev *chat.Event) *page {
	u, ok := ev.Body.(chat.Unknown)
	var e entry
	if !ok || u.Name != entryType || json.Unmarshal(u.Payload, &e) != nil || e.ID == "" {
		return nil
	}
	if e.Kind == kindShelf {
		b.shelves = append(b.shelves, e.ID)
		return nil
	}
	p := b.pages[e.ID]
	switch {
	case e.Gone == goneNow:
		b.forget(e.ID)
		delete(b.pages, e.ID)
		return nil
	case p == nil:
		p = &page{id: e.ID, kind: e.Kind}
		b.pages[e.ID] = p
	}
	if e.Gone == goneSoon {
		p.going = true
		b.forget(e.ID)
	}
	return p
}

// forget drops what stands on a page.
func (b *book) forget(id string) {
	b.list = slices.DeleteFunc(b.list, func(r *record) bool {
		if r.page == id {
			delete(b.all, r.ID)
		}
		return r.page == id
	})
}

// turn reads what is new on a page.
func (b *book) turn(ctx context.Context, p *page) (err error) {
	if p.going {
		return nil
	}
	p.last, err = b.read(ctx, pageSession(p.id), p.last, func(e *chat.Event) {
		r := decodeRecord(e)
		if r == nil {
			return
		}
		r.page = p.id
		if r.Kind == kindConversation {
			p.agent = r.text("agent_id")
		}
		if old := b.all[r.ID]; old != nil {
			r.Created = old.Created
			b.list[slices.Index(b.list, old)] = r
		} else {
			b.list = append(b.list, r)
		}
		b.all[r.ID] = r
	})
	return err
}

// note adds entries to the contents, all of them or none.
func (b *book) note(ctx context.Context, list ...entry) error {
	if b.last == 0 && b.workspace != chat.DefaultWorkspace {
		// The next process must find this book without being asked for it.
		if err := b.d.shelve(ctx, b.workspace); err != nil {
			return err
		}
	}
	_, err := addTo(ctx, b, b.contents(), "Letta", entryType, list...)
	return err
}

// shelve tells the default workspace's book that another has one too.
func (d *Dialect) shelve(ctx context.Context, workspace string) error {
	b, err := d.bookIn(ctx, chat.DefaultWorkspace)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.catchUp(ctx); err != nil || slices.Contains(b.shelves, workspace) {
		return err
	}
	return b.note(ctx, entry{Kind: kindShelf, ID: workspace})
}

// addTo adds to a system session, and begins it if need be.
func addTo[T any](ctx context.Context, b *book, id chat.SessionID, title, kind string, list ...T) (chat.Seq, error) {
	var drafts []chat.Draft
	for _, v := range list {
		payload, err := json.Marshal(v)
		if err != nil {
			return 0, err
		}
		drafts = append(drafts, chat.NewDraft(chat.Unknown{Name: kind, Payload: payload}))
	}
	s := b.d.opt.Sessions
	events, err := s.Append(ctx, b.caller(), id, drafts)
	if chat.CodeOf(err) == chat.NotFound {
		if _, _, err = s.Create(ctx, b.caller(), chat.NewSession{ID: id, Agent: chat.NoAgent, Title: title}); err != nil {
			return 0, err
		}
		events, err = s.Append(ctx, b.caller(), id, drafts)
	}
	if err != nil {
		return 0, err
	}
	return events[len(events)-1].Seq, nil
}

// write puts a record on its page.
func (b *book) write(ctx context.Context, r *record) error {
	p := b.pages[r.page]
	if p == nil {
		if err := b.note(ctx, entry{Kind: r.Kind, ID: r.page}); err != nil {
			return err
		}
		if err := b.catchUp(ctx); err != nil {
			return err
		}
		p = b.pages[r.page]
	}
	if p == nil || p.going {
		return chat.Errorf(chat.NotFound, "%s %s is no more", r.Kind, r.page)
	}
	last, err := addTo(ctx, b, pageSession(r.page), "Letta "+p.kind, recordType, r)
	if err != nil {
		return err
	}
	if err := b.note(ctx, entry{Kind: p.kind, ID: p.id, Last: last}); err != nil {
		return err
	}
	return b.catchUp(ctx)
}

// remove deletes a thing with what goes with it, see leave; by is who asked for it,
// if it is known. Once begun it is not given up because they have gone.
func (b *book) remove(ctx context.Context, id string, by ...chat.Actor) error {
	ctx = context.WithoutCancel(ctx)
	b.mu.Lock()
	err := b.catchUp(ctx)
	p := b.pages[id]
	if err == nil && p != nil && !p.going {
		if err = b.note(ctx, b.leave(p, by)...); err == nil {
			err = b.catchUp(ctx)
		}
	}
	b.mu.Unlock()
	if err != nil || p == nil {
		return err
	}
	return b.finish(ctx, p)
}

// leave are the entries which say that a thing is going, and what goes with it:
// with an agent the conversations of its owner and of who deletes it. What others
// have said to it, or forked, is theirs and stays; it goes on without the agent.
func (b *book) leave(p *page, by []chat.Actor) []entry {
	out := []entry{{Kind: p.kind, ID: p.id, Gone: goneSoon}}
	agent := b.all[p.id]
	if p.kind != kindAgent || agent == nil {
		return out
	}
	for _, r := range b.list {
		if r.Kind == kindConversation && r.text("agent_id") == p.id && (r.Owner.Same(agent.Owner) || slices.ContainsFunc(by, r.Owner.Same)) {
			out = append(out, entry{Kind: r.Kind, ID: r.ID, Gone: goneSoon})
		}
	}
	return out
}

// leaving reports whether a thing is being removed.
func (b *book) leaving(kind, id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.pages[id]
	return p != nil && p.kind == kind && p.going
}

// finish erases what is left of a thing that is going. It is not called with the
// book locked, because erasing takes its time.
func (b *book) finish(ctx context.Context, p *page) error {
	// An erasure that is recorded does not hold up the rest; the caller is told
	// that it is not complete yet.
	var pending error
	recorded := func(err error) error {
		if chat.ReasonOf(err) == chat.EraseUnfinished {
			pending, err = err, nil
		}
		return err
	}
	for _, id := range b.along(p) {
		if err := recorded(b.remove(ctx, id)); err != nil {
			return err
		}
	}
	if p.kind == kindAgent || p.kind == kindConversation {
		if err := recorded(b.d.scrub(ctx, b.caller(), chat.SessionID(p.id))); err != nil {
			return err
		}
	}
	if err := recorded(b.d.scrub(ctx, b.caller(), pageSession(p.id))); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.catchUp(ctx); err != nil || b.pages[p.id] == nil {
		return errors.Join(err, pending)
	}
	if err := b.note(ctx, entry{Kind: p.kind, ID: p.id, Gone: goneNow}); err != nil {
		return err
	}
	if err := b.catchUp(ctx); err != nil {
		return err
	}
	return pending
}

// along are the conversations that go with an agent.
func (b *book) along(p *page) (ids []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.pages {
		if p.kind == kindAgent && c.agent == p.id && c.going {
			ids = append(ids, c.id)
		}
	}
	slices.Sort(ids)
	return ids
}

// scrub erases a session that may be gone already, whether or not somebody still
// waits for it.
func (d *Dialect) scrub(ctx context.Context, c chat.Caller, id chat.SessionID) error {
	if _, err := d.opt.Sessions.Erase(context.WithoutCancel(ctx), c, id); err != nil && !absent(err) {
		return err
	}
	return nil
}
