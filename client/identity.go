package client

import (
	"context"
	"net/http"

	"github.com/parley-hq/parley/chat"
)

// Identity is the caller as the server knows it.
type Identity struct {
	Actor     chat.Actor   `json:"actor"`
	Workspace string       `json:"workspace"`
	Scopes    []chat.Scope `json:"scopes"`
	Open      bool         `json:"open"` // the server accepts requests without credentials
}

// Whoami returns the identity that the server gives to the requests of this client.
func (c *Client) Whoami(ctx context.Context) (Identity, error) {
	return do[Identity](ctx, c, call{method: http.MethodGet, path: "/auth/session", root: true, safe: true})
}
