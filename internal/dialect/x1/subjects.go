package x1

import (
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/bus"
)

// Kind is the last word of a session's subject.
type Kind string

// The kinds. Delta and History are Parley's own; the rest is x1's.
const (
	Events   Kind = "events"   // numbered events, as they are committed
	Archive  Kind = "archive"  // the same, kept by JetStream
	Input    Kind = "input"    // user messages and answers
	Delta    Kind = "delta"    // previews of what is being written
	Presence Kind = "presence" // a person is viewing the session
	Traffic  Kind = "audit"    // requests that a sidecar handled
	History  Kind = "history"  // request/reply: stored events after a sequence
)

// ArchiveStream is the name of the JetStream stream.
const ArchiveStream = "X1_ARCHIVE"

// Subjects outside of sessions.
const (
	TrafficAll  = "x1.audit.>"    // requests that providers handled
	ProviderAll = "x1.provider.>" // requests to providers

	OrchestrationAll = "x1.orchestration.>" // requests about child sessions
)

// subjectToken is a session id as one token of a subject. Dots are legal in ids and
// separate tokens, so they are written as %2E.
func subjectToken(id chat.SessionID) string { return strings.ReplaceAll(string(id), ".", "%2E") }

// parseSubjectToken reads a token; ok is false when no session can have that id.
func parseSubjectToken(s string) (id chat.SessionID, ok bool) {
	id = chat.SessionID(strings.ReplaceAll(s, "%2E", "."))
	return id, id.Validate() == nil
}

// Subject is x1.session.{id}.{kind}.
func Subject(id chat.SessionID, k Kind) string {
	return sessionPrefix + subjectToken(id) + "." + string(k)
}

const sessionPrefix = "x1.session."

// ParseSubject reads x1.session.{id}.{kind}.
func ParseSubject(s string) (id chat.SessionID, k Kind, ok bool) {
	rest, ok := strings.CutPrefix(s, sessionPrefix)
	if !ok {
		return "", "", false
	}
	return parseTail(rest)
}

func parseTail(s string) (id chat.SessionID, k Kind, ok bool) {
	token, kind, ok := strings.Cut(s, ".")
	if !ok || strings.Contains(kind, ".") {
		return "", "", false
	}
	id, ok = parseSubjectToken(token)
	return id, Kind(kind), ok
}

// Mappings of the NATS server lead what clients publish for a session to subjects that
// only the dialect reads, and what the dialect publishes to x1's subjects. So viewers
// see committed events only, and the dialect never receives its own messages.
const (
	rawPrefix   = "parley.in.raw."   // from the main account: the sender is not verified
	guestPrefix = "parley.in.guest." // from credentials: NATS adds the verified sender
	outPrefix   = "parley.out."      // committed; mapped to x1.session.{id}.{kind}
	upPrefix    = "parley.up."       // in the guest account; leads to guestPrefix
)

// outgoing is the subject to publish on, so that clients receive it on the session's subject.
func (d *Dialect) outgoing(id chat.SessionID, k Kind) string {
	if d.opt.External {
		return Subject(id, k)
	}
	return outPrefix + subjectToken(id) + "." + string(k)
}

// guestAccount is the account of clients with a credential.
const guestAccount = "X1"

// Accounts returns the accounts that an embedded NATS server needs for the dialect.
func Accounts() (main, guests bus.Account) {
	guests.Name = guestAccount
	// The server tries mappings in order, so the most frequent come first.
	kinds := []Kind{Archive, Events, Delta, Input}
	for _, k := range kinds {
		main.Mappings = append(main.Mappings, bus.Pair{From: outPrefix + "*." + string(k), To: sessionPrefix + "$1." + string(k)})
	}
	for _, k := range kinds {
		main.Mappings = append(main.Mappings, bus.Pair{From: sessionPrefix + "*." + string(k), To: rawPrefix + "$1." + string(k)})
	}
	for _, k := range []Kind{Events, Archive, Input, Delta, Presence, Traffic, History} {
		guests.Mappings = append(guests.Mappings, bus.Pair{From: sessionPrefix + "*." + string(k), To: upPrefix + "$1." + string(k)})
	}
	guests.Services = []bus.Pair{{From: upPrefix + "*.*", To: guestPrefix + "$1.$2"}}
	for _, all := range []string{ProviderAll, TrafficAll, OrchestrationAll} {
		guests.Services = append(guests.Services, bus.Pair{From: all, To: all})
	}
	for _, k := range []Kind{Events, Archive, Input, Delta, Presence} {
		guests.Streams = append(guests.Streams, sessionPrefix+"*."+string(k))
	}
	return main, guests
}
