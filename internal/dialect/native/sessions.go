package native

import (
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/edge"
)

func (d *Dialect) createSession(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var n chat.NewSession
	if err := d.http.Read(r, &n); err != nil {
		return err
	}
	sess, created, err := d.opt.Sessions.Create(r.Context(), c, n)
	if err != nil {
		return err
	}
	code := http.StatusOK
	if created {
		code = http.StatusCreated
		w.Header().Set("Location", "/parley/v1/sessions/"+string(sess.ID))
	}
	d.http.Send(w, r, code, d.complete(sess))
	return nil
}

// complete adds what the store does not have to the record of a session, before it is sent.
func (d *Dialect) complete(sess chat.Session) chat.Session {
	if d.opt.Partition != nil && sess.ID != "" {
		n := d.opt.Partition(sess.ID)
		sess.Partition = &n
	}
	return sess
}

func (d *Dialect) listSessions(r *http.Request, c chat.Caller) (page chat.SessionPage, err error) {
	q := edge.NewQuery(r)
	f := core.Filter{
		Limit: q.Limit(100, 1000), Cursor: q.Text("cursor"), Agent: q.Text("agent"), User: q.Text("user"), Query: q.Text("q"),
		Status: chat.Status(q.OneOf("status", string(chat.Idle), string(chat.Running), string(chat.Waiting), string(chat.Completed), string(chat.FailedState))),
	}
	if _, given := q.Get("archived"); given {
		archived := q.Bool("archived", false)
		f.Archived = &archived
	}
	if t := q.Time("since"); !t.IsZero() {
		f.Since = chat.AtOf(t)
	}
	if t := q.Time("until"); !t.IsZero() {
		f.Until = chat.AtOf(t)
	}
	if q.Err != nil {
		return page, q.Err
	}
	if page, err = d.opt.Sessions.List(r.Context(), c, f); page.Sessions == nil {
		page.Sessions = []chat.Session{}
	}
	for i := range page.Sessions {
		page.Sessions[i] = d.complete(page.Sessions[i])
	}
	return page, err
}

func (d *Dialect) getSession(r *http.Request, c chat.Caller) (chat.Session, error) {
	sess, err := d.opt.Sessions.Get(r.Context(), c, sessionID(r))
	return d.complete(sess), err
}

// acceptSession takes the id of the session, never an alias: it replaces an alias of
// the caller that has this name.
func (d *Dialect) acceptSession(r *http.Request, c chat.Caller) (chat.Session, error) {
	sess, err := d.opt.Sessions.Accept(r.Context(), c, sessionID(r))
	return d.complete(sess), err
}

func (d *Dialect) patchSession(r *http.Request, c chat.Caller, p patchBody) (chat.Session, error) {
	if p.Title == nil && p.Metadata == nil && p.Agent == nil && p.Policy == nil && p.Settings == nil && p.Members == nil && p.Archived == nil && !p.Compact {
		return chat.Session{}, chat.Errorf(chat.Invalid, "there is nothing to change: send title, metadata, agent, policy, settings, compact, members or archived")
	}
	u := chat.SessionUpdated{Title: p.Title, Metadata: p.Metadata, Agent: p.Agent, Policy: p.Policy, Settings: p.Settings, Compact: p.Compact, Members: p.Members, Archived: p.Archived}
	sess, err := d.opt.Sessions.Update(r.Context(), c, sessionID(r), u)
	return d.complete(sess), err
}

func (d *Dialect) eraseSession(r *http.Request, c chat.Caller) (chat.Receipt, error) {
	return d.opt.Sessions.Erase(r.Context(), c, sessionID(r))
}
