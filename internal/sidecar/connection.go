package sidecar

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/sleep"
)

// connection is a connection to NATS. It is replaced before its credential expires, or
// when it is disconnected for long.
type connection struct {
	opt         *Options
	log         *slog.Logger
	http        *http.Client
	receive     func(*nats.Msg) // gets messages on the session's subjects
	reconnected func()          // called when connected again

	mu         sync.Mutex
	conn       *nats.Conn
	expires    time.Time
	secrets    []string // removed from all answers
	down       time.Time
	connected  context.Context // ends when the connection is lost, and with it all requests
	disconnect context.CancelFunc
}

const (
	credentialLife = time.Hour
	requestWait    = 10 * time.Second
)

// open connects and retries until it succeeds or the server refuses.
func (l *connection) open(ctx context.Context) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := l.renew(ctx)
		if err == nil {
			return nil
		}
		switch chat.CodeOf(err) {
		case chat.Unauthenticated, chat.Denied, chat.NotFound, chat.Gone, chat.Invalid, chat.Conflict:
			return err
		}
		l.log.Warn("the server cannot be reached yet; trying again", "err", err)
		if sleep.For(ctx, wait) != nil {
			return ctx.Err()
		}
	}
}

// maintain replaces the connection when needed, until ctx ends.
func (l *connection) maintain(ctx context.Context) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	defer l.close()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		l.mu.Lock()
		if l.conn.IsConnected() {
			l.down = time.Time{}
		} else if l.down.IsZero() {
			l.down = now
		}
		due := !l.expires.IsZero() && l.expires.Sub(now) < credentialLife/5
		away := !l.down.IsZero() && now.Sub(l.down) > 3*time.Second
		l.mu.Unlock()
		if !due && !away {
			continue
		}
		if err := l.renew(ctx); err != nil && ctx.Err() == nil {
			l.log.Warn("the connection to the server could not be renewed; trying again", "err", err)
		}
	}
}

func (l *connection) close() {
	l.current().Close()
	l.cancelRequests()
}

// cancelRequests ends requests whose answers were lost.
func (l *connection) cancelRequests() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.disconnect != nil {
		l.disconnect()
	}
	l.connected, l.disconnect = context.WithCancel(context.Background())
}

// renew opens a new connection and closes the old one.
func (l *connection) renew(ctx context.Context) error {
	address, opts, expires, secrets, err := l.credential(ctx)
	if err != nil {
		return err
	}
	opts = append(opts, nats.Name("parley sidecar of "+string(l.opt.Session)), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
		nats.ReconnectWait(100*time.Millisecond), nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond), nats.Timeout(5*time.Second),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { l.cancelRequests() }),
		nats.ReconnectHandler(func(*nats.Conn) { l.reconnected() }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			// Some logins may not subscribe to events; then input and a timer trigger reads.
			l.log.Debug("NATS reports an error", "err", err)
		}))
	conn, err := nats.Connect(address, opts...)
	if err != nil {
		if errors.Is(err, nats.ErrAuthorization) {
			return chat.Errorf(chat.Denied, "NATS at %s refuses this user and password", address).Because(err)
		}
		return chat.Errorf(chat.Unavailable, "NATS at %s cannot be reached", address).Because(err)
	}
	for _, k := range []x1.Kind{x1.Input, x1.Presence, x1.Events} {
		if _, err := conn.Subscribe(x1.Subject(l.opt.Session, k), l.receive); err != nil {
			conn.Close()
			return err
		}
	}
	if err := conn.FlushTimeout(requestWait); err != nil {
		conn.Close()
		return chat.Errorf(chat.Unavailable, "NATS at %s does not answer", address).Because(err)
	}
	l.mu.Lock()
	old := l.conn
	l.conn, l.expires, l.secrets, l.down = conn, expires, secrets, time.Time{}
	l.mu.Unlock()
	l.cancelRequests() // of the old connection
	if old != nil {
		old.Close()
	}
	l.reconnected()
	return nil
}

// credential returns the address and login for NATS.
func (l *connection) credential(ctx context.Context) (address string, opts []nats.Option, expires time.Time, secrets []string, err error) {
	if l.opt.NATS != "" {
		if l.opt.User != "" || l.opt.Secret != "" {
			opts = append(opts, nats.UserInfo(l.opt.User, l.opt.Secret))
		}
		return l.opt.NATS, opts, time.Time{}, []string{l.opt.Secret, l.opt.Token}, nil
	}
	var cred x1.Credential
	path := "/parley/v1/sessions/" + url.PathEscape(string(l.opt.Session)) + "/credentials"
	ask := map[string]any{"role": x1.Sidecar, "ttl": credentialLife.Seconds()}
	err = l.post(ctx, path, ask, &cred)
	if chat.CodeOf(err) == chat.NotFound {
		// Create the session, unless another client creates it at the same time.
		err = l.post(ctx, "/parley/v1/sessions", map[string]any{"id": l.opt.Session, "agent": chat.NoAgent}, nil)
		if err == nil || chat.CodeOf(err) == chat.Conflict {
			err = l.post(ctx, path, ask, &cred)
		}
	}
	if err != nil {
		return "", nil, time.Time{}, nil, err
	}
	opts = append(opts, nats.UserInfo(cred.User, cred.Password), nats.CustomInboxPrefix(cred.InboxPrefix))
	return cred.URL, opts, cred.ExpiresAt, []string{cred.User, cred.Password, l.opt.Token}, nil
}

// post sends an HTTP request to the server.
func (l *connection) post(ctx context.Context, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.opt.Server+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if l.opt.Token != "" {
		r.Header.Set("Authorization", "Bearer "+l.opt.Token)
	}
	res, err := l.http.Do(r)
	if err != nil {
		return chat.Errorf(chat.Unavailable, "the server at %s cannot be reached", l.opt.Server).Because(err)
	}
	defer res.Body.Close()
	if b, err = io.ReadAll(io.LimitReader(res.Body, 1<<20)); err != nil {
		return chat.Errorf(chat.Unavailable, "the server's answer was cut off").Because(err)
	}
	if res.StatusCode >= 300 {
		var problem struct {
			Error struct {
				Code    chat.Code `json:"code"`
				Message string    `json:"message"`
			} `json:"error"`
		}
		if json.Unmarshal(b, &problem) != nil || problem.Error.Code == "" {
			return chat.Errorf(chat.Unavailable, "the server at %s answers %s", l.opt.Server, res.Status)
		}
		return chat.Errorf(problem.Error.Code, "%s", problem.Error.Message)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(b, answer); err != nil {
		return fmt.Errorf("the server's answer is not understood: %w", err)
	}
	return nil
}

func (l *connection) current() *nats.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

// request sends one request on a subject and waits for the reply.
func (l *connection) request(ctx context.Context, subject string, data []byte, wait time.Duration) ([]byte, nats.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	l.mu.Lock()
	conn, connected := l.conn, l.connected
	l.mu.Unlock()
	stop := context.AfterFunc(connected, cancel)
	defer stop()
	m, err := conn.RequestWithContext(ctx, subject, data)
	if err != nil {
		return nil, nil, err
	}
	return m.Data, m.Header, nil
}

// publish publishes without waiting.
func (l *connection) publish(subject string, data []byte) { _ = l.current().Publish(subject, data) }

// removeSecrets removes the sidecar's own secrets from an answer.
func (l *connection) removeSecrets(b []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.secrets {
		if len(s) >= 8 {
			b = bytes.ReplaceAll(b, []byte(s), []byte("[removed]"))
		}
	}
	return b
}
