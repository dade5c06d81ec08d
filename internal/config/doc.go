// Package config reads parley.yaml: which agents a server has. What all agents
// have in common is read here; what only one kind of agent knows is read by who
// makes agents of that kind, with Decode. Every complaint names file, line and
// field.
//
// Secrets do not stand in the file: it names environment variables or files, and
// Secret reads them when they are needed.
//
// A File is not changed once it was read and may be used from any goroutine.
package config
