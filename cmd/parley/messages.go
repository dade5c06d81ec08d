package main

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/native"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/session"
)

// messages gives the native dialect a session as a model sees it.
func (p *parley) messages(ctx context.Context, c chat.Caller, id chat.SessionID, q native.MessageQuery) (any, error) {
	return llm.List(ctx, sessionLog{p.sessions, c, id}, llm.Query{
		Options: llm.Options{Workstream: q.Workstream},
		After:   q.After, Before: q.Before, Limit: q.Limit, Desc: q.Desc,
	})
}

// sessionLog is one session as llm.List reads it, with the rights of a caller.
type sessionLog struct {
	sessions *session.Sessions
	caller   chat.Caller
	id       chat.SessionID
}

// Read returns stored events.
func (l sessionLog) Read(ctx context.Context, r chat.Range) ([]chat.Fact, bool, error) {
	return l.sessions.Read(ctx, l.caller, l.id, r)
}

// State returns the session's state.
func (l sessionLog) State(ctx context.Context) (*chat.State, error) {
	return l.sessions.State(ctx, l.caller, l.id)
}
