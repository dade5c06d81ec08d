package main

import (
	"maps"
	"slices"

	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/proxy"
	"github.com/parley-hq/parley/internal/server"
	"github.com/parley-hq/parley/internal/wire"
	"github.com/parley-hq/parley/web"
)

// mountConsole adds the web pages and their routes: the embedded frame, pages that agents made, and images of other sites.
func (p *parley) mountConsole() {
	opt := web.Options{Dialects: slices.Sorted(maps.Keys(p.encoders)), Images: true, Frames: p.cfg.AllowOrigin, Trace: p.cfg.TraceURL}
	if p.auth.Open() {
		// The pages that may call an open server may also embed it.
		opt.Frames = append([]string{"http://127.0.0.1:*", "http://localhost:*"}, opt.Frames...)
	}
	pages := web.Handler(opt)
	for _, pattern := range web.Patterns {
		p.server.Handle(wire.Route{Pattern: pattern, Public: true, Handler: pages})
	}
	p.server.NotFound(pages)
	p.server.Handle(wire.Route{Pattern: web.PagePattern, Handler: web.Page(p.server.Handler())})
	p.images = proxy.New(proxy.Options{Transport: auth.SafeTransport(), Fail: server.WriteError})
	p.server.Handle(wire.Route{Pattern: proxy.Pattern, Handler: p.images})
}
