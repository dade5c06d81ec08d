package x1

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/parley-hq/parley/chat"
)

// publisher is an old sidecar: a counter that begins at 0 with every life.
type publisher struct {
	t    interface{ Fatal(...any) }
	p    *past
	n    int64
	time int
	now  time.Time
	log  []string // what was taken as new, in order

	buffer int // what the agent repeats, at most; 0 means as much as one of x1
	stored []chat.Event
	runs   func() bool // whether what came last is the end of a run of arrivals; nil means that it is
}

func (s *publisher) publish(typ, text string) verdict {
	s.time++
	m := Message{Type: typ, Payload: json.RawMessage(fmt.Sprintf(`{"text":%q}`, text)), Sequence: &[]int64{s.n}[0]}
	s.n++
	raw := fmt.Sprint(s.time, *m.Sequence, typ, text)
	v, d := s.p.judge(&m, []byte(raw), s.now)
	if v == fresh {
		s.stored = append(s.stored, chat.Event{Type: typ, ClientID: s.p.key(&m, d, int64(s.time)), Via: via})
		s.p.note(d, &m)
		s.log = append(s.log, text)
	}
	if s.runs == nil || s.runs() {
		s.flush()
	}
	return v
}

// flush is the end of a run of arrivals.
func (s *publisher) flush() {
	if r, ok := s.p.news(); ok {
		payload, _ := json.Marshal(r)
		s.stored = append(s.stored, chat.Event{Type: ReplayedType, Payload: payload, Actor: chat.System, Via: via})
	}
}

// recall is a restart of the server: it knows what is in the log.
func (s *publisher) recall() {
	s.p = newPast()
	if s.buffer > 0 {
		s.p.buffer = s.buffer
	}
	for i := range s.stored {
		s.p.recall(&s.stored[i])
	}
}

func (s *publisher) say(texts ...string) {
	for _, x := range texts {
		s.publish("agent.text", x)
	}
}

func (s *publisher) restart() { s.n = 0 }

func (s *publisher) want(texts ...string) {
	if !slices.Equal(s.log, texts) {
		s.t.Fatal(fmt.Sprintf("have %q, want %q", s.log, texts))
	}
}

func TestReplayIsRecognisedByContent(t *testing.T) {
	s := &publisher{t: t, p: newPast()}
	s.say("a", "b", "c")
	s.restart()
	s.say("a", "b", "c", "d")
	s.want("a", "b", "c", "d")
	s.restart()
	s.say("a", "b", "c", "d")
	s.say("e")
	s.want("a", "b", "c", "d", "e")
}

func TestNewEventsOnOldNumbersAreKept(t *testing.T) {
	s := &publisher{t: t, p: newPast()}
	s.say("a", "b", "c")
	s.restart()
	s.say("x", "y", "z")
	s.want("a", "b", "c", "x", "y", "z")
	s.restart()
	s.say("new", "x", "a", "newer", "c") // said again, on higher numbers than before
	s.want("a", "b", "c", "x", "y", "z", "new", "x", "a", "newer", "c")
}

func TestWhatWasPostedIsNotReplayed(t *testing.T) {
	s := &publisher{t: t, p: newPast()}
	s.say("a")
	s.publish("agent.status", "working")
	s.say("b")
	s.publish("agent.status", "working")
	s.say("c")
	s.restart()
	s.say("a", "b", "c") // slid to other numbers
	s.publish("agent.status", "working")
	s.say("d")
	s.want("a", "working", "b", "working", "c", "working", "d")
}

// A status that comes before the replay does not lead it astray.
func TestWhatIsPostedBeforeAReplayIsNew(t *testing.T) {
	s := &publisher{t: t, p: newPast()}
	s.say("a")
	s.publish("agent.status", "working")
	s.say("b")
	s.restart()
	s.publish("agent.status", "working")
	s.say("a", "b", "c")
	s.want("a", "working", "b", "working", "c")
}

// An agent that starts anew says so first; only if it then goes on as before is
// that a replay.
func TestAStartIsNoProofOfAReplay(t *testing.T) {
	s := &publisher{t: t, p: newPast()}
	s.publish("session.started", "start")
	s.say("a", "b")
	s.restart()
	s.publish("session.started", "start")
	s.say("x", "a", "b")
	s.want("start", "a", "b", "x", "a", "b")
	s.restart()
	s.publish("session.started", "start")
	s.say("a", "b", "c")
	s.want("start", "a", "b", "x", "a", "b", "c")
}

// A buffer is repeated in one go: what is said much later was said again.
func TestAReplayEndsWithSilence(t *testing.T) {
	s := &publisher{t: t, p: newPast(), now: time.Unix(0, 0)}
	s.say("a", "b", "c")
	s.restart()
	s.say("a")
	s.now = s.now.Add(replayPause + time.Second)
	s.say("b")
	s.want("a", "b", "c", "b")
}

// That the server was away is no silence of the publisher.
func TestARestartOfTheServerIsNoSilence(t *testing.T) {
	s := &publisher{t: t, p: newPast(), now: time.Unix(0, 0)}
	s.say("a", "b", "c")
	s.restart()
	s.say("a")
	s.recall()
	s.now = s.now.Add(replayPause + time.Second)
	s.say("b", "c", "d")
	s.want("a", "b", "c", "d")
}

func TestAReplayThatBeginsLater(t *testing.T) {
	s := &publisher{t: t, p: newPast()}
	s.say("a", "a", "b", "a", "c")
	s.restart()
	s.say("b", "a", "c", "a")
	s.want("a", "a", "b", "a", "c", "a")
}

func TestWhatNeverArrivedIsTakenFromTheReplay(t *testing.T) {
	s := &publisher{t: t, p: newPast()}
	s.say("a", "b")
	s.n++ // c does not arrive
	s.say("d")
	s.restart()
	s.say("a", "b", "c", "d", "e")
	s.want("a", "b", "d", "c", "e")
}

// Whatever a publisher counts, what it says is stored, and at once.
func TestACounterThatLeaps(t *testing.T) {
	s := &publisher{t: t, p: newPast()}
	var all []string
	for i, n := range []int64{0, 1 << 62, math.MaxInt64, 0, 1 << 40, 7, 6, -1, 5, math.MinInt64, 0} {
		s.n = n
		all = append(all, fmt.Sprint("text ", i))
		s.say(all[i])
		s.recall()
	}
	s.want(all...)
}

func TestTheSameMessageTwiceIsOne(t *testing.T) {
	p := newPast()
	n := int64(0)
	m := Message{Type: "agent.text", Payload: json.RawMessage(`{"text":"a"}`), Sequence: &n}
	v, d := p.judge(&m, []byte("raw"), time.Time{})
	p.note(d, &m)
	if again, _ := p.judge(&m, []byte("raw"), time.Time{}); v != fresh || again != copied || p.epoch != 0 {
		t.Fatal(v, again, p.epoch)
	}
}

// What never arrived has its place in the past once it is there, so that no later
// replay goes astray.
func TestWhatCameLateIsNotTakenTwice(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		s := &publisher{t: t, p: newPast()}
		s.say("a", "b")
		s.n++ // c does not arrive
		s.say("d", "d")
		s.n += 2 // nor do e and d
		s.say("f")
		for _, next := range []string{"g", "h", "i"} {
			s.restart()
			if restarts {
				s.recall()
			}
			s.say("a", "b", "c", "d", "d", "e", "d", "f")
			for _, text := range []string{"g", "h", "i"} {
				if s.say(text); text == next {
					break
				}
			}
		}
		s.want("a", "b", "d", "d", "f", "c", "e", "d", "g", "h", "i")
	}
}

// Of two that are the same one was lost: whichever it was, both are stored.
func TestOneOfTwoWasLost(t *testing.T) {
	for lost := 1; lost < 5; lost++ {
		s := &publisher{t: t, p: newPast()}
		words := []string{"a", "same", "b", "same", "c"}
		for i, text := range words {
			if i == lost {
				s.n++
				continue
			}
			s.say(text)
		}
		for range 3 {
			s.restart()
			s.say(words...)
			slices.Sort(s.log)
			s.want("a", "b", "c", "same", "same")
		}
	}
}

// The server is killed and started again in the middle of a replay: what comes next
// may be something that it never heard.
func TestARestartInTheMiddleOfAReplay(t *testing.T) {
	s := &publisher{t: t, p: newPast()}
	s.say("a", "b")
	s.n++ // c does not arrive
	s.say("d", "e", "f")
	s.restart()
	s.say("a", "b")
	s.recall()
	s.say("c", "d", "e", "f", "g")
	s.want("a", "b", "d", "e", "f", "c", "g")
	s.restart()
	s.say("a", "b", "c", "d", "e", "f", "g", "h")
	s.want("a", "b", "d", "e", "f", "c", "g", "h")
}

// Messages are lost, publishers and servers are restarted at any moment: in the end,
// after a replay that arrives, each word is stored. If no replay was cut, which come
// in one go, none is stored twice.
func TestReplayUnderLossProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &publisher{t: t, p: newPast()}
		whole := rapid.Bool().Draw(t, "replays arrive whole")
		var buffer []string
		send := func(text string, live bool) {
			fate := rapid.IntRange(0, 10).Draw(t, "fate")
			switch {
			case !live && whole:
			case fate == 0:
				s.n++ // lost
				return
			case fate == 1:
				s.recall()
			}
			s.say(text)
		}
		for life := range rapid.IntRange(1, 6).Draw(t, "lives") {
			s.restart()
			for _, text := range buffer {
				send(text, false)
			}
			for i := range rapid.IntRange(1, 20).Draw(t, "events") {
				buffer = append(buffer, fmt.Sprint(life, "-", i))
				send(buffer[len(buffer)-1], true)
			}
		}
		s.restart()
		s.say(buffer...)
		for _, text := range buffer {
			if !slices.Contains(s.log, text) {
				t.Fatalf("%s is lost", text)
			}
		}
		if whole && len(s.log) != len(buffer) {
			t.Fatalf("of %d there are %d: %q", len(buffer), len(s.log), s.log)
		}
	})
}

// Whatever an agent says and however often its sidecar dies: nothing is lost,
// and a replay adds nothing, as long as the texts differ.
func TestReplayProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &publisher{t: t, p: newPast()}
		var buffer, all []string
		for life := range rapid.IntRange(1, 6).Draw(t, "lives") {
			if life > 0 {
				s.restart()
				s.say(buffer...)
			}
			for i := range rapid.IntRange(0, 20).Draw(t, "events") {
				text := fmt.Sprint(life, "-", i)
				all = append(all, text)
				if rapid.Bool().Draw(t, "posted") {
					s.publish("agent.status", text)
					continue
				}
				buffer = append(buffer, text)
				s.say(text)
			}
			if cut := rapid.IntRange(0, 8).Draw(t, "cut"); len(buffer) > 8 {
				buffer = buffer[cut:]
			}
		}
		s.want(all...)
	})
}
