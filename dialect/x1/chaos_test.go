package x1

import (
	"fmt"
	"math/rand"
	"testing"
)

// chaos is what happens to an old publisher and its server in a test.
type chaos struct {
	name     string
	words    int  // how many different ones the agent knows; 0 means that it never repeats itself
	posts    bool // some of what it says is posted
	live     bool // messages are lost
	replays  bool // also those of replays
	restarts bool // the server is restarted in replays, too
	doubled  int  // how many of all are stored twice, at most
}

// Messages are lost, publishers and servers are restarted at any moment. After a
// replay that arrives nothing is missing. What has its place is stored once, but
// for a few of many thousands: a place that was lost together with what was around
// it cannot always be told from another.
func TestReplaysInChaos(t *testing.T) {
	for _, c := range []chaos{
		{name: "nothing is lost"},
		{name: "nothing is lost, words come again", words: 5, posts: true, restarts: true, doubled: 2},
		{name: "live messages are lost", live: true},
		{name: "the server restarts in replays", live: true, restarts: true, doubled: 2},
		{name: "replays are lost in part", live: true, replays: true},
		{name: "replays are lost in part, words come again", words: 30, live: true, replays: true, doubled: 2},
		{name: "everything", words: 30, posts: true, live: true, replays: true, restarts: true, doubled: 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			doubled, of := 0, 0
			for seed := range int64(300) {
				said, stored := c.run(t, seed)
				for word, n := range said {
					of += n
					if stored[word] < n {
						t.Fatalf("seed %d: of %q %d of %d are stored", seed, word, stored[word], n)
					}
					doubled += stored[word] - n
				}
			}
			if t.Logf("%d of %d are doubled", doubled, of); doubled > c.doubled {
				t.Errorf("%d of %d are stored twice, at most %d should be", doubled, of, c.doubled)
			}
		})
	}
}

// run lets a publisher live some lives, and counts what it said and what is stored.
func (c chaos) run(t *testing.T, seed int64) (said, stored map[string]int) {
	r := rand.New(rand.NewSource(seed)) // always the same: a test does not depend on chance
	s := &publisher{t: t, p: newPast()}
	said, stored = map[string]int{}, map[string]int{}
	var buffer []string
	gone := 0 // messages that are lost in a row
	send := func(word string, live bool) {
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
		s.say(word)
	}
	for range 1 + r.Intn(5) {
		s.restart()
		for _, word := range buffer {
			send(word, false)
		}
		for range 1 + r.Intn(15) {
			word := fmt.Sprint(len(buffer))
			if c.words > 0 {
				word = fmt.Sprint(r.Intn(c.words))
			}
			buffer = append(buffer, word)
			said[word]++
			send(word, true)
			if c.posts && r.Intn(3) == 0 {
				s.publish("agent.status", fmt.Sprint("posted ", s.time))
			}
		}
		gone = 0
	}
	s.restart()
	s.say(buffer...)
	for _, word := range s.log {
		stored[word]++
	}
	return said, stored
}
