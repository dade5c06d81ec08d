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
// Reads are served from this node's copy. Before a node says that it does not have a session, an event or a file, it makes sure that
// it has what the owner has; see catchup.go.
//
// Changes that need no rules are sent as they are: aliases, imports and sizes of files. Equal copies accept and refuse the
// same of them.
//
// Text that is being written does not go through the log. The owner sends it to all nodes, where it is shown in the order of
// the log; see preview.go. A majority has stored it before the owner shows it, and a new owner gets what others have of it before it
// decides anything; see preview_stored.go and gather.go.
//
// # Locks
//
// A lock is taken before those below it:
//
//	part.purging     held while the log of a partition is purged, and writes of it wait
//	part.showMu      held while a frame is applied, or previews are stored, until readers have them
//	part.showOwnMu   held for writing while a frame of another owner is applied, for reading while the owner shows previews
//	Files.removing   by blob: held while it is checked whether bytes are removed
//	part.mu          what is known of a partition; before the locks of cluster.Replica
//
// unstoredTexts.mu is taken inside of previewOrder.mu. sharedQuestion.mu, Files.mu, diskBlobs.mu, Node.mu, Node.clockMu, outgoing.mu and NATS.mu come
// last: they protect fields, and nothing that takes a lock is called while one of them is held. The journal, the hub and the session rules are called with part.showMu and
// Files.removing, not with part.mu.
package node
