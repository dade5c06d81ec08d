package nemo

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/wire"
)

// The protocol has no acknowledgements, so WebSocket pings serve as such: a client answers a ping when it has read what
// came before it. The acknowledged position is saved at once, and is where the client continues, whatever ended its
// connection or the server. So nothing is lost, and at most what was sent and not acknowledged comes twice.
//
// A small write is read in one go. There the ping comes first: a client that ends while it handles a frame has
// acknowledged that frame.

const (
	smallWrite = 1200 // bytes that travel in one packet
	pingSize   = 10   // bytes of a ping frame as appendPing writes it
	maxPings   = 512  // pings without an answer
)

// delivery is how far a subscription has delivered.
type delivery struct {
	unanswered   []sentPing // in order
	unpinged     bool       // something was sent after the last ping
	writing      chat.Seq   // events up to this one were sent or are being sent
	written      position   // what was sent
	acknowledged position   // what is known to have arrived
	acks         []ack      // of a browser: the first is older than unloadRewind, or where it started
	final        bool       // the position was recorded; later pongs do not count
}

// sentPing is a ping and the position that its answer acknowledges.
type sentPing struct {
	ping uint64
	at   position
}

// appendUnit appends the frames of one event and a ping: before them where everything is read in one go, else one for
// what comes before them.
func (sub *subscription) appendUnit(out []byte, items []item) []byte {
	sub.body = sub.body[:0]
	for i := range items {
		sub.body = sub.appendFrame(sub.body, &items[i])
	}
	if len(sub.body) == 0 {
		return out
	}
	at := sub.positionAt(items[len(items)-1].pos)
	switch {
	case len(out)+pingSize+len(sub.body) <= smallWrite:
		out = sub.appendPing(out, at)
	case len(out) > 0:
		out = sub.appendPing(out, sub.lastPosition)
	}
	sub.lastPosition = at
	return append(out, sub.body...)
}

// appendPing appends a ping whose answer acknowledges a position.
func (sub *subscription) appendPing(out []byte, at position) []byte {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if len(sub.unanswered) >= maxPings {
		if !sub.s.ignoresPings() {
			sub.unpinged = true
			return out // a later ping acknowledges this position too
		}
		sub.unanswered = sub.unanswered[:0]
	}
	sub.unpinged = false
	n := sub.s.pingCount.Add(1)
	sub.unanswered = append(sub.unanswered, sentPing{n, at})
	return wire.AppendPingFrame(out, binary.BigEndian.AppendUint64(nil, n))
}

// flush sends the frames and a ping behind them.
func (sub *subscription) flush(ctx context.Context, out []byte) error {
	at := sub.positionAt(sub.fold.position())
	if len(out) == 0 {
		sub.mu.Lock()
		sub.written = at
		if len(sub.unanswered) == 0 && !sub.unpinged {
			sub.acknowledged = at
		}
		sub.mu.Unlock()
		return nil
	}
	out = sub.appendPing(out, at)
	sub.mu.Lock()
	sub.writing = at.Cursor.Seq
	sub.mu.Unlock()
	if err := sub.s.conn.Write(ctx, out); err != nil {
		return err
	}
	sub.mu.Lock()
	sub.written, sub.lastUsed = at, sub.s.d.opt.Now()
	sub.mu.Unlock()
	if sub.s.ignoresPings() {
		sub.s.d.points.save(sub, at) // there are no acknowledgements: what was sent counts
	}
	return nil
}

// pong is called when a ping was answered.
func (sub *subscription) pong(ping uint64) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	// Only a ping of this subscription acknowledges: another one may have a higher number and have been sent earlier.
	n := slices.IndexFunc(sub.unanswered, func(p sentPing) bool { return p.ping == ping }) + 1
	if n == 0 || sub.final {
		return
	}
	last := sub.unanswered[n-1]
	sub.unanswered = slices.Delete(sub.unanswered, 0, n)
	if sub.s.isBrowser {
		sub.noteAck(sub.s.d.opt.Now(), last.at)
	}
	if !last.at.equal(sub.acknowledged) {
		sub.acknowledged = last.at
		sub.s.d.points.save(sub, last.at)
	}
}

// finalPosition is where the client continues after its socket has ended.
func (sub *subscription) finalPosition(ctx context.Context, state clientState) position {
	shutdown := errors.Is(context.Cause(ctx), wire.ErrShutdown)
	if shutdown || sub.s.isBrowser && state != connectionLost {
		<-sub.s.readEnded // then readAll and readEndedAt are set
	}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.final = true
	switch {
	case sub.s.ignoresPings(), shutdown && sub.s.readAll:
		return sub.written
	case sub.s.isBrowser && state != connectionLost:
		return sub.beforeUnload(sub.s.readEndedAt)
	}
	return sub.acknowledged
}

// departureState is how a connection ended: it broke; the page was closed or is being reloaded; or the client closed it.
func departureState(ctx context.Context) clientState {
	var closed *wire.CloseError
	switch {
	case !errors.As(context.Cause(ctx), &closed) || closed.Ours:
		return connectionLost
	case closed.Code == wire.CloseGoingAway:
		return pageUnloaded
	}
	return clientClosed
}

// unloadRewind is how long before the end of the connection an acknowledgement must have come to count for a page that is
// being reloaded. A browser answers pings in a process of its own, also for frames that such a page never handles: a word
// twice is better than a word lost. The measurements are in docs/nemo.md.
const unloadRewind = 400 * time.Millisecond

// ack is an acknowledgement of a browser.
type ack struct {
	when time.Time
	at   position
}

// noteAck keeps an acknowledgement, and the last one before unloadRewind; the caller holds mu.
func (d *delivery) noteAck(now time.Time, at position) {
	d.acks = append(d.acks, ack{now, at})
	d.dropOld(now)
}

// beforeUnload is the last position that a page has handled whose connection ended at that time; the caller holds mu.
func (d *delivery) beforeUnload(end time.Time) position {
	d.dropOld(end)
	return d.acks[0].at
}

func (d *delivery) dropOld(now time.Time) {
	for len(d.acks) > 1 && now.Sub(d.acks[1].when) >= unloadRewind {
		d.acks = d.acks[1:]
	}
}
