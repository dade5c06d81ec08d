// Package client speaks to a Parley server over its native dialect.
//
// A Client creates sessions, appends to them, follows them live and answers
// what agents ask. Work turns the process into an agent: it connects, claims
// turns of an agent name and answers them.
//
// # What survives
//
// Watch resumes by itself from the last cursor after any cut of the connection:
// the events and pieces it hands out are those of one unbroken stream, none lost
// and none doubled. Say, Send and Answer carry an idempotency key, so they are
// repeated after a lost answer without saying anything twice. A worker that
// loses its connection keeps its turns and goes on when it is back.
//
// # Concurrency
//
// A Client may be used by any number of goroutines. It starts none of its own
// except inside Work, which returns only when all it started has
// ended. An iterator belongs to the goroutine that ranges over it. Every call
// ends when its context does.
//
// # Errors
//
// What the server refuses comes back as a *chat.Error with the server's code and
// text. A server that cannot be reached is chat.Unavailable and wraps
// ErrUnreachable.
package client
