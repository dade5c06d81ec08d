// Package natsprovider helps to write x1 providers: services that answer requests on
// x1.provider.{domain}.{op}. A provider in a few lines:
//
//	p := provider.Provider{Domain: "messaging", Ops: map[string]provider.Op{
//		"post": provider.Typed(func(ctx context.Context, c provider.Call, m Post) (Posted, error) { … }),
//	}}
//	err := p.Serve(ctx, conn)
//
// All processes that serve a domain share its requests (a queue group). Answers are
// JSON; an error becomes {"ok":false,"code","message","error":{"code","message"}} with a header that
// says what it would be in HTTP. A domain that nobody serves needs no code: NATS
// tells whoever asks at once.
//
// # Concurrency
//
// Serve answers up to Provider.Parallel requests at the same time, each within
// Provider.Timeout; more wait at NATS. When ctx ends it takes no more requests and
// returns when those under way have been answered.
package natsprovider
