package node

import (
	"sync"
	"time"
)

// previewLate is how long an event waits for text that was written before it. The text is sent before the event is stored, so
// it is usually late because its message is lost.
const previewLate = 100 * time.Millisecond

// previewOrder keeps events behind the unfinished text that was written before them, on nodes that get both from the owner: the
// text beside the log, the events through it. So all nodes show a session in the same order, also texts that are written at
// the same time, and a client that counts what it was shown can resume at any node.
type previewOrder struct {
	late time.Duration // how long an event waits

	mu      sync.Mutex
	epoch   uint64        // of the rest
	last    uint64        // the last message that the owner sent, or that another node has shown
	gaveUp  bool          // a message was late, and no later one has come
	changed chan struct{} // closed when last changes; nil if nobody waits
}

// inEpoch forgets an earlier epoch. It returns false if there is a later one. The caller holds mu.
func (o *previewOrder) inEpoch(epoch uint64) bool {
	if epoch > o.epoch {
		o.epoch, o.last, o.gaveUp = epoch, 0, false
	}
	return epoch == o.epoch
}

// sendPreviews numbers a message of the owner and sends it. need is how many other nodes have to store it. It returns nil if there
// is a later owner.
func (p *part) sendPreviews(m *sentPreviews, t Transport, need int) *unstoredText {
	o := &p.order
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.inEpoch(m.epoch) {
		return nil
	}
	o.last++
	m.number = o.last
	sent := &unstoredText{epoch: m.epoch, number: m.number, data: m.append(nil), need: need, enough: make(chan struct{})}
	if need == 0 {
		close(sent.enough)
	} else {
		p.unstored.add(sent) // before it is sent: the answer may come at once
	}
	t.Broadcast(sent.data)
	return sent
}

// lastSent returns the number of the last message that the owner sent in an epoch.
func (o *previewOrder) lastSent(epoch uint64) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.epoch != epoch {
		return 0
	}
	return o.last
}

// reached is called when the messages of an epoch up to a number are shown or lost.
func (o *previewOrder) reached(epoch, number uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.inEpoch(epoch) {
		return
	}
	o.gaveUp = false
	if number > o.last {
		o.last = number
		if o.changed != nil {
			close(o.changed)
			o.changed = nil
		}
	}
}

// wait waits until the messages of an epoch up to a number are shown. A message that is late counts as lost; then nothing is
// waited for until the next one comes, so that a node that catches up with the log does not wait for text that was sent
// while it was away.
func (o *previewOrder) wait(epoch, number uint64) {
	var timer *time.Timer
	for {
		o.mu.Lock()
		if !o.inEpoch(epoch) || o.last >= number || o.gaveUp {
			o.mu.Unlock()
			return
		}
		if o.changed == nil {
			o.changed = make(chan struct{})
		}
		changed := o.changed
		o.mu.Unlock()
		if timer == nil {
			timer = time.NewTimer(o.late)
			defer timer.Stop()
		}
		select {
		case <-changed:
		case <-timer.C:
			o.mu.Lock()
			o.gaveUp = true
			o.mu.Unlock()
			return
		}
	}
}
