package native

import (
	"context"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
)

// MessagesFunc returns a part of a session as the messages that a model gets, as a
// value that can be written as JSON.
type MessagesFunc func(ctx context.Context, c chat.Caller, id chat.SessionID, q MessageQuery) (any, error)

// MessageQuery selects messages. After and Before are the id of a message or the
// sequence of an event.
type MessageQuery struct {
	After, Before string
	Limit         int
	Desc          bool
	Workstream    string // "" is the main line
}

// messagesPage describes the answer.
type messagesPage struct {
	Messages []json.RawMessage `json:"messages"`
	More     bool              `json:"more"`
}

func (d *Dialect) readMessages(r *http.Request, c chat.Caller) (any, error) {
	q := edge.NewQuery(r)
	mq := MessageQuery{
		After: q.Text("after"), Before: q.Text("before"), Limit: q.Limit(100, 1000),
		Desc: q.OneOf("order", "asc", "desc") == "desc", Workstream: q.Text("workstream"),
	}
	if mq.Workstream == "main" {
		mq.Workstream = ""
	}
	if mq.Workstream != "" && chat.CheckWorkstream(mq.Workstream) != nil {
		q.Refuse("workstream", mq.Workstream, "the id of a workstream, or main")
	}
	if q.Err != nil {
		return nil, q.Err
	}
	if d.opt.Messages == nil {
		return nil, chat.Errorf(chat.Unavailable, "this server gives out no messages; read the events instead")
	}
	return d.opt.Messages(r.Context(), c, sessionID(r), mq)
}
