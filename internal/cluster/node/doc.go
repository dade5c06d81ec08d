// Package node makes a server one of several that keep the same sessions.
//
// A [Node] connects the parts: a replica of each partition (package cluster), the journal that stores what the replicas
// apply, the hub that shows it to readers, and the session rules. [Journal] is the journal as the rules see it: commits
// and other changes go through the log of the partition and return when this node has applied them.
//
// The owner of a partition decides the events of its sessions. Calls for a session that another node owns are sent to that
// node ([Node.Send]). The answer has the owner's position in the log, and the caller gets it when its own node has applied that
// position: a client reads what it wrote from the node it talks to.
//
// Changes that need no rules are sent as they are: aliases, imports and sizes of files. Equal copies accept and refuse the
// same of them.
//
// Text that is being written does not go through the log. The owner sends it to all nodes, where it is shown in the order of
// the log; see preview.go.
package node
