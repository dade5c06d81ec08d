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

// small is the size up to which a flush travels as one and is read together.
const small = 1200

// pingSize is that of a ping as ping writes it.
const pingSize = 10

// maxPings bounds the pings whose answers are waited for.
const maxPings = 512

// delivery is how far a conversation has got on its way to a client.
type delivery struct {
	pings   []mark // under way, in order
	written place  // what was sent
	arrived place  // what is known to have arrived
	acks    []ack  // what arrived lately, oldest first
	older   place  // where it stood before them
	handed  bool   // the place was given to the desk
}

// mark is a position that counts as arrived when a ping is answered.
type mark struct {
	ping uint64
	at   place
	sent time.Time
}

// unit appends frames that belong together, and a ping: in front where all of it
// is read in one go, else one for what is before them.
func (t *thread) unit(out []byte, items []item) []byte {
	t.body = t.body[:0]
	for i := range items {
		t.body = t.frame(t.body, &items[i])
	}
	if len(t.body) == 0 {
		return out
	}
	at := t.place(items[len(items)-1].pos)
	switch {
	case len(out)+pingSize+len(t.body) <= small:
		out = t.ping(out, at)
	case len(out) > 0:
		out = t.ping(out, t.before)
	}
	t.before = at
	return append(out, t.body...)
}

// ping appends a ping whose answer tells that a place was reached.
func (t *thread) ping(out []byte, at place) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pings) >= maxPings {
		if !t.s.deaf() {
			return out // a later one will do
		}
		t.pings = t.pings[:0] // nobody answers
	}
	n := t.s.pings.Add(1)
	t.pings = append(t.pings, mark{n, at, t.s.d.opt.Now()})
	return wire.AppendPingFrame(out, binary.BigEndian.AppendUint64(nil, n))
}

// flush sends what there is, and a ping behind it.
func (t *thread) flush(ctx context.Context, out []byte) error {
	at := t.place(t.feed.here())
	if len(out) == 0 {
		t.mu.Lock()
		t.written = at
		if len(t.pings) == 0 {
			t.arrived = at
		}
		t.mu.Unlock()
		return nil
	}
	out = t.ping(out, at)
	if err := t.s.conn.Write(ctx, out); err != nil {
		return err
	}
	t.mu.Lock()
	t.written, t.used = at, t.s.d.opt.Now()
	t.mu.Unlock()
	if t.s.deaf() {
		t.s.d.desk.note(t, at) // nobody answers: what was sent has to do
	}
	return nil
}

// pong is called when a ping was answered.
func (t *thread) pong(ping uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Only a ping of its own tells something: one of another conversation, or the
	// heartbeat's, may have a higher number and have been sent earlier.
	n := slices.IndexFunc(t.pings, func(m mark) bool { return m.ping == ping }) + 1
	if n == 0 || t.handed {
		return
	}
	last := t.pings[n-1]
	t.pings = slices.Delete(t.pings, 0, n)
	if t.s.page {
		t.acked(last, t.s.d.opt.Now())
	}
	if !last.at.same(t.arrived) {
		t.arrived = last.at
		t.s.d.desk.note(t, last.at)
	}
}

// final is where the client stands when its socket has ended. A client that took
// its leave of a server that ends has all that was sent; otherwise what was
// answered counts, if the client answers at all.
func (t *thread) final(ctx context.Context) place {
	shutdown := errors.Is(context.Cause(ctx), wire.ErrShutdown)
	if shutdown {
		<-t.s.silent
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handed = true
	if t.s.deaf() || shutdown && t.s.parted {
		return t.written
	}
	if !t.s.page || farewell(ctx) == cutOff {
		// Whoever answered is still there, and has all that it answered for.
		return t.arrived
	}
	<-t.s.silent // the read loop has met its end, and tells when
	return t.settled(t.s.left)
}
