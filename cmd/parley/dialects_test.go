package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/wire"
)

// echo is a dialect with one route: it stores a message of the caller and returns the event.
type echo struct {
	http edge.HTTP
	p    *parley
}

func (d *echo) append(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var message chat.UserMessage
	if err := d.http.Read(r, &message); err != nil {
		return err
	}
	sess, err := d.p.sessions.Own(r.Context(), c, r.PathValue("id")) // an id of a client is the caller's own name for a session
	if err != nil {
		return err
	}
	draft := chat.NewDraft(message)
	draft.Via = "echo"
	events, err := d.p.sessions.Append(r.Context(), c, sess.ID, []chat.Draft{draft})
	if err == nil {
		d.http.Send(w, r, http.StatusOK, events)
	}
	return err
}

func openEcho(p *parley) (endpoint, error) {
	d := &echo{http: edge.HTTP{Dialect: "echo", Caller: p.auth.Caller, Log: p.log}, p: p}
	return endpoint{routes: []wire.Route{d.http.Route("POST /echo/{id}", d.append)}}, nil
}

// A dialect is added to the server with one line in the table.
func TestDialectIsOneLineOfWiring(t *testing.T) {
	table := dialects
	t.Cleanup(func() { dialects = table })
	dialects = append(table[:len(table):len(table)], dialect{"echo", openEcho})
	url := launch(t, t.TempDir())
	id, _, _ := strings.Cut(succeed(t, "", "send", "new", "/echo first"), " ")
	for path, want := range map[string]string{"/echo/" + id: `"text":"second"`, "/echo/none": `"code":"not_found"`} {
		res, err := http.Post(url+path, "application/json", strings.NewReader(`{"text":"second"}`))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if res.Body.Close(); err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s %s, %v", path, res.Status, body, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
