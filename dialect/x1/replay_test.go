package x1

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// publisher is an old sidecar: a counter that begins at 0 with every life.
type publisher struct {
	t    interface{ Fatal(...any) }
	p    *past
	n    int64
	time int
	log  []string // what was taken as new, in order
}

func (s *publisher) publish(typ, text string) verdict {
	s.time++
	m := Message{Type: typ, Payload: json.RawMessage(fmt.Sprintf(`{"text":%q}`, text)), Sequence: &[]int64{s.n}[0]}
	s.n++
	raw := fmt.Sprint(s.time, *m.Sequence, typ, text)
	v, d := s.p.judge(&m, []byte(raw))
	if v == fresh {
		s.p.note(d, typ)
		s.log = append(s.log, text)
	}
	return v
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

func TestAReplayThatBeginsLater(t *testing.T) {
	s := &publisher{t: t, p: newPast()}
	s.say("a", "a", "b", "a", "c")
	s.restart()
	s.say("b", "a", "c", "a")
	s.want("a", "a", "b", "a", "c", "a")
}

func TestWhatNeverArrivedIsTakenFromTheReplay(t *testing.T) {
	s := &publisher{t: t, p: newPast()}
	s.say("a", "b", "d")
	s.restart()
	s.say("a", "b", "c", "d", "e")
	s.want("a", "b", "d", "c", "e")
}

func TestTheSameMessageTwiceIsOne(t *testing.T) {
	p := newPast()
	n := int64(0)
	m := Message{Type: "agent.text", Payload: json.RawMessage(`{"text":"a"}`), Sequence: &n}
	v, d := p.judge(&m, []byte("raw"))
	p.note(d, m.Type)
	if again, _ := p.judge(&m, []byte("raw")); v != fresh || again != copied || p.epoch != 0 {
		t.Fatal(v, again, p.epoch)
	}
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
