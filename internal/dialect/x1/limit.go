package x1

import (
	"context"
	"math/rand/v2"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/bus"
)

// lightMessages is how many deltas count as one request.
const lightMessages = 50

// withinLimit counts adjacent messages of one session and kind towards the sender's
// limit. It refuses the first one over the limit and all after it, so that the order
// is kept. An agent sends a delta for every few words, so one in lightMessages counts.
func (d *Dialect) withinLimit(ctx context.Context, run []incoming) []incoming {
	if !run[0].guest {
		return run
	}
	for i := range run {
		if run[i].kind == Delta && rand.IntN(lightMessages) > 0 {
			continue
		}
		err := d.Allowed(run[i].msg.Header)
		if err == nil {
			continue
		}
		for j := range run[i:] {
			d.refuse(ctx, &run[i+j], err)
		}
		return run[:i]
	}
	return run
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
