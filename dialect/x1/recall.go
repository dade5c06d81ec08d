package x1

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// key is the idempotency key of an old publisher's event. It holds what must be
// known of it after a restart of the server, and a moment that makes it unique.
func (p *past) key(m *Message, d digest, at int64) string {
	place, guess := p.place(m)
	how := placed
	if guess && !boots(m.Type) {
		how = guessed
	}
	return fmt.Sprintf("x1:%d:%d:%s:%s:%s%d", p.epoch, counted(m), strconv.FormatInt(at, 36), d, how, place)
}

// How a key tells the place of its event.
const (
	placed  = "p"
	guessed = "g"
)

// counted is what the publisher counts, -1 when it does not.
func counted(m *Message) int64 {
	if m.Sequence == nil {
		return -1
	}
	return *m.Sequence
}

// published reports whether an event is what an old publisher said.
func published(e *chat.Event) bool {
	n := strings.Count(e.ClientID, ":")
	return e.Via == via && strings.HasPrefix(e.ClientID, "x1:") && (n == 4 || n == 5)
}

// recall rebuilds the past from an event that is in the log.
func (p *past) recall(e *chat.Event) {
	if !published(e) {
		return
	}
	part := strings.Split(e.ClientID, ":")
	if len(part) < 6 || part[5] == "" {
		return
	}
	how := part[5][:1]
	epoch, err1 := strconv.Atoi(part[1])
	n, err2 := strconv.ParseInt(part[2], 10, 64)
	raw, err3 := hex.DecodeString(part[4])
	if err1 != nil || err2 != nil || err3 != nil || len(raw) != len(digest{}) || how != placed && how != guessed || n < 0 {
		return
	}
	place, err := strconv.Atoi(part[5][1:])
	if err != nil {
		return
	}
	if epoch != p.epoch {
		p.restart(epoch)
	}
	p.last, p.heard = n, e.At.Time()
	m := mark{digest: digest(raw), place: place, rank: int(n) - p.posts, stray: how == guessed}
	if !posted(e.Type) || boots(e.Type) {
		// How it came tells where the publisher is.
		p.seeking, p.shifts, p.sure = m.stray, nil, !m.stray
		if !m.stray {
			p.shifts = []int{place - m.rank}
			if p.settle(); place >= p.end {
				p.shifts = nil
			}
		}
	}
	p.add(e.Type, m)
}
