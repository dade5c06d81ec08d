// Package parley is the root of the module and has no code. Parley stores every
// conversation between agents and people as a durable log. Clients of several
// wire protocols follow it live, resume it at a cursor and answer the prompts of
// agents.
//
// Start with package chat (the events), cmd/parley (how the parts are connected)
// and internal/dialect/native (how a request becomes events). imports_test.go
// checks which folder may import which.
package parley
