package letta

import (
	"net/http"
	"slices"

	"github.com/parley-hq/parley/internal/dialect/letta/stream"
	"github.com/parley-hq/parley/internal/edge"
)

// query reads the query values of a request. Clients write null or an empty text for no value.
type query struct{ *edge.Query }

func newQuery(r *http.Request) query {
	q := query{edge.NewQuery(r)}
	q.Ignore("", "null")
	return q
}

// err returns the first wrong value as a malformed request.
func (q query) err() error {
	if q.Err == nil {
		return nil
	}
	return &refusal{error: q.Err, malformed: true}
}

// ascending reads the order of a list; the default is desc unless otherwise is asc.
func (q query) ascending(otherwise string) bool {
	if order := q.OneOf("order", "asc", "desc"); order != "" {
		return order == "asc"
	}
	return otherwise == "asc"
}

// pageQuery is the part of a list that a client asks for. after and before are ids of entries.
type pageQuery struct {
	asc           bool
	limit         int
	after, before string
}

// page reads the values of a page.
func (q query) page(order string, limit int) pageQuery {
	return pageQuery{asc: q.ascending(order), limit: q.Limit(limit, 1000), after: q.Text("after"), before: q.Text("before")}
}

// backwards reports whether the page ends before an entry. It then has the entries next to that one.
func (p *pageQuery) backwards() bool { return p.before != "" && p.after == "" }

// messageQuery is a pageQuery for messages.
type messageQuery struct {
	pageQuery
	kinds     []string // the wanted values of message_type; nil means all
	group     string
	summaries bool
}

func (q query) messagePage(order string) messageQuery {
	m := messageQuery{
		pageQuery: q.page(order, 100), kinds: q.All("include_return_message_types"), group: q.Text("group_id"),
		summaries: q.Bool("include_compaction_messages", false),
	}
	q.OneOf("order_by", "created_at")
	for _, kind := range m.kinds {
		if !slices.Contains(stream.Kinds, kind) {
			q.Refuse("include_return_message_types", kind, "it is not a type of message")
		}
	}
	return m
}
