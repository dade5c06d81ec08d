// Package auth turns a request into a [chat.Caller] and refuses requests that web pages
// of other sites cause.
//
// # Types
//
// [Auth] authenticates: [Auth.Identify] and [Auth.Caller] for requests,
// [Auth.Authenticate] for tokens in messages. [Options] configures it with static
// tokens ([Token]), JWTs ([JWT]), hosts and origins. [Auth.Context] returns a context
// that ends with a credential. [Auth.Issue] exchanges a key for a short-lived token,
// [Auth.Handler] signs browsers in and out with a cookie. [Auth.Allow] is the rate limit
// per actor. [SafeClient] fetches addresses that users supply.
//
// # Modes
//
// In open mode no token and no key is configured: every request has the caller [Local]
// with all scopes, and the server listens on loopback only
// ([RefuseOpenBeyondLoopback]). Otherwise a request needs a static token, a JWT, or the
// cookie that one of these was exchanged for.
//
// # Invariants
//
// What is made from a credential (a cookie, an issued token, a connection) ends with it:
// when it expires, when its token is removed ([Auth.SetTokens]) or when its browser is
// signed out. Secrets are compared as hashes in constant time and never logged. Wrong
// credentials are limited per address; a valid one is always accepted.
//
// The rules against web pages hold in both modes, because a browser on the same machine
// reaches loopback too: the Host must be one of the configured ones (DNS rebinding), an
// Origin must be allowed (cross-site requests and WebSockets), and requests that change
// something may not have a content type that an HTML form can send. They are functions
// of the request; package server calls them in order and writes the answers.
//
// # Concurrency
//
// Everything here may be used by several goroutines at once. No goroutine is started:
// keys from a JWKS address are fetched when they are needed, under a lock and with a
// time limit.
package auth
