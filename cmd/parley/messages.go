package main

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/native"
	"github.com/parley-hq/parley/internal/llm"
)

// messages gives the native dialect a session as a model sees it.
func (p *parley) messages(ctx context.Context, c chat.Caller, id chat.SessionID, q native.MessageQuery) (any, error) {
	return llm.List(ctx, llm.SessionLog{Sessions: p.sessions, Caller: c, ID: id}, llm.Query{
		Options: llm.Options{Workstream: q.Workstream},
		After:   q.After, Before: q.Before, Limit: q.Limit, Desc: q.Desc,
	})
}
