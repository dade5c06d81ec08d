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

// checkHealth asks the agent whether it is ready.
func (s *Sidecar) checkHealth(ctx context.Context) error {
	status, err := s.call(ctx, http.MethodGet, s.opt.Stream+"/health", "", nil, 5*time.Second)
	if err == nil && status >= 300 {
		err = fmt.Errorf("the agent answers %d to /health", status)
	}
	return err
}

// post sends a request to the agent and records it.
func (s *Sidecar) post(ctx context.Context, path, key string, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	began := time.Now()
	status, err := s.call(ctx, http.MethodPost, s.opt.Channel+path, key, s.conn.removeSecrets(b), 30*time.Second)
	s.traffic.add(record{Direction: "to_agent", Method: http.MethodPost, Route: path, Status: status, Took: time.Since(began)})
	if err == nil && status >= 300 {
		err = fmt.Errorf("the agent answers %d to %s", status, path)
	}
	return err
}

func (s *Sidecar) call(ctx context.Context, method, address, key string, body []byte, timeout time.Duration) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
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
