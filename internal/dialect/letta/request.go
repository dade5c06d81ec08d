package letta

import (
	"context"
	"net/http"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/letta/stream"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/record"
)

// request is what one caller asks for.
type request struct {
	*Dialect
	*http.Request // nil for what the server does itself
	query
	ctx     context.Context
	caller  chat.Caller
	records *record.Set // of the caller's workspace
}

// request returns a request that is not one of HTTP.
func (d *Dialect) request(ctx context.Context, c chat.Caller) (*request, error) {
	records, err := d.sets.In(ctx, c.In())
	return &request{Dialect: d, ctx: ctx, caller: c, records: records}, err
}

// handler answers a request.
type handler func(q *request, w http.ResponseWriter) error

func (d *Dialect) handle(h handler) edge.Handler {
	return func(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
		q, err := d.request(r.Context(), c)
		if err != nil {
			return err
		}
		q.Request, q.query = r, newQuery(r)
		return h(q, w)
	}
}

// endpoint is a handler that returns its answer. Wrong query values that it reads are refused.
type endpoint func(q *request) (any, error)

// asJSON sends the answer of an endpoint as JSON.
func asJSON(e endpoint) handler {
	return func(q *request, w http.ResponseWriter) error {
		v, err := e(q)
		if wrong := q.err(); wrong != nil {
			err = wrong
		}
		if err != nil {
			return err
		}
		items, ok := v.([]stream.Item)
		if !ok {
			q.http.Send(w, q.Request, http.StatusOK, v)
			return nil
		}
		b, err := stream.MarshalList(items)
		if err == nil {
			edge.SendJSON(w, q.Request, http.StatusOK, b)
		}
		return err
	}
}

// ofAgent is an endpoint about the agent that the path names, with the session of its default conversation.
func ofAgent(h func(*request, *record.Record, *chat.Session) (any, error)) handler {
	return asJSON(func(q *request) (any, error) {
		rec, sess, err := q.findAgent(q.PathValue("agent"))
		if err != nil {
			return nil, err
		}
		return h(q, rec, sess)
	})
}

// ofOwnAgent is an endpoint about an agent that the caller may change.
func ofOwnAgent(h func(*request, *record.Record) (any, error)) handler {
	return ofAgent(func(q *request, rec *record.Record, sess *chat.Session) (any, error) {
		if err := q.caller.May(sess, chat.Owner); err != nil {
			return nil, err
		}
		return h(q, rec)
	})
}

// ofConversation is an endpoint about the conversation that the path names.
func ofConversation(h func(*request, *record.Record, *chat.Session) (any, error)) handler {
	return asJSON(func(q *request) (any, error) {
		rec, sess, err := q.findConversation()
		if err != nil {
			return nil, err
		}
		return h(q, rec, sess)
	})
}

// ofRun is an endpoint about the run that the path names.
func ofRun(h func(*request, *run) (any, error)) handler {
	return asJSON(func(q *request) (any, error) {
		run, err := q.loadRun(q.PathValue("run"))
		if err != nil {
			return nil, err
		}
		return h(q, run)
	})
}

// ofStep is an endpoint about the step that the path names.
func ofStep(h func(*request, *step) (any, error)) handler {
	return asJSON(func(q *request) (any, error) {
		s, err := q.findStep(q.PathValue("step"))
		if err != nil {
			return nil, err
		}
		return h(q, s)
	})
}

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
