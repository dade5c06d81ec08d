// Package natsprovider is the toolkit for x1 providers: services that answer requests on
// x1.provider.{domain}.{op}. A provider in a few lines:
//
//	p := natsprovider.Provider{Domain: "messaging", Ops: map[string]natsprovider.Op{
//		"post": natsprovider.Typed(func(ctx context.Context, c natsprovider.Call, m Post) (Posted, error) { … }),
//	}}
//	err := p.Serve(ctx, conn)
//
// All processes that serve a domain share its requests (a queue group). Answers are
// JSON; an error becomes {"ok":false,"code","message","error":{"code","message"}} with the
// HTTP status in a header. For a domain without a provider NATS answers at once.
//
// # Concurrency
//
// Serve answers up to Provider.Parallel requests at the same time, each within
// Provider.Timeout; others wait. When ctx ends it takes no more requests and returns when
// the running ones are answered.
package natsprovider
