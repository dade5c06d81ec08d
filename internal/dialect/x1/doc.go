// Package x1 speaks the message protocol of x1 agents on NATS: an envelope
// {session_id, timestamp, sequence, type, payload} on subjects
// x1.session.{id}.{kind}. The protocol is the "message protocol" page of the
// public x1 agent project. Every session of the server is there, whatever dialect
// it began in.
//
// # From NATS to the log
//
//	input      user.message, user.input_response and the other user types become facts; via "x1"
//	           client_id in the body, else Nats-Msg-Id: the idempotency key
//	           expires_at: dropped when it is over; session_id: must be that of the subject
//	           user.input_response also answers approvals and permissions, with yes or no
//	           turn.stop_requested stops what the session's agent does
//	events,    what a session's own publisher says; a session that has one is marked as attended
//	archive    with client_id: taken at its word; without: an old sidecar, see replayFilter
//	           session.started becomes x1.session.started, because the server has said that already
//	           an echo of what people said, and a repetition, become nothing
//	delta      a preview
//	presence   passed on to the sidecar
//	audit,     audit.recorded in the session sys-audit
//	x1.audit.>
//	history    request/reply: stored events after a sequence
//
// # From the log to NATS
//
//	every event           events (core) and archive (JetStream), the same bytes, after the commit
//	previews              delta
//	what people said,     input, for attended sessions only, with the header Parley-Sequence
//	turn.stop_requested
//	a permission decision input, as the synthetic user.message that x1's agents expect
//	sessions sys-…        nothing: they are the server's own books
//
// Where a payload has two spellings, both are read and the page's is sent.
//
// # Who may do what
//
// What others publish on events, archive, input and delta is led by mappings of
// the NATS server to subjects of ours, and what we publish to x1's. So viewers see
// committed events only, and we never read back our own. Holders of credentials
// live in an account without JetStream; the server vouches for their name.
//
// A publisher may fence itself: see AttachedType.
//
// We do not speak: image builds, previews of web pages, orchestration; providers
// do (folder provider).
//
// # Concurrency and order
//
// Messages of one session are handled in the order in which they came, by one of a
// few goroutines. Events go out in the order of their numbers, behind the commit
// and never in its way. What does not get out is read from the log later: the
// archive ends complete, each event once, whenever NATS or the server dies. Core
// subscribers may miss messages, as always with NATS; the gap shows in sequence
// and is filled by history or archive.
//
// Locks are taken in this order: lane.mend, acks.mu, projector.mu, attended.mu.
// None but mend is held while something is read or appended.
package x1
