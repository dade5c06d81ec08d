package native

import (
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
)

// audit reports what was done, or refused.
func (d *Dialect) audit(r *http.Request, c chat.Caller, event string, id chat.SessionID, err error) {
	if d.opt.Audit == nil {
		return
	}
	if chat.CodeOf(err) == chat.NotFound {
		return // nothing was read or changed
	}
	details := map[string]any{}
	if id != "" {
		details["session_id"] = string(id)
	}
	if err != nil {
		details["outcome"] = string(chat.CodeOf(err))
	}
	d.opt.Audit(r.Context(), event, c, details)
}

// listAudit lists the audit log.
func (d *Dialect) listAudit(r *http.Request, c chat.Caller) (page chat.AuditPage, err error) {
	if d.opt.AuditLog == nil {
		return page, chat.Errorf(chat.NotFound, "this server keeps no audit log")
	}
	q := edge.NewQuery(r)
	ask := chat.AuditQuery{
		After: q.Text("after"), Before: q.Text("before"), Limit: q.Limit(100, 1000), Event: q.Text("event"), Session: chat.SessionID(q.Text("session")),
	}
	switch q.OneOf("order", "asc", "desc") {
	case "asc":
	case "desc":
		ask.Desc = true
	default:
		ask.Desc = ask.After == ""
	}
	if q.Err != nil {
		return page, q.Err
	}
	return d.opt.AuditLog(r.Context(), c, ask)
}
