package main

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/agui"
	"github.com/parley-hq/parley/internal/dialect/aisdk"
	"github.com/parley-hq/parley/internal/dialect/letta"
	"github.com/parley-hq/parley/internal/dialect/native"
	"github.com/parley-hq/parley/internal/dialect/nemo"
	"github.com/parley-hq/parley/internal/dialect/vertesia"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/pages"
	"github.com/parley-hq/parley/internal/session"
	"github.com/parley-hq/parley/internal/wire"
)

// dialects are the wire protocols of the server. A new dialect is a folder below internal/dialect, a row here and a constructor.
var dialects = []dialect{
	{"native", (*parley).openNative},
	{"nemo", (*parley).openNemo},
	{"x1", (*parley).openX1},
	{"vertesia", (*parley).openVertesia},
	{"letta", (*parley).openLetta},
	{"agui", (*parley).openAGUI},
	{"aisdk", (*parley).openAISDK},
}

// dialect is the name of a wire protocol and its constructor. The constructor is called once, when all other parts of
// the server exist and nothing runs yet.
type dialect struct {
	name string
	open func(*parley) (endpoint, error)
}

// endpoint is what a dialect adds to the server.
type endpoint struct {
	routes  []wire.Route
	as      eventEncoder                // nil if the dialect does not show single events
	run     func(context.Context) error // runs until its context ends; an error ends the server; may be nil
	receive func(data []byte)           // receives what other nodes sent with broadcastTo; must not block; may be nil
}

// eventEncoder returns an event as a client of the dialect would receive it, for the inspector.
type eventEncoder = func(context.Context, chat.Fact) (any, error)

func (p *parley) openNative() (endpoint, error) {
	var partition func(chat.SessionID) int
	if p.node != nil {
		partition = p.node.Partition
	}
	d := native.New(native.Options{
		Partition: partition,
		As:        p.encoders,
		Audit:     p.reportRequest, AuditLog: p.listAudit,
		Sessions: audited{p.sessions, p}, Files: files{p.artifacts}, Workers: p.workers, Caller: p.auth.Caller, Allow: p.allow, Conns: p.conns,
		Agents: p.listAgents, Builtin: p.agents.Builtin,
		Backup: p.backup, Verify: p.verify, Messages: p.messages, Version: version, MaxBody: p.cfg.MaxBody, MaxArtifact: p.cfg.MaxArtifact, Logger: p.log,
	})
	p.sessions.Observe(session.Observer{Erased: d.Erased})
	return endpoint{routes: d.Routes()}, nil
}

func (p *parley) openNemo() (endpoint, error) {
	var nodes *nemo.Nodes
	if p.node != nil {
		nodes = &nemo.Nodes{Name: p.node.Name(), Broadcast: p.broadcastTo("nemo"), Others: p.node.CountPresent, Least: p.node.OthersOfMajority()}
	}
	d := nemo.New(nemo.Options{
		Nodes:    nodes,
		Sessions: audited{p.sessions, p}, Files: files{p.artifacts}, Caller: p.auth.Caller, Authenticate: p.auth.Authenticate, Bind: p.auth.Context,
		Allow: p.allow, ClientAddress: p.auth.ClientAddress, Conns: p.conns, Agent: p.sessions.DefaultAgent, Tools: p.mcpClients,
		Schema: p.cfg.NemoSchema, Dir: p.cfg.Data, MaxBody: p.cfg.MaxBody, MaxArtifact: p.cfg.MaxArtifact, Logger: p.log,
	})
	return endpoint{routes: d.Routes(), as: d.As, receive: d.Receive}, nil
}

func (p *parley) openVertesia() (endpoint, error) {
	key, err := p.signingKey()
	if err != nil {
		return endpoint{}, err
	}
	p.auth.Sign(key)
	d := vertesia.New(vertesia.Options{
		Sessions: audited{p.sessions, p}, Files: files{p.artifacts}, Caller: p.auth.Caller, Check: p.auth.Check, Bind: p.auth.Context, Issue: p.auth.Issue,
		Allow: p.allow, Conns: p.conns, Secret: key, Agents: p.agentNames, Tools: p.vertesiaTools, TrustedProxy: p.cfg.TrustedProxy,
		MaxBody: p.cfg.MaxBody, MaxArtifact: p.cfg.MaxArtifact, Retention: p.cfg.VertesiaRetention, Logger: p.log,
	})
	return endpoint{routes: d.Routes(), as: d.As, run: d.Run}, nil
}

func (p *parley) openLetta() (endpoint, error) {
	d := letta.New(letta.Options{
		Sessions: audited{p.sessions, p}, Files: files{p.artifacts}, Caller: p.auth.Caller, Conns: p.conns, Agents: p.agentNames, Agent: p.sessions.DefaultAgent,
		OtherNodes: p.node != nil, Models: p.cfg.LettaModel, Post: p.post, Version: version, MaxBody: p.cfg.MaxBody, MaxArtifact: p.cfg.MaxArtifact, Logger: p.log,
	})
	p.sessions.Observe(session.Observer{Erased: d.Erased, Published: d.Published})
	return endpoint{routes: d.Routes(), as: d.As, run: d.Run}, nil
}

// pageOptions are the options of the dialects of web pages.
func (p *parley) pageOptions() pages.Options {
	return pages.Options{
		Sessions: audited{p.sessions, p}, Files: files{p.artifacts}, Caller: p.auth.Caller, Conns: p.conns, Agents: p.agentNames,
		MaxBody: p.cfg.MaxBody, MaxArtifact: p.cfg.MaxArtifact, Logger: p.log,
	}
}

func (p *parley) openAGUI() (endpoint, error) {
	d := agui.New(agui.Options{Options: p.pageOptions(), Agent: p.sessions.DefaultAgent, Version: version})
	return endpoint{routes: d.Routes(), as: d.As}, nil
}

func (p *parley) openAISDK() (endpoint, error) {
	d := aisdk.New(aisdk.Options{
		Options:       p.pageOptions(),
		SocketOptions: aisdk.SocketOptions{Allow: p.allow, Authenticate: p.auth.Authenticate, Bind: p.auth.Context, ClientAddress: p.auth.ClientAddress},
	})
	return endpoint{routes: d.Routes(), as: d.As}, nil
}

// messages lists a session as a model receives it, for the native dialect.
func (p *parley) messages(ctx context.Context, c chat.Caller, id chat.SessionID, q native.MessageQuery) (any, error) {
	return llm.List(ctx, llm.SessionLog{Sessions: p.sessions, Caller: c, ID: id}, llm.Query{
		Options: llm.Options{Workstream: q.Workstream},
		After:   q.After, Before: q.Before, Limit: q.Limit, Desc: q.Desc,
	})
}

// listAgents describes the agents that a workspace can use.
func (p *parley) listAgents(workspace string) any {
	all, usual := p.agents.List(workspace, p.runner.Running()), p.sessions.DefaultAgent()
	for i := range all {
		all[i].Default = all[i].Name == usual
	}
	return all
}

// agentNames lists the agents that a workspace can use.
func (p *parley) agentNames(workspace string) []string {
	var names []string
	for _, info := range p.agents.List(workspace, nil) {
		names = append(names, info.Name)
	}
	return names
}
