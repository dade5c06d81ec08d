package nemo

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/parley-hq/parley/internal/wire"
)

// The protocol has no acknowledgements, so WebSocket's own serve: a ping is
// answered by the client when it has read what came before it. What was answered
// is noted at once, and noted is what a client goes on from, whatever happened to
// its connection or to the server. So nothing is lost, and what comes twice is at
// most what was sent and not yet answered for.
//
// A short flush is read in one go. There the ping stands in front: a client that
// ends while it handles a frame has then answered for that frame.

// smallWrite is the size up to which a flush travels as one and is read together.
const smallWrite = 1200

// pingSize is that of a ping as ping writes it.
const pingSize = 10

// maxPings bounds the pings whose answers are waited for.
const maxPings = 512

// delivery is how far a conversation has got on its way to a client.
type delivery struct {
	unanswered   []sentPing // under way, in order
	written      position   // what was sent
	acknowledged position   // what is known to have arrived
	acks         []ack      // what arrived lately, oldest first
	beforeAcks   position   // where it stood before them
	handedOver   bool       // the place was given to the desk
}

// sentPing is a position that counts as arrived when a ping is answered.
type sentPing struct {
	ping uint64
	at   position
	sent time.Time
}

// appendUnit appends frames that belong together, and a ping: in front where all of it
// is read in one go, else one for what is before them.
func (t *subscription) appendUnit(out []byte, items []item) []byte {
	t.body = t.body[:0]
	for i := range items {
		t.body = t.appendFrame(t.body, &items[i])
	}
	if len(t.body) == 0 {
		return out
	}
	at := t.positionAt(items[len(items)-1].pos)
	switch {
	case len(out)+pingSize+len(t.body) <= smallWrite:
		out = t.appendPing(out, at)
	case len(out) > 0:
		out = t.appendPing(out, t.lastPosition)
	}
	t.lastPosition = at
	return append(out, t.body...)
}

// appendPing appends a ping whose answer tells that a place was reached.
func (t *subscription) appendPing(out []byte, at position) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.unanswered) >= maxPings {
		if !t.s.ignoresPings() {
			return out // a later one will do
		}
		t.unanswered = t.unanswered[:0] // nobody answers
	}
	n := t.s.pingCount.Add(1)
	t.unanswered = append(t.unanswered, sentPing{n, at, t.s.d.opt.Now()})
	return wire.AppendPingFrame(out, binary.BigEndian.AppendUint64(nil, n))
}

// flush sends what there is, and a ping behind it.
func (t *subscription) flush(ctx context.Context, out []byte) error {
	at := t.positionAt(t.fold.position())
	if len(out) == 0 {
		t.mu.Lock()
		t.written = at
		if len(t.unanswered) == 0 {
			t.acknowledged = at
		}
		t.mu.Unlock()
		return nil
	}
	out = t.appendPing(out, at)
	if err := t.s.conn.Write(ctx, out); err != nil {
		return err
	}
	t.mu.Lock()
	t.written, t.lastUsed = at, t.s.d.opt.Now()
	t.mu.Unlock()
	if t.s.ignoresPings() {
		t.s.d.points.save(t, at) // nobody answers: what was sent has to do
	}
	return nil
}

// pong is called when a ping was answered.
func (t *subscription) pong(ping uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Only a ping of its own tells something: one of another conversation, or the
	// heartbeat's, may have a higher number and have been sent earlier.
	n := slices.IndexFunc(t.unanswered, func(m sentPing) bool { return m.ping == ping }) + 1
	if n == 0 || t.handedOver {
		return
	}
	last := t.unanswered[n-1]
	t.unanswered = slices.Delete(t.unanswered, 0, n)
	if t.s.isBrowser {
		t.noteAck(last, t.s.d.opt.Now())
	}
	if !last.at.equal(t.acknowledged) {
		t.acknowledged = last.at
		t.s.d.points.save(t, last.at)
	}
}

// finalPosition is where the client stands when its socket has ended. A client that took
// its leave of a server that ends has all that was sent; otherwise what was
// answered counts, if the client answers at all.
func (t *subscription) finalPosition(ctx context.Context) position {
	shutdown := errors.Is(context.Cause(ctx), wire.ErrShutdown)
	if shutdown {
		<-t.s.readEnded
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handedOver = true
	if t.s.ignoresPings() || shutdown && t.s.closedInOrder {
		return t.written
	}
	if !t.s.isBrowser || departureReason(ctx) == connectionLost {
		// Whoever answered is still there, and has all that it answered for.
		return t.acknowledged
	}
	<-t.s.readEnded // the read loop has met its end, and tells when
	return t.beforeUnload(t.s.readEndedAt)
}
