package core

import "github.com/parley-hq/parley/chat"

// envelopeBytes is how much of [chat.MaxEvent] is kept for the fields that the server adds to a draft.
const envelopeBytes = 1024

// FitsEvent reports whether a normalized draft is small enough for an event with its envelope.
func FitsEvent(d *chat.Draft) bool {
	return len(d.Payload)+len(d.ClientID)+envelopeBytes <= chat.MaxEvent
}
