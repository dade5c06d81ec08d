package native

import (
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/edge"
)

// sessionPrompts are the open prompts of one session.
type sessionPrompts struct {
	Session chat.Session  `json:"session"`
	Prompts []chat.Prompt `json:"prompts"` // oldest first
}

// promptsPage is a part of the list of open prompts, the most recently active session first.
type promptsPage struct {
	Sessions  []sessionPrompts `json:"sessions"`
	Next      string           `json:"next_cursor,omitempty"` // "" at the end
	ServerNow chat.At          `json:"server_now"`
}

// listPrompts returns the open prompts that the caller may answer. A page has fewer
// sessions than its limit if the caller may only read some of them.
func (d *Dialect) listPrompts(r *http.Request, c chat.Caller) (promptsPage, error) {
	q := edge.NewQuery(r)
	f := core.Filter{Limit: q.Limit(100, 1000), Cursor: q.Text("cursor"), Status: chat.Waiting}
	out := promptsPage{Sessions: []sessionPrompts{}, ServerNow: d.now()}
	if q.Err != nil {
		return out, q.Err
	}
	page, err := d.opt.Sessions.List(r.Context(), c, f)
	if err != nil {
		return out, err
	}
	out.Next = page.Next
	for i := range page.Sessions {
		if c.May(&page.Sessions[i], chat.Answerer) != nil {
			continue
		}
		snap, err := d.opt.Sessions.Snapshot(r.Context(), c, page.Sessions[i].ID, 0)
		switch {
		case chat.CodeOf(err) == chat.NotFound || chat.CodeOf(err) == chat.Gone:
			continue // erased since the list was read
		case err != nil:
			return out, err
		case len(snap.State.Prompts) > 0:
			out.Sessions = append(out.Sessions, sessionPrompts{Session: snap.Session, Prompts: snap.State.Prompts})
		}
	}
	return out, nil
}
