// Package client calls a Parley server over its native dialect.
//
// A Client creates sessions, appends to them, follows them live and answers prompts. Work makes the process a worker: it
// connects, takes the turns of an agent name and has them answered by an agent.Agent.
//
// # Lost connections
//
// Watch resumes from its cursor after every loss of the connection: no event and no piece is lost or repeated. Say, Send
// and Answer carry an idempotency key, so they are repeated after a lost response without a second effect. A worker that
// loses its connection keeps its turns and continues them when it is connected again.
//
// # Concurrency
//
// A Client may be used by any number of goroutines. It starts none of its own except in Work, which waits for them. An
// iterator belongs to the goroutine that ranges over it. Every call ends when its context does.
//
// # Errors
//
// An error of the server is a *chat.Error with the server's code and text. If the server cannot be reached, the error is
// chat.Unavailable and wraps ErrUnreachable.
package client
