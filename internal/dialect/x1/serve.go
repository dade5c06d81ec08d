package x1

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/wire"
)

// maxBody bounds the body of an HTTP request.
const maxBody = 4096

// Routes lists the HTTP routes of the dialect.
func (d *Dialect) Routes() []wire.Route {
	traffic := d.http.Route("GET /parley/v1/x1/audit", d.http.Reply(d.serveTraffic))
	traffic.Deliberate = true
	return []wire.Route{d.http.Route("POST /parley/v1/sessions/{id}/credentials", d.serveCredential), traffic}
}

// Off lists the same routes for a server without NATS: they answer that it has none.
func Off(caller func(*http.Request) (chat.Caller, error), log *slog.Logger) []wire.Route {
	d := &Dialect{http: edge.HTTP{Dialect: via, Caller: caller, Log: log}}
	routes := d.Routes()
	for i := range routes {
		routes[i].Handler = d.http.Handle(func(http.ResponseWriter, *http.Request, chat.Caller) error {
			return chat.Errorf(chat.Conflict, "this server runs without NATS (--nats off), so x1 clients and sidecars cannot connect: start it with --nats and an address, such as 127.0.0.1:4222")
		})
	}
	return routes
}

// serveCredential issues a credential for one session.
func (d *Dialect) serveCredential(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var ask struct {
		Role Role    `json:"role"`
		TTL  float64 `json:"ttl"` // seconds
	}
	if err := d.http.Read(r, &ask); err != nil {
		return err
	}
	if ask.TTL < 0 || ask.TTL > maxLife.Seconds() {
		return chat.Errorf(chat.Invalid, "ttl is 1 to %d seconds", int(maxLife.Seconds()))
	}
	id, err := d.opt.Sessions.Resolve(r.Context(), c, chat.SessionID(r.PathValue("id")))
	if err != nil {
		return err
	}
	cred, err := d.issue(r.Context(), c, id, ask.Role, time.Duration(ask.TTL*float64(time.Second)))
	if err != nil {
		return err
	}
	d.http.Send(w, r, http.StatusCreated, cred)
	return nil
}

// serveTraffic lists traffic records, the newest first.
func (d *Dialect) serveTraffic(r *http.Request, c chat.Caller) (any, error) {
	q := edge.NewQuery(r)
	query := trafficQuery{Session: chat.SessionID(q.Text("session")), Subject: q.Text("subject"), Before: q.Sequence("before", 0), Limit: q.Limit(100, 1000)}
	if q.Err != nil {
		return nil, q.Err
	}
	var err error
	if query.Session, err = d.opt.Sessions.Resolve(r.Context(), c, query.Session); err != nil {
		return nil, err
	}
	return d.listTraffic(r.Context(), c, query)
}
