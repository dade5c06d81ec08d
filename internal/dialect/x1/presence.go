package x1

import (
	"bytes"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
)

// Clients of a node exchange presence messages over its NATS server. They are not stored, so the other nodes get them by Options.Broadcast: a
// sidecar learns of people at all nodes, and of another sidecar of its session.

// broadcast sends a presence message of a client of this node to the other nodes. The dialect does not receive what it publishes itself, so a
// message of another node is not sent back.
func (d *Dialect) broadcast(a *incoming) {
	if d.opt.Broadcast != nil {
		d.opt.Broadcast(append([]byte(a.id+"\n"), a.msg.Data...))
	}
}

// ReceivePresence takes a presence message of a client of another node. It does not block.
func (d *Dialect) ReceivePresence(data []byte) {
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
