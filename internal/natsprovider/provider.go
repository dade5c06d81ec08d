package natsprovider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Provider serves a domain.
type Provider struct {
	Domain   string        // one word, such as graph
	Subject  string        // where requests come; "" means x1.provider.{Domain}.*
	Ops      map[string]Op // by the last word of the subject
	Timeout  time.Duration // of one request; 0 means 10 s
	Parallel int           // requests at the same time; 0 means 16
	Grace    time.Duration // how long requests under way may take when it ends; 0 means 3 s

	// Who tells on whose behalf a request comes; nil means that requests are
	// taken at their word, which is right only among those who trust each other.
	Who func(nats.Header) (session chat.SessionID, known bool)
	// Allow counts a request towards the sender's limit; nil means no limit.
	Allow  func(nats.Header) error
	Logger *slog.Logger // nil means none
}

// Op does one operation. What it returns is sent as JSON.
type Op func(ctx context.Context, c Call, data json.RawMessage) (any, error)

// Call is a request.
type Call struct {
	Op      string
	Session chat.SessionID // on whose behalf; "" when it is nobody's
}

// HeaderStatus says in a reply what it would be in HTTP.
const HeaderStatus = "Parley-Status"

// headroom is what a reply needs beside its data: its headers.
const headroom = 1 << 10

// Typed makes an Op of a function over types of its own.
func Typed[Q, A any](f func(ctx context.Context, c Call, q Q) (A, error)) Op {
	return func(ctx context.Context, c Call, data json.RawMessage) (any, error) {
		var q Q
		if len(data) > 0 {
			if err := json.Unmarshal(data, &q); err != nil {
				return nil, chat.Errorf(chat.Invalid, "the request of %s is not understood: %s", c.Op, problem(err)).Because(err)
			}
		}
		return f(ctx, c, q)
	}
}

func problem(err error) string {
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if t.Field == "" {
			return "it should be an object"
		}
		return t.Field + " should be " + t.Want
	}
	return "it is no JSON object"
}

// Serve answers requests until ctx ends. Those under way then have a moment.
func (p Provider) Serve(ctx context.Context, conn *nats.Conn) error {
	if p.Timeout == 0 {
		p.Timeout = 10 * time.Second
	}
	if p.Parallel == 0 {
		p.Parallel = 16
	}
	if p.Grace == 0 {
		p.Grace = 3 * time.Second
	}
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	subject := p.Subject
	if subject == "" {
		subject = "x1.provider." + p.Domain + ".*"
	}
	queue := make(chan *nats.Msg, 1024)
	sub, err := conn.ChanQueueSubscribe(subject, "x1.provider."+p.Domain, queue)
	if err != nil {
		return fmt.Errorf("serve %s: %w", p.Domain, err)
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(p.Grace, stop) })()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	room := make(chan struct{}, p.Parallel)
	for {
		select {
		case m, ok := <-queue:
			if !ok {
				return nil
			}
			select {
			case room <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			wg.Go(func() {
				defer func() { <-room }()
				p.answer(work, conn, m)
			})
		case <-ctx.Done():
			return nil
		}
	}
}

// answer handles one request and says in the audit log that it did.
func (p *Provider) answer(ctx context.Context, conn *nats.Conn, m *nats.Msg) {
	began := time.Now()
	op := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	call := Call{Op: op}
	answer, err := p.do(ctx, &call, m)
	reply := nats.NewMsg(m.Reply)
	code := http.StatusOK
	if err == nil {
		if reply.Data, err = json.Marshal(answer); err == nil && len(reply.Data) > int(conn.MaxPayload())-headroom {
			err = chat.Errorf(chat.TooLarge, "the answer of %s.%s has %d bytes, which is more than one NATS message may have; ask for less", p.Domain, op, len(reply.Data))
		}
	}
	if err != nil {
		e := chat.Public(err)
		if context.Cause(ctx) == context.Canceled {
			e = chat.Errorf(chat.Unavailable, "the provider of %s is ending; ask again", p.Domain)
		}
		code = status[e.Code]
		if errors.Is(err, context.DeadlineExceeded) {
			e = chat.Errorf(chat.Unavailable, "%s.%s took longer than %s", p.Domain, op, p.Timeout)
			code = http.StatusGatewayTimeout
		}
		if e.Code == chat.Internal {
			p.Logger.Error("a provider failed", "domain", p.Domain, "op", op, "err", err)
		}
		// In both forms that x1's callers read; plain texts can be encoded.
		reply.Data, _ = json.Marshal(map[string]any{"ok": false, "code": e.Code, "message": e.Msg, "error": map[string]any{"code": e.Code, "message": e.Msg}})
	}
	reply.Header.Set(HeaderStatus, strconv.Itoa(code))
	if m.Reply != "" {
		if err := conn.PublishMsg(reply); err != nil {
			p.Logger.Warn("an answer of a provider could not be sent", "domain", p.Domain, "op", op, "err", err)
		}
	}
	record, err := json.Marshal(map[string]any{
		"domain": p.Domain, "op": op, "session_id": call.Session, "status": code, "duration_ms": time.Since(began).Milliseconds(), "timestamp": began.UTC(),
	})
	if err == nil {
		_ = conn.Publish("x1.audit.provider."+p.Domain, record) // whoever keeps it may be away
	}
}

func (p *Provider) do(ctx context.Context, call *Call, m *nats.Msg) (answer any, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("provider %s panicked: %v", p.Domain, v)
		}
	}()
	f := p.Ops[call.Op]
	if f == nil {
		return nil, chat.Errorf(chat.NotFound, "%s has no operation %q", p.Domain, clip(call.Op))
	}
	if p.Allow != nil {
		if err := p.Allow(m.Header); err != nil {
			return nil, err
		}
	}
	var from struct {
		Provenance struct {
			Session chat.SessionID `json:"session_id"`
		} `json:"provenance"`
	}
	_ = json.Unmarshal(m.Data, &from) // old requesters do not say it
	call.Session = from.Provenance.Session
	if p.Who != nil {
		if session, known := p.Who(m.Header); known {
			call.Session = session // the server vouches for it
		}
	}
	return f(ctx, *call, m.Data)
}

var status = map[chat.Code]int{
	chat.Invalid: http.StatusBadRequest, chat.Unauthenticated: http.StatusUnauthorized, chat.Denied: http.StatusForbidden,
	chat.NotFound: http.StatusNotFound, chat.Conflict: http.StatusConflict, chat.Gone: http.StatusGone,
	chat.TooLarge: http.StatusRequestEntityTooLarge, chat.SlowDown: http.StatusTooManyRequests,
	chat.Unavailable: http.StatusServiceUnavailable, chat.Internal: http.StatusInternalServerError,
}

func clip(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "…"
	}
	return s
}
