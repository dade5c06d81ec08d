package bus

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/internal/json"
)

// Dial connects to an external NATS server and reconnects whenever it is unreachable, or refuses the login.
func Dial(url, name string, log *slog.Logger, more ...nats.Option) (*nats.Conn, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	opts := slices.Concat(connectOptions(name, log), []nats.Option{nats.IgnoreAuthErrorAbort()}, more)
	c, err := nats.Connect(url, opts...)
	if err == nil {
		return c, nil
	}
	log.Warn("NATS cannot be reached yet; trying again", "err", err) // later attempts do not say why they fail
	c, err = nats.Connect(url, append(opts, nats.RetryOnFailedConnect(true))...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	return c, nil
}

// connectOptions returns the options of all connections: they reconnect without limit, do
// not receive their own messages, and do not buffer while disconnected.
func connectOptions(name string, log *slog.Logger) []nats.Option {
	log = log.With("part", "nats")
	return []nats.Option{
		nats.Name(name), nats.NoEcho(), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
		nats.ReconnectWait(200 * time.Millisecond), nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("the connection to NATS was lost; trying again", "err", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("the connection to NATS is back") }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			if errors.Is(err, nats.ErrSlowConsumer) {
				log.Error("messages from NATS were dropped, because they arrived faster than they could be stored", "subject", subject)
				return
			}
			log.Warn("NATS reports an error", "subject", subject, "err", err)
		}),
	}
}

func insecure(t *tls.Config) *tls.Config {
	c := t.Clone()
	c.InsecureSkipVerify = true
	return c
}

// Publisher returns the login name of the sender of a message that came through a
// service; ok is false without the header. It may be trusted only on subjects that can be
// reached through services alone.
func Publisher(h nats.Header) (name string, ok bool) {
	var info struct {
		User string `json:"user"`
	}
	v := h.Get("Nats-Request-Info")
	if v == "" || json.Unmarshal([]byte(v), &info) != nil || info.User == "" {
		return "", false
	}
	return info.User, true
}
