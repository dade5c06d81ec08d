package x1

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// Routes lists where the dialect answers by HTTP.
func (d *Dialect) Routes() []wire.Route {
	return []wire.Route{
		{Pattern: "POST /parley/v1/sessions/{id}/credentials", Dialect: via, Handler: d.handle(d.serveCredential)},
		{Pattern: "GET /parley/v1/x1/audit", Dialect: via, Deliberate: true, Handler: d.handle(d.serveAudit)},
	}
}

// Off lists what answers in place of [Dialect.Routes] on a server without NATS:
// that it has none, which a sidecar can pass on.
func Off(caller func(*http.Request) (chat.Caller, error), log *slog.Logger) []wire.Route {
	d := &Dialect{opt: Options{Caller: caller}, log: log}
	routes := d.Routes()
	for i := range routes {
		routes[i].Handler = d.handle(func(*http.Request, chat.Caller) (int, any, error) {
			return 0, nil, chat.Errorf(chat.Conflict, "this server runs without NATS (--nats off), so x1 and its sidecars have no way to it: start it with --nats and an address, such as 127.0.0.1:4222")
		})
	}
	return routes
}

func (d *Dialect) handle(h func(r *http.Request, c chat.Caller) (int, any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := d.opt.Caller(r)
		code, body := 0, any(nil)
		if err == nil {
			code, body, err = h(r, c)
		}
		if err != nil {
			e := chat.Public(wire.Reason(r.Context(), err))
			if e.Code == chat.Internal && r.Context().Err() == nil { // else the client has gone away
				d.log.ErrorContext(r.Context(), "a request failed", "path", r.URL.Path, "err", err)
			}
			if s := e.RetryAfter(); s != "" {
				w.Header().Set("Retry-After", s)
			}
			code, body = status[e.Code], map[string]any{"error": map[string]any{"code": e.Code, "message": e.Msg, "details": e.Details}}
		}
		b, err := json.Marshal(body)
		if err != nil {
			http.Error(w, "", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if err := wire.WriteBody(w, r, code, b); err != nil {
			d.log.Debug("an answer could not be sent", "err", err)
		}
	})
}

// serveCredential gives out a credential for one session.
func (d *Dialect) serveCredential(r *http.Request, c chat.Caller) (int, any, error) {
	var ask struct {
		Role Role    `json:"role"`
		TTL  float64 `json:"ttl"` // seconds
	}
	b, err := wire.ReadBody(r, 4096)
	if errors.Is(err, wire.ErrTooLarge) {
		return 0, nil, chat.Errorf(chat.TooLarge, "the body is {role, ttl}, both optional, and not that large")
	}
	if err != nil {
		return 0, nil, chat.Errorf(chat.Invalid, "the body could not be read to its end").Because(err)
	}
	if len(b) > 0 {
		if err := json.Unmarshal(b, &ask); err != nil {
			return 0, nil, chat.Errorf(chat.Invalid, "the body is {role, ttl}, both optional").Because(err)
		}
	}
	if ask.TTL < 0 || ask.TTL > MaxLife.Seconds() {
		return 0, nil, chat.Errorf(chat.Invalid, "ttl is 1 to %d seconds", int(MaxLife.Seconds()))
	}
	id, err := d.opt.Sessions.Resolve(r.Context(), c, chat.SessionID(r.PathValue("id")))
	if err != nil {
		return 0, nil, err
	}
	cred, err := d.Issue(r.Context(), c, id, ask.Role, time.Duration(ask.TTL*float64(time.Second)))
	return http.StatusCreated, cred, err
}

// serveAudit lists audit records, the newest first.
func (d *Dialect) serveAudit(r *http.Request, c chat.Caller) (int, any, error) {
	q := r.URL.Query()
	limit, err := number(q, "limit", 100, 1, 1000)
	if err != nil {
		return 0, nil, err
	}
	before, err := number(q, "before", 0, 0, uint64(chat.MaxSeq))
	if err != nil {
		return 0, nil, err
	}
	id, err := d.opt.Sessions.Resolve(r.Context(), c, chat.SessionID(q.Get("session")))
	if err != nil {
		return 0, nil, err
	}
	page, err := d.Audit(r.Context(), c, AuditQuery{Session: id, Subject: q.Get("subject"), Before: chat.Seq(before), Limit: int(limit)})
	return http.StatusOK, page, err
}

func number(q url.Values, name string, otherwise, least, most uint64) (uint64, error) {
	s := q.Get(name)
	if s == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n < least || n > most {
		return 0, chat.Errorf(chat.Invalid, "%s=%q is not a number from %d to %d", name, clip(s), least, most)
	}
	return n, nil
}
