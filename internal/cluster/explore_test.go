package cluster

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// bounds limit how often each fault and each step happens in an exploration.
type bounds struct {
	writes, claims, handovers, repeats, crashes int
}

// modelState is one state of a partition with three nodes: the log, what is on its way to the log, and the nodes.
type modelState struct {
	left    bounds
	log     []*Frame
	transit []*Frame // appended by a node: it may arrive later, after any other frame, or never
	nodes   [3]node
	writes  [64]fate // by number of the write
	process uint64   // the last number that a process was given

	t    *testing.T
	seed uint64
	last *step
}

// step is how a state was reached.
type step struct {
	before *step
	what   string
	a, b   int
	frame  *Frame
}

// fate is what the submitter of a write was told.
type fate byte

const (
	unanswered fate = iota
	acknowledged
	refused // certainly not applied
)

type node struct {
	p       *Partition
	data    []write          // the records that were applied
	tickets map[Ticket]write // submitted to this process and not answered
}

// write is the record of a session: it must follow the writes that its owner knew.
type write struct {
	number, session, after byte
}

func (w write) record() Record { return Record{Kind: 1, Data: []byte{w.number, w.session, w.after}} }

const sessions = 2

func count(data []write, session byte) (n byte) {
	for _, w := range data {
		if w.session == session {
			n++
		}
	}
	return n
}

func newModelState(t *testing.T, left bounds) *modelState {
	w := &modelState{left: left, t: t}
	for i := range w.nodes {
		w.process++
		w.nodes[i] = node{p: newPartition("c", 0, fmt.Sprint("n", i), w.process, Copy{}), tickets: map[Ticket]write{}}
	}
	return w
}

func (w *modelState) clone(what string, a, b int, f *Frame) *modelState {
	c := *w
	c.log = slices.Clone(w.log)
	c.transit = slices.Clone(w.transit)
	for i := range c.nodes {
		n := &c.nodes[i]
		p := *n.p
		p.inSent, p.waiting = slices.Clone(p.inSent), slices.Clone(p.waiting)
		n.p, n.data = &p, slices.Clone(n.data)
		tickets := map[Ticket]write{}
		for t, v := range n.tickets {
			tickets[t] = v
		}
		n.tickets = tickets
	}
	c.last = &step{w.last, what, a, b, f}
	return &c
}

func (w *modelState) failf(format string, args ...any) {
	w.t.Helper()
	var path []string
	for s := w.last; s != nil; s = s.before {
		if s.frame != nil {
			path = append(path, s.what+" "+describe(s.frame))
		} else {
			path = append(path, fmt.Sprintf(s.what, s.a, s.b))
		}
	}
	slices.Reverse(path)
	w.t.Fatalf("seed %d\n%s\n%s", w.seed, strings.Join(path, "\n"), fmt.Sprintf(format, args...))
}

// append puts a frame on its way to the log.
func (w *modelState) append(f *Frame) {
	if f != nil {
		w.transit = append(w.transit, f)
	}
}

// successors calls visit with every state that follows in one step.
func (w *modelState) successors(visit func(*modelState)) {
	for i, f := range w.transit {
		if slices.ContainsFunc(w.transit[:i], func(g *Frame) bool { return bytes.Equal(f.Append(nil), g.Append(nil)) }) {
			continue
		}
		c := w.clone("the log gets", 0, 0, f)
		c.log = append(c.log, f)
		c.transit = slices.Delete(c.transit, i, i+1)
		c.checkLog()
		visit(c)
	}
	for i := range w.nodes {
		n := &w.nodes[i]
		if pos := n.p.Copy().Pos; int(pos) < len(w.log) {
			c := w.clone("n%d reads position %d", i, int(pos)+1, nil)
			c.read(i)
			visit(c)
		}
		if n.p.Owns() && w.left.writes > 0 {
			for s := range byte(sessions) {
				if slices.ContainsFunc(n.pending(), func(v write) bool { return v.session == s }) {
					continue // a session commits one change after the other
				}
				c := w.clone("n%d writes to session %d", i, int(s), nil)
				c.left.writes--
				c.submit(i, write{number: byte(c.left.writes), session: s, after: count(n.data, s)})
				visit(c)
			}
		}
		if f := n.p.Sent(); f != nil && w.left.repeats > 0 {
			c := w.clone("n%d sends frame %d again", i, int(f.Number), nil)
			c.left.repeats--
			c.append(f)
			visit(c)
		}
		if !n.p.Owns() && w.left.claims > 0 && (i == 0 || w.last != nil) { // the first claim is of n0: the nodes are alike
			c := w.clone("n%d claims epoch %d", i, int(n.p.Copy().Epoch)+1, nil)
			c.left.claims--
			c.append(n.p.Claim())
			visit(c)
		}
		if n.p.Owns() && n.p.Sent() == nil && w.left.handovers > 0 {
			for to := range w.nodes {
				if to != i {
					c := w.clone("n%d hands over to n%d", i, to, nil)
					c.left.handovers--
					c.append(n.p.HandOver(fmt.Sprint("n", to), w.nodes[to].p.process))
					visit(c)
				}
			}
		}
		if w.left.crashes > 0 {
			for back := range n.p.Copy().Pos + 1 { // a copy continues from any earlier state
				c := w.clone("n%d starts again at position %d", i, int(back), nil)
				c.left.crashes--
				c.restart(i, back)
				visit(c)
			}
		}
	}
}

func (n *node) pending() (all []write) {
	for _, v := range n.tickets {
		all = append(all, v)
	}
	return all
}

func (w *modelState) submit(i int, v write) {
	n := &w.nodes[i]
	t, ok := n.p.Submit(v.record())
	if !ok {
		w.failf("n%d owns the partition and refuses a write", i)
	}
	n.tickets[t] = v
	w.append(n.p.Next())
}

func (w *modelState) read(i int) {
	n := &w.nodes[i]
	pos := n.p.Copy().Pos + 1
	f := w.log[pos-1]
	o := n.p.Take(pos, f)
	if o.Verdict == Damaged {
		w.failf("n%d calls its copy damaged at position %d", i, pos)
	}
	if o.Verdict == Counts {
		n.apply(w, i, f)
	}
	for _, t := range o.Applied {
		w.answer(n.tickets[t], acknowledged)
		delete(n.tickets, t)
	}
	for _, t := range o.Lost {
		w.answer(n.tickets[t], refused)
		delete(n.tickets, t)
	}
	w.append(n.p.Next())
	w.checkLog()
}

func (n *node) apply(w *modelState, i int, f *Frame) {
	for _, r := range f.Records {
		v := write{r.Data[0], r.Data[1], r.Data[2]}
		if have := count(n.data, v.session); have != v.after {
			w.failf("n%d applies a write that follows %d others in its session; there are %d", i, v.after, have)
		}
		n.data = append(n.data, v)
	}
}

func (w *modelState) answer(v write, f fate) {
	if w.writes[v.number] != unanswered {
		w.failf("write %d is answered twice", v.number)
	}
	w.writes[v.number] = f
}

// restart replaces the process of a node by one that has only the log up to a position.
func (w *modelState) restart(i int, back Pos) {
	w.process++
	n := &w.nodes[i]
	*n = node{p: newPartition("c", 0, fmt.Sprint("n", i), w.process, Copy{}), tickets: map[Ticket]write{}}
	for pos := range back {
		if o := n.p.Take(pos+1, w.log[pos]); o.Verdict == Counts {
			n.apply(w, i, w.log[pos])
		}
	}
}

// checkLog compares the answers and the nodes with the log as a reader without a past sees it.
func (w *modelState) checkLog() {
	var c Copy
	var data []write
	ends := []int{0} // how much data there is after each position
	for i, f := range w.log {
		var v Verdict
		if c, v = c.Apply(Pos(i+1), f); v == Damaged {
			w.failf("the log is damaged at position %d", i+1)
		} else if v == Counts {
			for _, r := range f.Records {
				data = append(data, write{r.Data[0], r.Data[1], r.Data[2]})
			}
		}
		ends = append(ends, len(data))
	}
	var times [len(w.writes)]int
	for _, v := range data {
		times[v.number]++
	}
	for number, n := range times {
		switch f := w.writes[number]; {
		case n > 1:
			w.failf("write %d is applied %d times", number, n)
		case f == acknowledged && n == 0:
			w.failf("write %d was acknowledged and is not in the log", number)
		case f == refused && n > 0:
			w.failf("write %d was refused and is in the log", number)
		}
	}
	for i := range w.nodes {
		n := &w.nodes[i]
		if want := data[:ends[n.p.Copy().Pos]]; !slices.Equal(n.data, want) {
			w.failf("n%d has %v at position %d, the log says %v", i, n.data, n.p.Copy().Pos, want)
		}
	}
}

// key identifies a state. Two states with one key have the same future.
func (w *modelState) key() uint64 {
	b := []byte{byte(w.left.writes), byte(w.left.claims), byte(w.left.handovers), byte(w.left.repeats), byte(w.left.crashes)}
	for _, f := range w.writes[:8] {
		b = append(b, byte(f))
	}
	frames := func(list []*Frame) {
		b = append(b, byte(len(list)))
		for _, f := range list {
			b = binary.AppendUvarint(b, f.Epoch)
			b = binary.AppendUvarint(b, f.Number)
			b = binary.AppendUvarint(b, f.Claim.Process)
			b = append(append(b, f.Claim.Node...), byte(len(f.Records)))
			b = append(b, f.Digest[:4]...)
			for _, r := range f.Records {
				b = append(b, r.Data...)
			}
		}
	}
	frames(w.log)
	transit := slices.Clone(w.transit)
	slices.SortFunc(transit, func(x, y *Frame) int { return bytes.Compare(x.Append(nil), y.Append(nil)) })
	frames(transit)
	for i := range w.nodes {
		p := w.nodes[i].p
		b = append(b, byte(p.copy.Pos), byte(p.process), byte(len(p.inSent)), byte(len(p.waiting)))
		if p.sent != nil {
			frames([]*Frame{p.sent})
		}
		for _, q := range p.waiting {
			b = append(b, q.record.Data...)
		}
	}
	return maphash.Bytes(seed, b)
}

var seed = maphash.MakeSeed()

// TestEveryInterleavingKeepsTheCopiesEqual walks through all states that three nodes can reach within bounds: no write that was
// acknowledged is missing, none that was refused is applied, none is applied twice, and the copies are equal.
func TestEveryInterleavingKeepsTheCopiesEqual(t *testing.T) {
	all := []bounds{
		{writes: 2, claims: 2, repeats: 1},
		{writes: 1, claims: 3, repeats: 1},
		{writes: 2, claims: 2, crashes: 1},
		{writes: 2, claims: 1, handovers: 1, repeats: 1},
	}
	if os.Getenv("PARLEY_EXPLORE") != "" { // some minutes
		all = []bounds{
			{writes: 3, claims: 2, repeats: 1},
			{writes: 2, claims: 3, repeats: 1},
			{writes: 2, claims: 3, crashes: 1},
			{writes: 2, claims: 2, handovers: 1, repeats: 1, crashes: 1},
		}
	}
	for _, left := range all {
		seen := map[uint64]bool{}
		todo := []*modelState{newModelState(t, left)}
		for len(todo) > 0 {
			w := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			w.successors(func(c *modelState) {
				if k := c.key(); !seen[k] {
					seen[k] = true
					todo = append(todo, c)
				}
			})
		}
		t.Logf("%+v: %d states", left, len(seen))
	}
}

// TestRandomSchedulesKeepTheCopiesEqual goes further than the exhaustive walk, along random paths: always the same ones, or
// new ones for as long as PARLEY_EXPLORE says (1h). A failure prints its seed.
func TestRandomSchedulesKeepTheCopiesEqual(t *testing.T) {
	first := uint64(0)
	limit, err := time.ParseDuration(os.Getenv("PARLEY_EXPLORE"))
	if err == nil {
		first = rand.Uint64()
	}
	begin, walks, steps := time.Now(), 0, 0
	for ; walks < 50 || time.Since(begin) < limit; walks++ {
		seed := first + uint64(walks)
		rng := rand.New(rand.NewPCG(seed, 0))
		w := newModelState(t, bounds{writes: 60, claims: 12, handovers: 6, repeats: 20, crashes: 6})
		w.seed = seed
		for {
			var next []*modelState
			w.successors(func(c *modelState) { next = append(next, c) })
			if len(next) == 0 {
				break
			}
			w = next[rng.IntN(len(next))]
			steps++
		}
	}
	t.Logf("%d walks, %d steps in %s", walks, steps, time.Since(begin).Round(time.Second))
}

func describe(f *Frame) string {
	if f.Number == 0 {
		return fmt.Sprintf("the claim of epoch %d by process %d of %s", f.Epoch, f.Claim.Process, f.Claim.Node)
	}
	return fmt.Sprintf("frame %d of epoch %d with %v", f.Number, f.Epoch, f.Records)
}
