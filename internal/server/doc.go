// Package server is the HTTP server under all dialects: one port, HTTP/1.1 and
// HTTP/2 with and without TLS, the rules that hold for every request, health,
// metrics and an orderly end.
//
// A request passes, in this order: recovery from panics, the log, the host rule,
// the origin rule and CORS, then, per route, the content type rule,
// authentication, the rate limit and the body limit. Each rule is a function of
// package auth; this package orders them and writes the answers.
//
// A [Server] is set up by one goroutine ([New], then [Server.Handle] for each
// route) and then run once. Handlers run at the same time, as always with
// net/http. [Server.Run] returns when everything it started has ended.
package server
