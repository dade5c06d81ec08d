package letta

import (
	"context"
	"net/http"

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

// reply sends the answer of an endpoint as JSON.
func reply(e endpoint) handler {
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
	return reply(func(q *request) (any, error) {
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
	return reply(func(q *request) (any, error) {
		rec, sess, err := q.findConversation()
		if err != nil {
			return nil, err
		}
		return h(q, rec, sess)
	})
}

// ofRun is an endpoint about the run that the path names.
func ofRun(h func(*request, *run) (any, error)) handler {
	return reply(func(q *request) (any, error) {
		run, err := q.loadRun(q.PathValue("run"))
		if err != nil {
			return nil, err
		}
		return h(q, run)
	})
}

// ofStep is an endpoint about the step that the path names.
func ofStep(h func(*request, *step) (any, error)) handler {
	return reply(func(q *request) (any, error) {
		s, err := q.findStep(q.PathValue("step"))
		if err != nil {
			return nil, err
		}
		return h(q, s)
	})
}
