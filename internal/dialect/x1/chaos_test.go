package x1

import (
	"fmt"
	"math/rand"
	"testing"
)

// chaos is what happens to an old publisher and its server in a test.
type chaos struct {
	words    int  // how many different ones the agent knows; 0 means that it never repeats itself
	posts    bool // some of what it says is posted
	others   bool // some goes to other sessions, under numbers of the same counter
	live     bool // messages are lost
	replays  bool // also those of replays
	restarts bool // the server is restarted in replays, too
	killed   bool // before the server could say where the replay was
	buffer   int  // how much the agent repeats; 0 means as much as one of x1, which is all
	doubled  int  // how many of 10000 are stored twice, at most
}

func (c chaos) String() string {
	return fmt.Sprintf("buffer %d, words %d, posts %v, others %v, lost live %v, lost in replays %v, restarts %v, kills %v", c.buffer, c.words, c.posts, c.others, c.live, c.replays, c.restarts, c.killed)
}

// Messages are lost, publishers and servers are restarted at any moment, the buffer
// overflows or does not: whatever arrived once is stored. What has its place is
// stored once; an agent that says the same again and again is not always understood.
func TestReplaysInChaos(t *testing.T) {
	for _, c := range []chaos{
		// An agent whose words differ.
		{},
		{posts: true, restarts: true},
		{live: true, replays: true, restarts: true},
		{posts: true, live: true, replays: true, restarts: true},
		{buffer: 12},
		{buffer: 12, posts: true, restarts: true},
		{buffer: 12, live: true, replays: true, restarts: true, doubled: 50},
		{buffer: 12, restarts: true, killed: true},
		{others: true, restarts: true},
		{others: true, restarts: true, buffer: 12, doubled: 1300},
		// One that knows few.
		{words: 30, posts: true, restarts: true},
		{words: 30, others: true, restarts: true},
		{words: 30, live: true, replays: true, restarts: true, doubled: 30},
		{words: 30, posts: true, live: true, replays: true, restarts: true, doubled: 40},
		{words: 30, buffer: 12, restarts: true},
		{words: 30, buffer: 12, live: true, replays: true, restarts: true, doubled: 250},
		{words: 30, buffer: 12, restarts: true, killed: true, doubled: 20},
		// And one that knows hardly any.
		{words: 5, posts: true, restarts: true},
		{words: 5, live: true, replays: true, restarts: true, doubled: 150},
		{words: 5, buffer: 12, restarts: true},
		{words: 5, buffer: 12, live: true, replays: true, restarts: true, doubled: 1300},
		{words: 5, buffer: 12, live: true, replays: true, restarts: true, killed: true, doubled: 2200},
	} {
		t.Run(c.String(), func(t *testing.T) {
			doubled, of := 0, 0
			for seed := range int64(120) {
				said, stored := c.run(t, seed)
				for word, n := range said {
					of += n
					if stored[word] < n {
						t.Fatalf("seed %d: of %q %d of %d are stored", seed, word, stored[word], n)
					}
					doubled += stored[word] - n
				}
			}
			if t.Logf("%d of %d are doubled", doubled, of); doubled*10000 > c.doubled*of {
				t.Errorf("%d of %d are stored twice, at most %d of 10000 should be", doubled, of, c.doubled)
			}
		})
	}
}

// run lets a publisher live some lives, and counts what arrived and what is stored.
func (c chaos) run(t *testing.T, seed int64) (said, stored map[string]int) {
	type event struct {
		word    string
		arrived bool
	}
	r := rand.New(rand.NewSource(seed)) // always the same: a test does not depend on chance
	s := &publisher{t: t, buffer: c.buffer}
	s.recall()
	if c.killed {
		s.runs = func() bool { return r.Intn(4) == 0 }
	}
	said, stored = map[string]int{}, map[string]int{}
	var buffer []*event
	count, gone := 0, 0 // gone: messages that are lost in a row
	say := func(e *event) {
		if !e.arrived {
			e.arrived = true
			said[e.word]++
		}
		s.say(e.word)
	}
	send := func(e *event, live bool) {
		fate := r.Intn(12)
		if gone == 0 && fate == 0 && (live && c.live || !live && c.replays) {
			gone = 1 + r.Intn(4)
		}
		if gone > 0 {
			gone--
			s.n++
			return
		}
		if fate == 1 && (live || c.restarts) {
			s.recall()
		}
		say(e)
	}
	for range 1 + r.Intn(5) {
		s.restart()
		for _, e := range buffer {
			send(e, false)
		}
		for range 1 + r.Intn(15) {
			e := &event{word: fmt.Sprint(count)}
			count++
			if c.words > 0 {
				e.word = fmt.Sprint(r.Intn(c.words))
			}
			if buffer = append(buffer, e); len(buffer) > c.buffer && c.buffer > 0 {
				buffer = buffer[1:]
			}
			send(e, true)
			if c.others && r.Intn(3) == 0 {
				s.n++
			}
			if c.posts && r.Intn(3) == 0 {
				s.publish("agent.status", fmt.Sprint("posted ", s.time))
			}
		}
		gone = 0
	}
	s.restart()
	for _, e := range buffer {
		say(e)
	}
	for _, word := range s.log {
		stored[word]++
	}
	return said, stored
}
