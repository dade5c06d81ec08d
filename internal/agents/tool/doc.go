// Package tool has the tools of agents: built-in tools, tools of MCP servers, and the rules that say which calls need a
// person's approval.
//
// A Tool is executed with a Call. The Call has its own part of the turn; the tool asks and reports through it. A Server is
// one MCP server, over the input and output of a process or over HTTP. It connects when it is first used, and again after
// the connection broke. Health returns its state.
//
// Tools and a Server may be used by any number of turns at once. Server.Close does not wait: running calls end with an
// error.
package tool
