package native

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/servertest"
)

// tokens has the tokens of the users and agents of the tests.
var tokens = []auth.Token{
	token("alice", chat.User, "", chat.ScopeUser),
	token("bob", chat.User, "", chat.ScopeUser),
	token("carol", chat.User, "", chat.ScopeUser),
	token("helper", chat.Agent, "", chat.ScopeAgent),
	token("clerk", chat.Agent, "", chat.ScopeAgent),
	token("chief", chat.Agent, "", chat.ScopeAgent),
	token("root", chat.User, "", chat.ScopeUser, chat.ScopeAgent, chat.ScopeAdmin),
}

func token(name string, kind chat.ActorKind, workspace string, scopes ...chat.Scope) auth.Token {
	return auth.Token{Token: auth.Secret(servertest.TokenOf(name)), Actor: chat.Actor{Kind: kind, ID: name}, Workspace: workspace, Scopes: scopes, AllWorkspaces: name == "root"}
}

// testServer is a server in the process with the real store, rules and agents.
type testServer struct {
	*servertest.Server
	t       testing.TB
	dialect *Dialect

	prompt, turn, main string // the last ones named in a transcript
}

// clock returns a fixed time, so that stored events are the same in every run.
func clock() time.Time { return time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC) }

// newTestServer starts a server; change may adjust the dialect's options.
func newTestServer(t testing.TB, change func(*Options)) *testServer {
	t.Helper()
	return newTestServerIn(t, nil, change)
}

// newTestServerIn is newTestServer for a node of a cluster; nil means a single server.
func newTestServerIn(t testing.TB, c *servertest.Cluster, change func(*Options)) *testServer {
	t.Helper()
	h := servertest.Open(t, servertest.Options{Tokens: tokens, Now: clock, Cluster: c})
	w := &testServer{Server: h, t: t}
	opt := Options{
		Sessions: h.Sessions, Files: h.Files, Workers: h.Pool, Caller: h.Auth.Caller, Conns: h.Conns,
		Agents: func(ws string) any { return h.Registry.List(ws, h.Runner.Running()) }, Builtin: h.Registry.Builtin, Version: "test", Now: clock,
		Backup: func(_ context.Context, out io.Writer) error { _, err := io.WriteString(out, "a tar"); return err },
		Verify: func(_ context.Context, line func(any) error) error {
			return line(map[string]any{"sessions": 1, "events": 2, "done": true})
		},
		AuditLog: func(_ context.Context, c chat.Caller, q chat.AuditQuery) (chat.AuditPage, error) {
			if !c.Administers(c.In()) {
				return chat.AuditPage{}, chat.Errorf(chat.Denied, "the audit log needs the scope admin")
			}
			e := chat.AuditEntry{
				ID: "2026-11.2", At: chat.AtOf(clock()), Event: "asked", Outcome: chat.AuditDone, Actor: &c.Actor, Workspace: c.In(), Session: q.Session,
				Details: map[string]any{"after": q.After, "before": q.Before, "event": q.Event, "limit": q.Limit, "desc": q.Desc},
			}
			return chat.AuditPage{Entries: []chat.AuditEntry{e}, Last: e.ID}, nil
		},
		Messages: func(ctx context.Context, c chat.Caller, id chat.SessionID, q MessageQuery) (any, error) {
			if _, err := w.Sessions.Get(ctx, c, id); err != nil {
				return nil, err
			}
			return map[string]any{"messages": []any{map[string]any{"asked": q}}, "more": false}, nil
		},
		As: map[string]func(context.Context, chat.Fact) (any, error){
			"shout": func(_ context.Context, f chat.Fact) (any, error) {
				return map[string]any{"shouted": f.Seq}, nil
			},
		},
	}
	if change != nil {
		change(&opt)
	}
	w.dialect = New(opt)
	h.Serve(w.dialect.Routes())
	return w
}

// request makes a request with the token of a user; "" means no token.
func (w *testServer) request(as, method, path string, body io.Reader) *http.Request {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.HTTP.URL+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	if as != "" {
		r.Header.Set("Authorization", "Bearer "+servertest.TokenOf(as))
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// do sends a request with the token of a user and returns the status and the body.
func (w *testServer) do(as, method, path, body string) (int, string) {
	w.t.Helper()
	var header []string
	if as != "" {
		header = []string{"Authorization", "Bearer " + servertest.TokenOf(as)}
	}
	code, got, _ := w.Call(method, path, body, header...)
	return code, got
}

// must is do for a request that succeeds.
func (w *testServer) must(as, method, path, body string) string {
	w.t.Helper()
	code, got := w.do(as, method, path, body)
	if code >= 300 {
		w.t.Fatalf("%s %s: %d %s", method, path, code, got)
	}
	return got
}

func compactBody(b []byte) string { return string(bytes.TrimRight(b, "\n")) }
