package x1

import (
	"math/rand/v2"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/bus"
)

// lightMessages is how many deltas count as one request.
const lightMessages = 50

// withinLimit counts a message towards the sender's limit. An agent sends a delta for every
// few words, so one in lightMessages counts.
func (d *Dialect) withinLimit(a *incoming) error {
	if !a.guest || a.kind == Delta && rand.IntN(lightMessages) > 0 {
		return nil
	}
	return d.Allowed(a.msg.Header)
}

// Allowed counts a request towards the limit of its sender. Senders without a credential
// for a session are administrators and have no limit.
func (d *Dialect) Allowed(h nats.Header) error {
	name, ok := bus.Publisher(h)
	if !ok || !strings.HasPrefix(name, credentialPrefix) {
		return nil
	}
	who, err := d.keys.claims(name)
	if err != nil {
		return err
	}
	return d.opt.Allow(who.caller(), 1)
}

// Sender returns the session that the sender's credential is for; known is false for a
// sender without one. NATS has verified it.
func (d *Dialect) Sender(h nats.Header) (session chat.SessionID, known bool) {
	name, ok := bus.Publisher(h)
	if !ok || !strings.HasPrefix(name, credentialPrefix) {
		return "", false
	}
	who, err := d.keys.claims(name)
	return who.Session, err == nil
}
