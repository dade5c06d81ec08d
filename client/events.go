package client

import (
	"context"
	"crypto/rand"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// normalize prepares drafts to be sent. keyed reports whether all have an idempotency key, so that they can be sent again.
func normalize(list []chat.Draft) (keyed bool, err error) {
	keyed = true
	for i := range list {
		if err := list[i].Normalize(); err != nil {
			return false, err
		}
		keyed = keyed && list[i].ClientID != ""
	}
	return keyed, nil
}

// NewClientID returns a fresh idempotency key.
func NewClientID() string { return "c-" + rand.Text() }

// Append appends drafts as one unit and returns the events they became. It is
// repeated after a lost response only when every draft has a ClientID.
func (c *Client) Append(ctx context.Context, id chat.SessionID, list ...chat.Draft) ([]chat.Event, error) {
	list = slices.Clone(list)
	keyed, err := normalize(list)
	if err != nil {
		return nil, err
	}
	var out struct {
		Events []chat.Event `json:"events"`
	}
	err = c.do(ctx, call{method: http.MethodPost, path: sessionPath(id, "/events"), in: list, safe: keyed}, &out)
	if err == nil && len(out.Events) != len(list) {
		err = chat.Errorf(chat.Internal, "the server returned %d events for %d drafts", len(out.Events), len(list))
	}
	return out.Events, err
}

// Say sends a text as a user message. The call is repeated after a lost response;
// the message is stored once.
func (c *Client) Say(ctx context.Context, id chat.SessionID, text string) (chat.Event, error) {
	return c.Send(ctx, id, chat.UserMessage{Text: text}, "")
}

// Send sends a user message under an idempotency key; "" makes a fresh one. A
// caller that keeps the key may repeat the call after a restart of its own.
func (c *Client) Send(ctx context.Context, id chat.SessionID, m chat.UserMessage, clientID string) (chat.Event, error) {
	if clientID == "" {
		clientID = NewClientID()
	}
	events, err := c.Append(ctx, id, chat.NewDraft(m).As(clientID))
	if err != nil {
		return chat.Event{}, err
	}
	return events[0], nil
}

// Withdraw withdraws a message that waits behind the running turn.
func (c *Client) Withdraw(ctx context.Context, id chat.SessionID, message chat.Seq) error {
	_, err := c.Append(ctx, id, chat.NewDraft(chat.UserMessageWithdrawn{Sequence: message}).As(NewClientID()))
	return err
}

// Preview shows pieces of blocks that are being written. It is for programs
// that append agent events themselves; workers use agent.Turn.
func (c *Client) Preview(ctx context.Context, id chat.SessionID, pieces ...chat.Preview) error {
	return c.do(ctx, call{method: http.MethodPost, path: sessionPath(id, "/previews"), in: pieceWire(pieces), safe: true}, nil)
}

// piece is a preview on the wire.
type piece struct {
	Block      chat.BlockID   `json:"block"`
	Offset     int            `json:"offset"`
	Text       string         `json:"text"`
	Kind       chat.BlockKind `json:"kind,omitempty"`
	Workstream string         `json:"workstream_id,omitempty"`
	Turn       chat.TurnID    `json:"turn_id,omitempty"`
	Attempt    int            `json:"attempt,omitempty"`
}

func pieceWire(list []chat.Preview) []piece {
	out := make([]piece, len(list))
	for i, p := range list {
		out[i] = piece{p.Block, p.Offset, p.Text, p.Kind, p.Workstream, p.Turn, p.Attempt}
	}
	return out
}

// EventQuery narrows a read of stored events. The zero value reads all of them,
// oldest first.
type EventQuery struct {
	After, Before chat.Seq // exclusive; 0 is no bound
	Desc          bool     // newest first
	Types         []string // only these
	Workstream    string   // only this line; "main" is the main line
	Page          int      // events per request; 0 means 1000
	Limit         int      // most events in all; 0 means no bound
}

// Events walks over stored events page by page. It ends after the first error,
// and does not wait for new events: that is Watch.
func (c *Client) Events(ctx context.Context, id chat.SessionID, q EventQuery) iter.Seq2[chat.Event, error] {
	return func(yield func(chat.Event, error) bool) {
		for count := 0; ; {
			page, err := c.page(ctx, id, q, count)
			if err != nil {
				yield(chat.Event{}, err)
				return
			}
			for _, e := range page.Events {
				if count++; !yield(e, nil) || count == q.Limit {
					return
				}
				if q.Desc {
					q.Before = e.Seq
				} else {
					q.After = e.Seq
				}
			}
			if !page.More || len(page.Events) == 0 {
				return
			}
		}
	}
}

type eventPage struct {
	Events []chat.Event `json:"events"`
	More   bool         `json:"more"`
}

func (c *Client) page(ctx context.Context, id chat.SessionID, q EventQuery, have int) (page eventPage, err error) {
	size := q.Page
	if size <= 0 {
		size = 1000
	}
	if q.Limit > 0 {
		size = min(size, q.Limit-have)
	}
	v := url.Values{"limit": {strconv.Itoa(size)}}
	if q.After > 0 {
		v.Set("after", strconv.FormatUint(uint64(q.After), 10))
	}
	if q.Before > 0 {
		v.Set("before", strconv.FormatUint(uint64(q.Before), 10))
	}
	if q.Desc {
		v.Set("order", "desc")
	}
	set(v, "types", strings.Join(q.Types, ","))
	set(v, "workstream", q.Workstream)
	err = c.do(ctx, call{method: http.MethodGet, path: sessionPath(id, "/events"), query: v, safe: true}, &page)
	return page, err
}

// Answer answers a prompt and returns the event it became. If the prompt has an answer already, the error is
// chat.Conflict and its details name the actor who answered.
func (c *Client) Answer(ctx context.Context, id chat.SessionID, requestID string, a chat.Answer) (chat.Event, error) {
	if a.ClientID == "" {
		a.ClientID = NewClientID()
	}
	var out struct {
		Event chat.Event `json:"event"`
	}
	err := c.do(ctx, call{
		method: http.MethodPost, path: sessionPath(id, "/prompts/"+url.PathEscape(requestID)+"/answer"), in: a, safe: true,
	}, &out)
	return out.Event, err
}

// StopOptions selects what is stopped.
type StopOptions struct {
	Workstream  string `json:"workstream_id,omitempty"` // "" is the main line
	Workstreams bool   `json:"workstreams,omitempty"`   // also all workstreams, which continue otherwise
	Reason      string `json:"reason,omitempty"`
}

// Stop ends the running turn. It returns the turn, or "" when none was running.
func (c *Client) Stop(ctx context.Context, id chat.SessionID, o StopOptions) (chat.TurnID, error) {
	var out struct {
		Stopped bool        `json:"stopped"`
		Turn    chat.TurnID `json:"turn_id"`
	}
	err := c.do(ctx, call{method: http.MethodPost, path: sessionPath(id, "/stop"), in: o}, &out)
	return out.Turn, err
}
