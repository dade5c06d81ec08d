// Package x1 implements the message protocol of x1 agents on NATS: an envelope
// {session_id, timestamp, sequence, type, payload} on subjects x1.session.{id}.{kind}.
// Every session of the server can be used this way, whatever dialect created it.
//
// # How one event travels
//
// An x1 sidecar publishes an agent.text on x1.session.s1.events. On the way to the log it passes:
//
//	mapping    the NATS server maps the subject to parley.in.…, which viewers cannot see (subjects.go)
//	inbound    receives it; each session has a queue, which is handled in order (inbound.go)
//	ingest     finds the session, decodes it, drops copies, echoes and repetitions
//	           (ingest.go, replay.go), checks the epoch of the sidecar (epoch.go)
//	Sessions   appends it: the event has its sequence and is durable
//	reply      the sender gets {session_id, sequence, id}, if it gave a reply subject
//
// Then it is published, like every stored event of every dialect:
//
//	Published  package session calls this observer after each commit and preview; the events
//	           are put into the queue of the projector (projector.go)
//	projector  encodes it (encode.go, size.go) and publishes it on events for viewers and on
//	           archive for JetStream, the same bytes, in the order of sequence (publish.go).
//	           The archive confirms each batch. If it does not, if NATS was disconnected or
//	           the queue was full, the missing events are read from the log (repair.go)
//
// User messages and stop requests travel in the other direction: input.go appends what
// comes on input, and sidecars.go publishes user events of all dialects on the input of
// sessions that have a sidecar.
//
// # Other subjects and files
//
//	delta      previews; not stored
//	presence   passed on to the sidecar, and to the other nodes of a cluster (presence.go)
//	history    request and reply: stored events after a sequence (input.go)
//	audit      traffic records of sidecars and providers, stored in sys-audit (trafficlog.go)
//	archive    watermark.go, inspect.go: a start publishes what is missing; erase.go: erasure
//	logins     credential.go issues credentials for one session, login.go checks logins; limit.go
//	HTTP       serve.go
//
// Where a payload has two spellings in x1, both are read and the one of x1's protocol page
// is sent. System sessions (sys-…) are never published.
//
// # Concurrency
//
// Locks are taken in this order: projector.publishing, projector.mu, sidecarSessions.mu.
// Only publishing is held while something is sent: by the loop that publishes the queue, and
// by the goroutines that repair sessions, for one batch each.
//
// The queues of inbound messages are bounded together; more wait at NATS. The queue of events to publish
// is bounded; more are read from the log later. Sessions that are behind are in the list of
// repairs once each.
package x1
