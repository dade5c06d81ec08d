package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/parley-hq/parley/chat"
)

// Audit lists a part of the audit log. The caller needs the scope admin.
func (c *Client) Audit(ctx context.Context, q chat.AuditQuery) (chat.AuditPage, error) {
	v := url.Values{}
	set(v, "after", q.After)
	set(v, "before", q.Before)
	set(v, "event", q.Event)
	set(v, "session", string(q.Session))
	v.Set("order", "asc")
	if q.Desc {
		v.Set("order", "desc")
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return do[chat.AuditPage](ctx, c, call{method: http.MethodGet, path: "/audit", query: v, safe: true})
}
