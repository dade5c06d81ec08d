package natsprovider

import (
	"cmp"
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
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// Provider serves a domain.
type Provider struct {
	Domain   string        // one word, such as graph
	Subject  string        // of requests; "" means x1.provider.{Domain}.*
	Ops      map[string]Op // by the last word of the subject
	Timeout  time.Duration // of one request; 0 means 10 s
	Parallel int           // requests at the same time; 0 means 16
	Grace    time.Duration // how long running requests may take when it ends; 0 means 3 s

	// Who returns the verified session of a request. Without it, or if known is false, the
	// session that the request names is trusted.
	Who func(nats.Header) (session chat.SessionID, known bool)
	// Allow counts a request towards the sender's limit; nil means no limit.
	Allow  func(nats.Header) error
	Logger *slog.Logger // nil means none
}

// Op does one operation. Its result is sent as JSON.
type Op func(ctx context.Context, c Call, data json.RawMessage) (any, error)

// Call is a request.
type Call struct {
	Op      string
	Session chat.SessionID // of the agent that asks; "" for none
}

// HeaderStatus is the header of a reply with the HTTP status.
const HeaderStatus = "Parley-Status"

// headroom is kept free in a reply for headers.
const headroom = 1 << 10

// Typed makes an Op of a function with typed request and answer.
func Typed[Q, A any](f func(ctx context.Context, c Call, q Q) (A, error)) Op {
	return func(ctx context.Context, c Call, data json.RawMessage) (any, error) {
		var q Q
		if len(data) > 0 {
			if err := json.Unmarshal(data, &q); err != nil {
				return nil, chat.Errorf(chat.Invalid, "the request of %s is not understood: %s", c.Op, chat.JSONProblem(err)).Because(err)
			}
		}
		return f(ctx, c, q)
	}
}

// Serve answers requests until ctx ends. Running requests then have Grace to finish.
func (p Provider) Serve(ctx context.Context, conn *nats.Conn) error {
	p.Timeout = cmp.Or(p.Timeout, 10*time.Second)
	p.Parallel = cmp.Or(p.Parallel, 16)
	p.Grace = cmp.Or(p.Grace, 3*time.Second)
	p.Subject = cmp.Or(p.Subject, "x1.provider."+p.Domain+".*")
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	queue := make(chan *nats.Msg, 1024)
	sub, err := conn.ChanQueueSubscribe(p.Subject, "x1.provider."+p.Domain, queue)
	if err != nil {
		return fmt.Errorf("serve %s: %w", p.Domain, err)
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(p.Grace, stop) })()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() { _ = sub.Unsubscribe() }() // the connection may be closed
	slots := make(chan struct{}, p.Parallel)
	for {
		select {
		case m, ok := <-queue:
			if !ok {
				return nil
			}
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			wg.Go(func() {
				defer func() { <-slots }()
				p.answer(work, conn, m)
			})
		case <-ctx.Done():
			return nil
		}
	}
}

// answer handles one request and publishes a traffic record.
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
		code = edge.Status(e.Code)
		if errors.Is(err, context.DeadlineExceeded) {
			e = chat.Errorf(chat.Unavailable, "%s.%s took longer than %s", p.Domain, op, p.Timeout)
			code = http.StatusGatewayTimeout
		}
		if e.Code == chat.Internal {
			p.Logger.Error("a provider failed", "domain", p.Domain, "op", op, "err", err)
		}
		// In both forms that x1's callers read. It cannot fail.
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
		_ = conn.Publish("x1.audit.provider."+p.Domain, record) // nothing depends on it
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
		return nil, chat.Errorf(chat.NotFound, "%s has no operation %q", p.Domain, text.Clip(call.Op, 64))
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
	_ = json.Unmarshal(m.Data, &from) // x1's own sidecar does not send it
	call.Session = from.Provenance.Session
	if p.Who != nil {
		if session, known := p.Who(m.Header); known {
			call.Session = session // verified by NATS
		}
	}
	return f(ctx, *call, m.Data)
}
