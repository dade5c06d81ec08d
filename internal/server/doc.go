// Package server is the HTTP server for all dialects: one port, HTTP/1.1 and HTTP/2 with
// and without TLS, the rules for every request, health, metrics and shutdown.
//
// # Types
//
// [Options] configures a [Server]; [New] checks them. [Server.Handle] adds a [Route] of
// a dialect, [Server.Run] listens and serves. [WriteError] answers with an error in the
// native form.
//
// # A request
//
// A request passes, in this order: recovery from panics, the log and metrics, the host
// rule, the origin rule, the path rule and CORS; then, per route, the content type rule,
// authentication, the rate limit, the rule for deliberate requests and the body limit.
// Each rule is a function of package auth; this package calls them in order and writes
// the answers. A rule that refuses is counted in parley_http_refused_total. The request
// and every stream that it opens end when the credential of the caller ends.
//
// # Shutdown
//
// When the context of Run ends, the server stops accepting, ends the contexts of open
// streams with the cause wire.ErrShutdown, and waits for handlers up to Options.Grace.
// Then it closes what is left. /readyz answers 503 from the beginning of the shutdown.
//
// # Concurrency
//
// A [Server] is set up by one goroutine ([New], then [Server.Handle] for each route) and
// then run once. Handlers run at the same time. [Server.Run] returns when everything it
// started has ended.
package server
