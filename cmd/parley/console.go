package main

import (
	"context"
	"maps"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/proxy"
	"github.com/parley-hq/parley/internal/server"
	"github.com/parley-hq/parley/internal/wire"
	"github.com/parley-hq/parley/web"
)

// spoken are the dialects in whose words an event can be shown, by name.
type spoken map[string]func(context.Context, chat.Fact) (any, error)

// console mounts the web pages and what they need of the server: the frame for
// other pages, pages that agents made, and images from elsewhere.
func (p *parley) console(as spoken) {
	opt := web.Options{Dialects: slices.Sorted(maps.Keys(as)), Images: true, Frames: p.cfg.AllowOrigin, Trace: p.cfg.TraceURL}
	if p.auth.Open() {
		// The same pages that may call an open server.
		opt.Frames = append([]string{"http://127.0.0.1:*", "http://localhost:*"}, opt.Frames...)
	}
	pages := web.Handler(opt)
	for _, pattern := range web.Patterns {
		p.server.Handle(wire.Route{Pattern: pattern, Public: true, Handler: pages})
	}
	p.server.Handle(wire.Route{Pattern: web.PagePattern, Handler: web.Page(p.server.Handler())})
	p.images = proxy.New(proxy.Options{Transport: auth.SafeTransport(), Fail: server.WriteError})
	p.server.Handle(wire.Route{Pattern: proxy.Pattern, Handler: p.images})
}
