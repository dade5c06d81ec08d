// Package bus is NATS for the rest of the program: a nats-server inside the
// process, with JetStream in a folder, or a connection to one that runs
// elsewhere. It knows subjects and bytes, and nothing of events; who speaks what
// on which subject is told to it as data (Account) and as a function (Options.Login).
//
// # Accounts
//
// The server has one main account, in which JetStream lives, and any number of
// further ones that see of it only what is named: streams of the main account
// that may be followed, and services, subjects that lead into the main account.
// What comes in by a service carries a header that the server writes and nobody
// can forge: Publisher reads from it under which name the publisher logged in.
//
// # Concurrency
//
// Start returns when clients can connect. All methods of a Server may be called
// at the same time; Close ends it once and waits for it.
package bus
