package x1

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// key is the idempotency key of an old publisher's event. It holds what must be
// known of it after a restart of the server, and a moment that makes it unique.
func (p *past) key(m *Message, d digest, at int64) string {
	how, place := placed, p.offset+int(counted(m))
	if boots(m.Type) && p.seeking {
		place = p.top // see note
	} else if p.twice >= 0 {
		how, place = guessed, p.twice
	} else if !p.sure {
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

// ReplayedType is an event that says where the replay of an old publisher is. It
// comes when repetitions were recognised, which leave no other trace in the log, and
// when more became known of them; so once or twice in a life.
const ReplayedType = "x1.sidecar.replayed"

// Replayed is its payload.
type Replayed struct {
	Life    int      `json:"life"`            // how often the publisher's counter went back
	Number  int64    `json:"number"`          // its last one
	Whole   bool     `json:"whole,omitempty"` // the replay has all that the agent ever said
	Offsets []Offset `json:"offsets"`         // what is possible; empty when that is too much to say
}

// Offset is a place in all that an agent has said, minus the number that it has in
// this life of the publisher.
type Offset struct {
	Offset int     `json:"offset"`
	Doubt  float64 `json:"doubt,omitempty"` // in bits
}

// maxOffsets bounds what is written down of a replay.
const maxOffsets = 32

// situation is what the log knows of a replay.
type situation struct {
	offsets []int // in order
	whole   bool
}

// news returns what the log must be told of a replay, if it does not know it yet.
func (p *past) news() (r Replayed, ok bool) {
	if len(p.guesses) == 0 {
		return r, false
	}
	now := situation{whole: p.whole}
	r = Replayed{Life: p.epoch, Number: p.last, Whole: p.whole}
	for _, g := range p.guesses {
		now.offsets = append(now.offsets, g.offset)
		r.Offsets = append(r.Offsets, Offset{Offset: g.offset, Doubt: math.Round(g.cost)})
	}
	slices.Sort(now.offsets)
	if now.whole == p.written.whole && slices.Equal(now.offsets, p.written.offsets) {
		return r, false
	}
	p.written = now
	if len(r.Offsets) > maxOffsets {
		r.Offsets = nil
	}
	return r, true
}

// recall rebuilds the past from an event that is in the log.
func (p *past) recall(e *chat.Event) {
	if e.Via == via && e.Type == ReplayedType && e.Actor == chat.System { // nobody else says that
		var r Replayed
		if json.Unmarshal(e.Payload, &r) == nil {
			p.recallReplay(&r)
			p.heard = e.At.Time()
		}
		return
	}
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
	p.last, p.heard, p.woken = n, e.At.Time(), true
	m := mark{digest: digest(raw), place: place, rank: -1, stray: how == guessed}
	switch {
	case posted(e.Type) && (how == guessed || !boots(e.Type)):
	case how == placed:
		p.seeking, p.sure, p.offset, p.guesses = false, true, place-int(n), nil
		switch {
		case place < p.end:
			p.guesses = []guess{{offset: p.offset, at: place}}
		case int(n) == p.posts:
			p.origin = place // another agent
		}
	case len(p.guesses) == 0: // a guess, and nothing says what else was possible
		p.seeking, p.blind = true, true
	}
	p.add(e.Type, m)
}

// recallReplay rebuilds what was known of a replay.
func (p *past) recallReplay(r *Replayed) {
	if r.Life != p.epoch {
		p.restart(r.Life)
	}
	if len(p.marks) == 0 {
		return
	}
	p.last, p.woken = max(p.last, r.Number), true
	p.guesses, p.whole, p.written = nil, r.Whole, situation{whole: r.Whole}
	for _, o := range r.Offsets {
		p.guesses = append(p.guesses, guess{offset: o.Offset, at: o.Offset + int(r.Number), cost: o.Doubt})
		p.written.offsets = append(p.written.offsets, o.Offset)
	}
	slices.Sort(p.written.offsets)
	p.blind = len(p.guesses) == 0
	p.seeking, p.sure = p.blind, len(p.guesses) == 1
	if !p.seeking {
		p.offset = p.guesses[0].offset
	}
}
