package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/parley-hq/parley/chat"
)

// Launch begins a workstream of a session and returns at once. Without a client
// id it gets one, so that it can be repeated after a lost answer.
func (c *Client) Launch(ctx context.Context, id chat.SessionID, l chat.Launch) (chat.WorkstreamStatus, error) {
	if l.ClientID == "" {
		l.ClientID = NewClientID()
	}
	return do[chat.WorkstreamStatus](ctx, c, call{method: http.MethodPost, path: sessionPath(id, "/workstreams"), in: l, safe: true})
}

// Workstreams returns the states of the workstreams of a session, in the order of their
// launch.
func (c *Client) Workstreams(ctx context.Context, id chat.SessionID) ([]chat.WorkstreamStatus, error) {
	var out struct {
		Workstreams []chat.WorkstreamStatus `json:"workstreams"`
	}
	err := c.do(ctx, call{method: http.MethodGet, path: sessionPath(id, "/workstreams"), safe: true}, &out)
	return out.Workstreams, err
}

// Workstream returns the state of one workstream, by its id or its launch id.
func (c *Client) Workstream(ctx context.Context, id chat.SessionID, name string) (chat.WorkstreamStatus, error) {
	return c.workstream(ctx, http.MethodGet, id, name, "", nil)
}

// MessageWorkstream sends a message to a workstream.
func (c *Client) MessageWorkstream(ctx context.Context, id chat.SessionID, name, text string) (chat.WorkstreamStatus, error) {
	return c.workstream(ctx, http.MethodPost, id, name, "/message", map[string]string{"message": text, "client_id": NewClientID()})
}

// SteerWorkstream sends a steering command to a workstream: one of the chat.Steer…
// commands.
func (c *Client) SteerWorkstream(ctx context.Context, id chat.SessionID, name, command, text string) (chat.WorkstreamStatus, error) {
	return c.workstream(ctx, http.MethodPost, id, name, "/steer", map[string]string{"command": command, "text": text, "client_id": NewClientID()})
}

// TerminateWorkstream tells a workstream to end.
func (c *Client) TerminateWorkstream(ctx context.Context, id chat.SessionID, name, reason string) (chat.WorkstreamStatus, error) {
	return c.workstream(ctx, http.MethodPost, id, name, "/terminate", map[string]string{"reason": reason})
}

// workstream does a request about one workstream. All of them can be repeated.
func (c *Client) workstream(ctx context.Context, method string, id chat.SessionID, name, verb string, in any) (chat.WorkstreamStatus, error) {
	return do[chat.WorkstreamStatus](ctx, c, call{method: method, path: sessionPath(id, "/workstreams/"+url.PathEscape(name)+verb), in: in, safe: true})
}

// Fork begins a session that shares another one's past.
func (c *Client) Fork(ctx context.Context, id chat.SessionID, f chat.Fork) (chat.Session, error) {
	return do[chat.Session](ctx, c, call{method: http.MethodPost, path: sessionPath(id, "/fork"), in: f})
}
