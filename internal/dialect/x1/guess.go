package x1

import (
	"cmp"
	"math"
	"slices"
)

// guess is one thing that the offset of this life can be, and what speaks against it.
//
// A message is a repetition only if that is so under every guess that is left, so
// nothing new is taken for one as long as the right guess is among them. A guess
// goes at once when another event has the place of a message. Where it says that a
// message is new, but under another guess the message repeats exactly what has its
// place, it pays for that coincidence: the more, the rarer those words are. When it
// is too far behind the best it goes as well. In doubt something is stored twice.
type guess struct {
	offset int
	at     int     // the place of the message before
	missed int     // how many numbers were not heard since the last repetition
	cost   float64 // in bits: 10 means that it is a thousand times less likely
}

// What guesses pay, in bits, and when they go.
const (
	noVote      = 16 // behind the best: it is not asked any more
	tooUnlikely = 30 // behind the best: it goes
	otherStart  = 18 // the buffer is not as large as those of x1
	minBuffer   = 16 // for every event that it has less than that
	perMissed   = 2  // for every event that was not heard at the end of the last life
	slipped     = 1  // a number that was not heard was none of the stream
	gap         = 1  // that was so in the past: a place is empty, but nothing was lost
	maxSlip     = 16 // so many of them at once

	// What is believed of an agent before it was heard.
	selfRepeats = .001 // how often it said something twice
	everPosts   = .01  // how often it posted something
)

// repeats tells whether a message of the stream is a repetition.
func (p *past) repeats(d digest, n int) bool {
	first := p.seeking
	if first {
		p.seeking = false
		p.guesses = p.anywhere(n)
	}
	next, said := p.step(d, n, first)
	if len(next) == 0 && !first {
		p.blind = true // we went astray; from now on it takes more to be sure
		p.guesses = p.anywhere(n)
		next, said = p.step(d, n, true)
	}
	if len(next) == 0 {
		p.anew()
		return false
	}
	p.guesses, p.offset = next, next[0].offset
	p.sure = len(next) == 1 || next[1].cost > noVote
	if p.sure {
		p.settle()
		p.whole = p.whole || said && p.offset+p.posts == p.origin && p.top-p.origin <= p.buffer/4
	}
	if p.whole && !said && next[0].at < p.end {
		said = p.lenient(d, n)
	} else if said {
		p.take(d, next[0].at)
	}
	if !said && !slices.ContainsFunc(next, func(g guess) bool { return g.at < p.end && g.cost <= noVote }) {
		p.guesses = nil // the replay has ended
	}
	return said
}

// lenient takes a message for a repetition if any guess says so. A buffer that has
// lost nothing repeats everything: what is taken for something else now makes that
// something new when it comes, so in the end there is as much of it as was said.
func (p *past) lenient(d digest, n int) bool {
	for _, g := range p.guesses {
		if g.cost <= noVote && p.take(d, g.at) {
			return true
		}
	}
	at := p.offset + n
	for i := p.from(at - maxSlip); i < len(p.marks) && p.marks[i].place <= at+maxSlip && at < p.end; i++ {
		if m := &p.marks[i]; m.stray && m.digest == d && !m.boot && m.epoch != p.epoch && m.taken != p.epoch {
			m.taken = p.epoch
			return true
		}
	}
	return false
}

// take takes what is in a place as repeated.
func (p *past) take(d digest, place int) bool {
	for i := p.from(place); i < len(p.marks) && p.marks[i].place == place; i++ {
		if m := &p.marks[i]; !m.boot && m.digest == d && m.epoch != p.epoch && m.taken != p.epoch {
			m.taken = p.epoch
			return true
		}
	}
	return false
}

// anywhere returns all places that a message can have whose life has just begun, or
// of which nothing is known.
func (p *past) anywhere(n int) []guess {
	rank := n - p.posts
	first := max(min(p.marks[0].place, p.base), p.end-2*keep)
	var all []guess
	add := func(place int, cost float64) {
		all = append(all, guess{offset: place - n, at: place - 1, cost: cost})
	}
	full := p.full()
	for place := first; place < p.end; place++ {
		add(place, p.unlikely(place-rank, full))
	}
	switch {
	case p.blind:
		add(p.top, 0) // the replay is over
	case p.missed > 0:
		add(p.top, otherStart)
	}
	return all
}

// unlikely is what a guess pays that says in which place the agent's buffer begins.
func (p *past) unlikely(start, full int) float64 {
	if p.blind || start == max(p.base, p.end-p.buffer) || start == full {
		return 0
	}
	cost := otherStart + float64(max(0, minBuffer-(p.end-start)))
	if missed := start + p.buffer - p.end; missed > 0 && start > p.base {
		cost = min(cost, perMissed*float64(missed))
	}
	return cost
}

// full is where a buffer begins of which nothing was lost on the way: what is empty
// in the log was none of the stream.
func (p *past) full() int {
	left := p.buffer
	for i := len(p.marks) - 1; i >= 0; i-- {
		if m := &p.marks[i]; m.boot || m.place >= p.end {
			continue
		}
		if left--; left == 0 {
			return p.marks[i].place
		}
	}
	return p.origin
}

// step says what is left of the guesses when a message has come, the best first,
// and whether it is a repetition.
func (p *past) step(d digest, n int, first bool) (next []guess, said bool) {
	known := map[int]bool{} // under which offsets it is a repetition
	best := map[int]guess{}
	add := func(g guess, repeats bool) {
		if o, ok := best[g.offset]; !ok || g.cost < o.cost {
			best[g.offset], known[g.offset] = g, repeats
		}
	}
	for _, g := range p.guesses {
		place := g.offset + n
		if what := p.what(d, place); what != otherThere {
			next := guess{offset: g.offset, at: place, cost: g.cost}
			if what == nothingThere {
				next.missed = g.missed
			}
			add(next, what == sameThere)
		}
		if first {
			continue
		}
		for to := max(min(g.at, place-1)+1, place-min(g.missed, maxSlip)); to <= place+maxSlip && to < p.end; to++ {
			by := to - place
			if by == 0 || p.what(d, to) != sameThere || by > p.empty(g.at+1, to) {
				continue
			}
			cost := g.cost + slipped
			if by > 0 {
				cost += gap * float64(by)
			} else {
				cost -= p.slip() * float64(by)
			}
			add(guess{offset: to - n, at: to, cost: cost}, true)
		}
	}
	chance := 0.
	if len(best) > 1 {
		chance = p.chance(d)
	}
	least := math.Inf(1)
	for offset, g := range best {
		if !known[offset] {
			g.cost += chance
			best[offset] = g
		}
		least = min(least, g.cost)
	}
	said = len(best) > 0
	for offset, g := range best {
		if g.cost -= least; g.cost <= tooUnlikely {
			next = append(next, g)
			said = said && (known[offset] || g.cost > noVote)
		}
	}
	slices.SortFunc(next, func(a, b guess) int { return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.offset, b.offset)) })
	p.twice = -1
	if i := slices.IndexFunc(next, func(g guess) bool { return !known[g.offset] }); i > 0 && !said {
		p.twice = next[i].at // stored in doubt, it stands where it would if it were new
	}
	return next, said
}

// What is in a place.
const (
	nothingThere = iota // as far as is known
	sameThere
	otherThere
)

func (p *past) what(d digest, place int) int {
	found := nothingThere
	if place >= p.end {
		return found
	}
	for i := p.from(place); i < len(p.marks) && p.marks[i].place == place; i++ {
		switch m := &p.marks[i]; {
		case m.boot, m.epoch == p.epoch, m.digest == d && m.taken == p.epoch:
		case m.digest == d:
			return sameThere
		case !m.stray:
			found = otherThere
		}
	}
	return found
}

// empty counts the places of which nothing is known, from one to before another.
func (p *past) empty(from, to int) int {
	n := 0
	for place := max(from, to-4*maxSlip); place < to; place++ {
		i := p.from(place)
		for i < len(p.marks) && p.marks[i].place == place && (p.marks[i].boot || p.marks[i].stray) {
			i++
		}
		if i == len(p.marks) || p.marks[i].place != place {
			n++
		}
	}
	return n
}

// chance is how unlikely it is, in bits, that an agent says these very words anew.
func (p *past) chance(d digest) float64 {
	if p.again == 0 {
		type saying struct {
			digest digest
			epoch  int // across lives it may be what was stored twice
		}
		seen := map[saying]struct{}{}
		for i := range p.marks {
			seen[saying{p.marks[i].digest, p.marks[i].epoch}] = struct{}{}
		}
		p.again = (float64(len(p.marks)-len(seen)) + selfRepeats) / float64(len(p.marks)+1)
	}
	same := 0.
	for i := range p.marks {
		if p.marks[i].digest == d {
			same++
		}
	}
	if same == 0 {
		return 0 // nobody says that it is a repetition
	}
	return -math.Log2(p.again * same / float64(len(p.marks)))
}

// slip is how unlikely it is, in bits, that a number is none of the stream.
func (p *past) slip() float64 {
	return -math.Log2((float64(p.posted) + everPosts) / float64(len(p.marks)+p.posted+1))
}

// settle puts what came in this life before its offset was known to its place.
func (p *past) settle() {
	moved := false
	for i := range p.marks {
		if m := &p.marks[i]; m.stray && !m.twice && m.epoch == p.epoch && m.rank >= 0 && p.missed == 0 {
			m.place, m.stray, moved = p.offset+p.posts+m.rank, false, true
			p.top = max(p.top, m.place+1)
		}
	}
	if moved {
		slices.SortStableFunc(p.marks, func(a, b mark) int { return cmp.Compare(a.place, b.place) })
	}
}
