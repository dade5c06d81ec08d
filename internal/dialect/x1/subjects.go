package x1

import (
	"strings"

	"github.com/parley-hq/parley/chat"
)

// Kind is the last word of a session's subject.
type Kind string

// The kinds. Delta and History are Parley's own; the rest is x1's.
const (
	Events   Kind = "events"   // numbered events, as they are committed
	Archive  Kind = "archive"  // the same, kept by JetStream
	Input    Kind = "input"    // what people say and answer
	Delta    Kind = "delta"    // previews of what is being written
	Presence Kind = "presence" // somebody is looking
	Audit    Kind = "audit"    // what a sidecar did
	History  Kind = "history"  // request/reply: stored events after a sequence
)

// Names of JetStream streams.
const ArchiveStream = "X1_ARCHIVE"

// Subjects outside of sessions.
const (
	AuditAll    = "x1.audit.>"    // providers' audit
	ProviderAll = "x1.provider.>" // requests to providers

	OrchestrationAll = "x1.orchestration.>" // requests of parents about their children
)

// Token is a session id as one token of a subject. Dots are legal in ids and
// separate tokens, so they are written as %2E.
func Token(id chat.SessionID) string { return strings.ReplaceAll(string(id), ".", "%2E") }

// ParseToken reads a token; ok is false when no session can have that id.
func ParseToken(s string) (id chat.SessionID, ok bool) {
	id = chat.SessionID(strings.ReplaceAll(s, "%2E", "."))
	return id, id.Validate() == nil
}

// Subject is x1.session.{id}.{kind}.
func Subject(id chat.SessionID, k Kind) string { return sessionPrefix + Token(id) + "." + string(k) }

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
	id, ok = ParseToken(token)
	return id, Kind(kind), ok
}

// What others publish for a session is led to subjects of ours, by mappings of
// the NATS server, and what we publish is led to x1's. So viewers never see a raw
// copy beside the committed one, and we never read back what we have published.
const (
	rawPrefix   = "parley.in.raw."   // from the main account: nobody is named
	guestPrefix = "parley.in.guest." // from credentials: the server names the publisher
	outPrefix   = "parley.out."      // committed; becomes x1.session.{id}.{kind}
	upPrefix    = "parley.up."       // of the guests' account, on the way to guestPrefix
)

// outgoing is where we publish so that it comes out on the session's subject.
func (d *Dialect) outgoing(id chat.SessionID, k Kind) string {
	if d.opt.External {
		return Subject(id, k)
	}
	return outPrefix + Token(id) + "." + string(k)
}

// GuestAccount is the account of those who come with a credential.
const GuestAccount = "X1"

// Pair leads from one subject to another; $1 is the first * of From.
type Pair struct{ From, To string }

// Layout says what an embedded NATS server must do for the dialect.
type Layout struct {
	Main          []Pair   // mappings of the main account
	GuestMappings []Pair   // mappings of GuestAccount
	GuestServices []Pair   // what leads from there into the main account
	GuestStreams  []string // what of the main account can be followed there
}

// Subjects returns the layout.
func Subjects() Layout {
	var l Layout
	// The server tries them one after the other, so what is published most comes first.
	kinds := []Kind{Archive, Events, Delta, Input}
	for _, k := range kinds {
		l.Main = append(l.Main, Pair{outPrefix + "*." + string(k), sessionPrefix + "$1." + string(k)})
	}
	for _, k := range kinds {
		l.Main = append(l.Main, Pair{sessionPrefix + "*." + string(k), rawPrefix + "$1." + string(k)})
	}
	for _, k := range []Kind{Events, Archive, Input, Delta, Presence, Audit, History} {
		l.GuestMappings = append(l.GuestMappings, Pair{sessionPrefix + "*." + string(k), upPrefix + "$1." + string(k)})
	}
	l.GuestServices = []Pair{{upPrefix + "*.*", guestPrefix + "$1.$2"}, {ProviderAll, ProviderAll}, {AuditAll, AuditAll}, {OrchestrationAll, OrchestrationAll}}
	for _, k := range []Kind{Events, Archive, Input, Delta, Presence} {
		l.GuestStreams = append(l.GuestStreams, sessionPrefix+"*."+string(k))
	}
	return l
}
