package main

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
)

// post calls an address that a client gave. It refuses addresses of internal networks.
func (p *parley) post(ctx context.Context, address string, body []byte) (int, error) {
	client := auth.SafeClient(10 * time.Second)
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return 0, chat.Errorf(chat.Invalid, "the address cannot be called").Because(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := client.Do(r)
	if err != nil {
		return 0, chat.Errorf(chat.Unavailable, "the address does not answer, or it belongs to an internal network").Because(err)
	}
	return res.StatusCode, res.Body.Close()
}
