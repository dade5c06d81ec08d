package llm

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

func whole(s *script) []Message {
	f := NewFold(Options{})
	for i := range s.events {
		f.Apply(&s.events[i])
	}
	return append(append([]Message(nil), f.Messages()...), f.Waiting()...)
}

func jsonOf(ms []Message) []string {
	out := make([]string, len(ms))
	for i := range ms {
		out[i] = string(ms[i].AppendJSON(nil))
	}
	return out
}

func same(t rapid.TB, what string, want, got []string) {
	t.Helper()
	if len(want) != len(got) {
		i := 0
		for i < len(want) && i < len(got) && want[i] == got[i] {
			i++
		}
		t.Fatalf("%s: %d messages, want %d, the first that differs is %d of\n got %v\nwant %v", what, len(got), len(want), i, clipAll(got[min(i, len(got)):]), clipAll(want[min(i, len(want)):]))
	}
	for i := range want {
		if want[i] != got[i] {
			t.Fatalf("%s: message %d\n got %s\nwant %s", what, i, got[i], want[i])
		}
	}
}

func clipAll(list []string) []string { return list[:min(3, len(list))] }

// Pages of any size, in both orders, joined equal the fold of the whole log.
func TestPagesAreTheFold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := randomLog(rt, 200)
		want := jsonOf(whole(s))
		limit := rapid.IntRange(1, 20).Draw(rt, "limit")
		for _, desc := range []bool{false, true} {
			var got []string
			q := Query{Limit: limit, Desc: desc}
			for range len(want) + 2 {
				p, err := List(t.Context(), s, q)
				if err != nil {
					rt.Fatal(err)
				}
				page := jsonOf(p.Messages)
				if desc {
					for _, m := range page {
						got = append([]string{m}, got...)
					}
				} else {
					got = append(got, page...)
				}
				if !p.More {
					break
				}
				if last := p.Messages[len(p.Messages)-1].ID; desc {
					q.Before = last
				} else {
					q.After = last
				}
			}
			same(rt, fmt.Sprintf("limit %d desc %v", limit, desc), want, got)
		}
	})
}

// A query with both marks returns the messages between them, in both orders.
func TestPagesBetweenMarks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := randomLog(rt, 200)
		ms := whole(s)
		if len(ms) < 2 {
			return
		}
		a := rapid.IntRange(0, len(ms)-2).Draw(rt, "after")
		b := rapid.IntRange(a+1, len(ms)-1).Draw(rt, "before")
		want := jsonOf(ms[a+1 : b])
		for _, desc := range []bool{false, true} {
			p, err := List(t.Context(), s, Query{After: ms[a].ID, Before: ms[b].ID, Limit: 1000, Desc: desc})
			if err != nil {
				rt.Fatal(err)
			}
			got := jsonOf(p.Messages)
			if desc {
				for i, j := 0, len(got)-1; i < j; i, j = i+1, j-1 {
					got[i], got[j] = got[j], got[i]
				}
			}
			same(rt, fmt.Sprintf("between, desc %v", desc), want, got)
		}
	})
}

// The sequence of any event is a mark, also in the middle of a turn. The page has the
// times of the events that added the messages.
func TestPagesBySequence(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := randomLog(rt, 120)
		f := NewFold(Options{})
		for i := range s.events {
			f.Apply(&s.events[i])
		}
		added := func(i int) chat.At { return s.events[f.sequences[i]-1].At }
		ms := append(append([]Message(nil), f.Messages()...), f.Waiting()...)
		seq := chat.Seq(rapid.IntRange(0, len(s.events)+1).Draw(rt, "sequence"))
		first := func(seq chat.Seq) (i int) {
			for i < len(f.sequences) && f.sequences[i] < seq {
				i++
			}
			return i
		}
		for _, desc := range []bool{false, true} {
			for _, c := range []struct {
				q        Query
				from, to int
			}{
				{Query{After: fmt.Sprint(seq), Desc: desc}, first(seq + 1), len(ms)},
				{Query{Before: fmt.Sprint(seq), Desc: desc}, 0, first(seq)},
				{Query{Before: fmt.Sprint(seq), Desc: desc, Limit: 2}, 0, first(seq)},
			} {
				p, err := List(t.Context(), s, c.q)
				if err != nil {
					rt.Fatal(err)
				}
				got := jsonOf(p.Messages)
				if desc {
					slices.Reverse(got)
					slices.Reverse(p.Times)
				}
				if n := c.q.Limit; n > 0 && c.to-c.from > n {
					if c.to = c.from + n; desc {
						c.from, c.to = first(seq)-n, first(seq)
					}
				}
				same(rt, fmt.Sprintf("%+v", c.q), jsonOf(ms[c.from:c.to]), got)
				for i, at := range p.Times {
					if n := c.from + i; n < len(f.sequences) && at != added(n) || n >= len(f.sequences) && at != math.MaxInt64 {
						rt.Fatalf("%+v: message %d came at %d", c.q, n, at)
					}
				}
			}
		}
	})
}

// No two messages of a fold have the same id, each id contains the sequence of an
// event, and encoding and decoding changes no message.
func TestFoldedMessagesAreDistinct(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := randomLog(rt, 120)
		f := NewFold(Options{})
		seen := map[string]bool{}
		for i := range s.events {
			f.Apply(&s.events[i])
		}
		for _, m := range f.Messages() {
			if seen[m.ID] {
				rt.Fatalf("id %s comes twice", m.ID)
			}
			seen[m.ID] = true
			if seq, ok := SeqOf(m.ID); !ok || seq == 0 || seq > s.state.Last {
				rt.Fatalf("id %s names no event", m.ID)
			}
			back, err := decodeMessage(m.AppendJSON(nil))
			if err != nil || !bytes.Equal(back.AppendJSON(nil), m.AppendJSON(nil)) {
				rt.Fatalf("%v: %s became %s", err, m.AppendJSON(nil), back.AppendJSON(nil))
			}
		}
		same(rt, "again", jsonOf(f.Messages()), jsonOf(foldAll(s.events, Options{})))
	})
}

func TestListRefusesInvalidMarks(t *testing.T) {
	s := newScript()
	for _, q := range []Query{{After: "nonsense"}, {Before: "message-zz"}, {After: "42~b7.1"}} {
		if _, err := List(t.Context(), s, q); chat.CodeOf(err) != chat.Invalid {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// The id of a message of another session is refused.
func TestListRefusesMarksOfOtherSessions(t *testing.T) {
	s := newScript()
	s.user("q")
	s.agent(chat.AgentText{Text: "a"})
	s.done()
	other := core.NumberFor("s-2", 0)
	for seq := range chat.Seq(9) {
		id := chat.MakeID(other, seq)
		mark := IDPrefix + id.UUID()
		for _, q := range []Query{{After: mark}, {Before: mark}, {After: mark, Desc: true}, {Before: mark, Desc: true, Limit: 1}} {
			if _, err := List(t.Context(), s, q); chat.CodeOf(err) != chat.NotFound {
				t.Errorf("%+v: %v", q, err)
			}
		}
	}
	for _, m := range foldAll(s.events, Options{}) {
		if _, err := List(t.Context(), s, Query{After: m.ID}); err != nil {
			t.Error(err)
		}
	}
}

func TestListBySequence(t *testing.T) {
	s := newScript()
	for i := range 5 {
		s.user(fmt.Sprint("q", i))
		s.agent(chat.AgentText{Text: fmt.Sprint("a", i)})
		s.done()
	}
	p, err := List(t.Context(), s, Query{After: "5", Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Messages) != 2 || !p.More || p.Messages[0].PlainText() != "q1" {
		t.Errorf("after 5: %v %v", jsonOf(p.Messages), p.More)
	}
	p, err = List(t.Context(), s, Query{Before: "5", Limit: 10, Desc: true})
	if err != nil || len(p.Messages) != 2 || p.More || p.Messages[0].PlainText() != "a0" {
		t.Errorf("before 5: %v %v %v", jsonOf(p.Messages), p.More, err)
	}
}
