package x1

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/parley-hq/parley/chat"
)

// foreignPublisher is an x1 sidecar: it gives no ids, and its counter begins at 0 in each run.
type foreignPublisher struct {
	t      interface{ Fatalf(string, ...any) }
	filter *replayFilter
	n      int64
	moment int64
	now    time.Time
	log    []chat.Event
	texts  []string // what was stored, in order
}

func newForeignPublisher(t interface{ Fatalf(string, ...any) }) *foreignPublisher {
	return &foreignPublisher{t: t, filter: newReplayFilter(), now: time.Unix(0, 0)}
}

func (p *foreignPublisher) publish(typ, text string) {
	p.moment++
	n := p.n
	p.n++
	m := Message{Type: typ, Payload: json.RawMessage(fmt.Sprintf(`{"text":%q}`, text)), Sequence: &n}
	if p.filter.copied(fmt.Append(nil, p.moment, n, typ, text)) {
		p.t.Fatalf("%s is taken for a copy", text)
	}
	p.filter.count(&m, p.now)
	d := DigestOf(m.Type, m.Payload)
	if p.filter.repeated(&m, d) {
		return
	}
	p.log = append(p.log, chat.Event{Type: typ, ClientID: p.filter.key(&m, d, p.moment), Via: via})
	if sequenceOf(&m) >= 0 {
		p.filter.add(typ, d)
	}
	p.texts = append(p.texts, text)
}

func (p *foreignPublisher) say(texts ...string) {
	for _, text := range texts {
		p.publish("agent.text", text)
	}
}

// lose sends messages that do not arrive.
func (p *foreignPublisher) lose(n int64) { p.n += n }

func (p *foreignPublisher) restart() { p.n = 0 }

func (p *foreignPublisher) restartServer() {
	p.filter = newReplayFilter()
	for i := range p.log {
		p.filter.recall(&p.log[i])
	}
}

// Each case is a script. A word is sent as agent.text; "/" restarts the publisher,
// "!" the server; "~" is a silence; "-word" does not arrive; "status:…" and
// "start:…" are posted.
func TestReplayOfAPublisherWithoutIDs(t *testing.T) {
	for _, c := range []struct{ name, script, stored string }{
		{"a replay adds nothing", "a b c / a b c d / a b c d e", "a b c d e"},
		{"also after a restart of the server", "a b c ! / a b c d ! / a b c d e", "a b c d e"},
		{"the same text twice is said twice", "a a b a / a a b a a", "a a b a a"},
		{"new texts on old numbers are new", "a b c / x y z / new x a newer c", "a b c x y z new x a newer c"},
		{"posted events are never repetitions", "a status:w b status:w c / a b c status:w d", "a status:w b status:w c status:w d"},
		{"a posted event before a replay", "a status:w b / status:w ! a b c", "a status:w b status:w c"},
		{"a known start is no proof of a replay", "start:s a b / start:s x a b", "start:s a b x a b"},
		{"a known start before a replay", "start:s a b / start:s a b c", "start:s a b c"},
		{"an unknown start is another agent", "start:s a b / start:t a b", "start:s a b start:t a b"},
		{"a buffer that has lost its first events", "a b c d e / c d e f", "a b c d e f"},
		{"an ambiguous beginning is decided by what follows", "a x b a y / a y z", "a x b a y z"},
		{"after a silence all is new", "a b c / a ~ b", "a b c b"},
		{"a restart of the server is no silence", "a b c / a ! ~ b c d", "a b c d"},
		{"a lost event is stored when it is repeated", "a b -c d / a b c d e / a b c d e f", "a b d c e f"},
		{"also after a restart of the server", "a b -c d / a b c ! d e ! / a b c d e f", "a b d c e f"},
		{"one of two that are the same was lost", "a -s b s c / a s b s c / a s b s c", "a b s c s"},
		{"messages of a replay are lost", "a b c d e / a -b -c d e f", "a b c d e f"},
		{"lost at first, stored in a replay, lost again", "a b -c d e / a -b c d e f / a b c d e f g", "a b d e c f g"},
		{"the server is restarted in a replay", "a b c d / a b ! c d e", "a b c d e"},

		// In doubt an event is stored twice.
		{"doubled: the first event of the buffer was lost", "-a b c / a b c d / a b c d e", "b c a b c d e"},
		{"doubled: a lost event follows a restart of the server", "a -b c d / a ! b c d e / a b c d e f", "a c d b c d e b e f"},
		{"doubled: what can be the end of the replay", "a o o o o o / o o o o o", "a o o o o o o o"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newForeignPublisher(t)
			for word := range strings.FieldsSeq(c.script) {
				switch {
				case word == "/":
					p.restart()
				case word == "!":
					p.restartServer()
				case word == "~":
					p.now = p.now.Add(replayPause + time.Second)
				case word[0] == '-':
					p.lose(1)
				case strings.HasPrefix(word, "status:"):
					p.publish("agent.status", word)
				case strings.HasPrefix(word, "start:"):
					p.publish("session.started", word)
				default:
					p.say(word)
				}
			}
			if have := strings.Join(p.texts, " "); have != c.stored {
				t.Errorf("stored %q, want %q", have, c.stored)
			}
		})
	}
}

func TestAnyCounterIsAccepted(t *testing.T) {
	p := newForeignPublisher(t)
	var all []string
	for i, n := range []int64{0, 1 << 62, math.MaxInt64, 0, 1 << 40, 7, 6, -1, 5, math.MinInt64, 0} {
		p.n = n
		all = append(all, fmt.Sprint("text ", i))
		p.say(all[i])
		p.restartServer()
	}
	if !slices.Equal(p.texts, all) {
		t.Errorf("stored %q", p.texts)
	}
}

func TestTheSameBytesTwiceAreOneMessage(t *testing.T) {
	f := newReplayFilter()
	for i := range 2 * maxCopies {
		raw := fmt.Append(nil, i)
		if f.copied(raw) || !f.copied(raw) {
			t.Fatal(i)
		}
	}
	if len(f.copies) != maxCopies || len(f.order) != maxCopies {
		t.Errorf("%d are kept", len(f.copies))
	}
}

// Texts differ. Messages are lost, but not the first; publisher and server are
// restarted at any moment. After a replay that arrives nothing is lost. If the
// server was not restarted in a replay nothing is stored twice.
func TestReplayProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newForeignPublisher(t)
		whole := rapid.Bool().Draw(t, "replays arrive whole")
		p.say("first")
		buffer := []string{"first"}
		send := func(text string, live bool) {
			fate := rapid.IntRange(0, 10).Draw(t, "fate")
			switch {
			case !live && whole:
			case fate == 0:
				p.lose(1)
				return
			case fate == 1:
				p.restartServer()
			}
			p.say(text)
		}
		for run := range rapid.IntRange(1, 6).Draw(t, "runs") {
			p.restart()
			for _, text := range buffer {
				send(text, false)
			}
			for i := range rapid.IntRange(1, 20).Draw(t, "events") {
				buffer = append(buffer, fmt.Sprint(run, "-", i))
				send(buffer[len(buffer)-1], true)
				if rapid.Bool().Draw(t, "post") {
					p.publish("agent.status", "working")
				}
			}
		}
		p.restart()
		p.say(buffer...)
		stored := slices.DeleteFunc(p.texts, func(text string) bool { return text == "working" })
		for _, text := range buffer {
			if !slices.Contains(stored, text) {
				t.Fatalf("%s is lost", text)
			}
		}
		if whole && len(stored) != len(buffer) {
			t.Fatalf("of %d there are %d: %q", len(buffer), len(stored), stored)
		}
	})
}
