package x1

import (
	"context"
	"math/rand/v2"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
)

// lightMessages is how many pieces of text count as one request.
const lightMessages = 50

// counted counts neighbours of one session and kind towards the sender's limit,
// and refuses those that are over it, and all behind them: they keep their order.
// An agent sends a piece of text for every few words, so about one in fifty of
// these is counted.
func (d *Dialect) counted(ctx context.Context, run []arrival) []arrival {
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

// Allowed counts a request of a sender towards its limit. Those who come without a
// credential for a session are administrators, who speak for many others.
func (d *Dialect) Allowed(h nats.Header) error {
	name, ok := d.opt.Signed(h)
	if !ok || !strings.HasPrefix(name, credentialPrefix) {
		return nil
	}
	who, err := d.keys.holder(name)
	if err != nil {
		return err
	}
	return d.opt.Allow(who.caller(), 1)
}

// Sender tells for which session the sender of a request has a credential. known
// is false for those who come without one; NATS vouches for the rest.
func (d *Dialect) Sender(h nats.Header) (session chat.SessionID, known bool) {
	name, ok := d.opt.Signed(h)
	if !ok || !strings.HasPrefix(name, credentialPrefix) {
		return "", false
	}
	who, err := d.keys.holder(name)
	return who.Session, err == nil
}
