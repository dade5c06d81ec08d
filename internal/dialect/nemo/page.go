package nemo

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/parley-hq/parley/internal/wire"
)

// A page in a browser is unlike other clients in two ways. It draws after each
// frame, so many small frames make it lag. And its browser answers pings in its
// stead, also when it is going away and never gets to see what came last. So a
// page is sent fewer and larger frames, and when it went away, what it cannot
// have kept yet is sent again: a word twice is better than a word lost. A page
// whose connection merely broke has all that was answered for.

// browserFrameInterval is the least time between two flushes to a page.
const browserFrameInterval = 40 * time.Millisecond

// maxText is the size up to which pieces are put together.
const maxText = 16 << 10

// textMerger puts the pieces of a text together that can be sent at once, and keeps
// frames to a page apart.
type textMerger struct {
	text *item // what is put together
}

// merge adds what an entry shows to the text that is put together; it reports
// false when that is something else, belongs to another answer, or is too much.
func (p *textMerger) merge(items []item) bool {
	if len(items) != 1 || items[0].kind != itemText {
		return len(items) == 0
	}
	it := &items[0]
	if p.text != nil && (p.text.turn != it.turn || len(p.text.text)+len(it.text) > maxText) {
		return false
	}
	if p.text == nil {
		one := *it
		p.text = &one
		return true
	}
	p.text.text += it.text
	p.text.at, p.text.pos = it.at, it.pos
	return true
}

// rest waits until the page may be sent something again. What happens meanwhile
// is read from the log in one go afterwards.
func (p *textMerger) rest(ctx context.Context) {
	timer := time.NewTimer(browserFrameInterval)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ack is when a position was known to have arrived, and how long that took.
type ack struct {
	when time.Time
	took time.Duration
	at   position
}

// maxAcks bounds what is kept of them; more than a page gets in settling.
const maxAcks = 64

// noteAck keeps when a mark was answered; the caller holds mu.
func (t *subscription) noteAck(m sentPing, now time.Time) {
	if len(t.acks) == maxAcks {
		t.beforeAcks = t.acks[maxAcks/2-1].at
		t.acks = slices.Delete(t.acks, 0, maxAcks/2)
	}
	t.acks = append(t.acks, ack{now, now.Sub(m.sent), m.at})
}

// unloadRewind is how long a page may take from the arrival of a frame to having kept
// what it says. On a machine that has nothing else to do it is a third of that; a
// busy one shows in slow answers to pings, but not always.
const unloadRewind = 200 * time.Millisecond

// beforeUnload is the last place that a page which went away has surely kept; the
// caller holds mu.
func (t *subscription) beforeUnload(now time.Time) position {
	wait := unloadRewind
	for _, a := range t.acks {
		if now.Sub(a.when) < time.Second {
			wait = max(wait, unloadRewind+2*a.took)
		}
	}
	for _, a := range slices.Backward(t.acks) {
		if now.Sub(a.when) >= wait {
			return a.at
		}
	}
	return t.beforeAcks
}

// departureReason is how a client went: its connection broke, and it lives; it took its
// leave as a page does that is closed or loaded again; or it closed the
// connection itself and has turned to something else.
func departureReason(ctx context.Context) reason {
	var closed *wire.CloseError
	switch {
	case !errors.As(context.Cause(ctx), &closed) || closed.Ours:
		return connectionLost
	case closed.Code == wire.CloseGoingAway:
		return pageUnloaded
	}
	return clientClosed
}
