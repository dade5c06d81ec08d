// Package auth turns a request into a [chat.Caller] and keeps strangers' web
// pages out.
//
// There are two modes. Open: no token and no key is configured; everybody who
// reaches the server is the user "local" with all scopes, which is why the
// server only listens on loopback then. Otherwise a request needs a static
// token, a JWT, or the cookie that one of these was exchanged for.
//
// The rules against web pages hold in both modes, because a browser on the same
// machine reaches loopback too: the Host must be one of ours (DNS rebinding),
// an Origin must be allowed (cross-site requests and WebSockets), and requests
// that change something may not have a content type that a plain HTML form can
// send. They are plain functions of the request; package server puts them in
// order and answers.
//
// Everything here may be used by several goroutines at once. Nothing is started
// in the background: keys from a JWKS address are fetched when they are needed,
// under a lock and with a time limit.
package auth
