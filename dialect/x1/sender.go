package x1

import (
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
)

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
