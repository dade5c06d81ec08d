package x1

import (
	"bytes"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
)

// Clients of a node exchange presence messages over its NATS server. They are not stored, so the other nodes get them by Options.Spread: a
// sidecar hears of people at all nodes, and of another sidecar of its session.

// spread sends a presence message of a client of this node to the other nodes. The dialect does not receive what it publishes itself, so a
// message of another node is not sent back.
func (d *Dialect) spread(a *incoming) {
	if d.opt.Spread != nil {
		d.opt.Spread(append([]byte(a.id+"\n"), a.msg.Data...))
	}
}

// HeardPresence takes a presence message of a client of another node. It does not block.
func (d *Dialect) HeardPresence(data []byte) {
	id, data, ok := bytes.Cut(data, []byte("\n"))
	d.inbound.mu.Lock()
	conn := d.inbound.conn
	d.inbound.mu.Unlock()
	if !ok || conn == nil || chat.SessionID(id).Validate() != nil {
		return
	}
	m := &nats.Msg{Subject: Subject(chat.SessionID(id), Presence), Data: data}
	if err := conn.PublishMsg(m); err != nil {
		d.log.Debug("a presence message of another node could not be sent on NATS", "err", err)
	}
}
