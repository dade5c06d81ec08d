// Package parley is the root of the module; it holds no code. Parley keeps
// every conversation between agents and people as a durable log and lets any
// client follow it live, resume it where it stopped and answer what the agent
// asks, in any of several wire dialects.
//
// Start with package chat (what can happen), cmd/parley (what is plugged into
// what) and any package below dialect (how a byte gets in and out). Which folder
// may import which is written down, and checked, in imports_test.go.
package parley
