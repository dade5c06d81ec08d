// Package tool is what agents can use: tools that are built in, tools of MCP
// servers, and the rules that say which calls need a person's approval.
//
// A Tool is run with a Call, which carries a part of the turn of its own; what a
// tool asks or shows goes through that part. A Server is one MCP server, reached
// over a process's input and output or over HTTP. It connects when it is first
// needed, again when the connection broke, and tells how it is.
//
// Tools and a Server may be used by any number of turns at once. Values are not
// changed once they are made. Server.Close waits for nobody: calls under way end
// with an error.
package tool
