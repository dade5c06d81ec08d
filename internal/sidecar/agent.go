package sidecar

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/parley-hq/parley/internal/json"
)

// get sends a GET request to the agent.
func (s *Sidecar) get(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	res, err := s.agent.Do(r)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	if err := res.Body.Close(); err != nil {
		return err
	}
	if res.StatusCode >= 300 {
		return fmt.Errorf("%s answers %s", address, res.Status)
	}
	return nil
}

// post sends a request to the agent and records it.
func (s *Sidecar) post(ctx context.Context, path, key string, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	began := s.opt.Now()
	status, err := s.call(ctx, path, key, s.conn.removeSecrets(b))
	s.traffic.add(record{Direction: "to_agent", Method: http.MethodPost, Route: path, Status: status, Took: s.opt.Now().Sub(began)})
	if err == nil && status >= 300 {
		err = fmt.Errorf("the agent answers %d to %s", status, path)
	}
	return err
}

func (s *Sidecar) call(ctx context.Context, path, key string, body []byte) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.opt.Channel+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	res, err := s.agent.Do(r)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	return res.StatusCode, res.Body.Close()
}
