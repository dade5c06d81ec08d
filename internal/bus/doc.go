// Package bus runs a nats-server inside the process, with JetStream in a folder, or
// connects to an external one. It handles subjects and bytes and is independent of x1:
// subject mappings are given as data (Account), permissions by a function (Options.Login).
//
// # Accounts
//
// The server has one main account with JetStream, and further accounts that reach only
// configured parts of it: streams, which are subjects of the main account that they may
// subscribe to, and services, which are subjects that lead into the main account. A
// message through a service has a header that the server writes and clients cannot forge:
// Publisher reads the login name of the sender from it.
//
// # Clusters
//
// With Options.Cluster several servers store the data of JetStream together and pass messages on to each other. Traffic
// between them is encrypted with a key that they share, and has an account that clients cannot log in to. The first start of
// a cluster needs all of its servers; later a majority is enough.
//
// # Concurrency
//
// Start returns when clients can connect. All methods of a Server may be called
// at the same time; Close ends it once and waits for it.
package bus
