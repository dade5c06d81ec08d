package nemo

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

// openPoints opens the resume points of a folder. Those opened on it before count as killed.
func openPoints(dir string, now *time.Time) *resumePoints {
	return newResumePoints(dir, nil, func() time.Time { return *now }, slog.New(slog.DiscardHandler))
}

func positionAt(seq chat.Seq) position { return position{Cursor: chat.Cursor{Seq: seq}, Base: 1} }

func TestResumePointSurvivesKills(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	r := openPoints(dir, &now)
	tab := &subscription{}
	r.add("k", tab)
	r.save(tab, positionAt(5))
	for i := range 3 {
		r = openPoints(dir, &now)
		if got, ok, _ := r.resume(t.Context(), "k", &subscription{}); !ok || !got.equal(positionAt(5)) {
			t.Fatalf("after kill %d: %v, %t", i+1, got, ok)
		}
		if got, ok, _ := r.resume(t.Context(), "other", &subscription{}); ok {
			t.Fatalf("after kill %d another conversation has %v", i+1, got)
		}
	}
	if got, ok, _ := r.resume(t.Context(), "k", &subscription{}); ok {
		t.Errorf("a second client gets %v", got)
	}
}

// After a message from a new connection, a tab that connects later does not get what was sent before.
func TestMessageRemovesDepartedPoints(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	r := openPoints(dir, &now)
	departed, sender := &subscription{}, &subscription{}
	r.add("k", departed)
	r.depart(departed, positionAt(3), connectionLost)
	r.addSender("k", sender)
	if got, ok, _ := r.resume(t.Context(), "k", &subscription{}); ok {
		t.Errorf("a new tab gets %v", got)
	}
	r.depart(sender, positionAt(9), connectionLost)
	r = openPoints(dir, &now)
	if got, ok, _ := r.resume(t.Context(), "k", &subscription{}); !ok || !got.equal(positionAt(9)) {
		t.Errorf("after a restart: %v, %t", got, ok)
	}
}

func TestOnlyClientResumesMuchLater(t *testing.T) {
	now := time.Now()
	r := openPoints("", &now)
	tab := &subscription{}
	r.add("k", tab)
	r.depart(tab, positionAt(5), connectionLost)
	now = now.Add(2 * reconnectWindow)
	if got, ok, _ := r.resume(t.Context(), "k", &subscription{}); !ok || !got.equal(positionAt(5)) {
		t.Errorf("got %v, %t", got, ok)
	}
}

func TestResumePointsAreBounded(t *testing.T) {
	now := time.Now()
	r := openPoints("", &now)
	const followed = 100
	for i := range followed {
		r.add(fmt.Sprint("followed", i), &subscription{})
	}
	visit := func(r *resumePoints, key string) {
		tab := &subscription{}
		r.add(key, tab)
		r.depart(tab, positionAt(5), connectionLost)
	}
	for i := range maxConversations {
		visit(r, fmt.Sprint("k", i))
	}
	if n := len(r.byKey); n > maxConversations {
		t.Errorf("%d conversations are remembered", n)
	}
	for i := range followed {
		if r.byKey[fmt.Sprint("followed", i)] == nil {
			t.Errorf("number %d has a connected client and was forgotten", i)
		}
	}
}

func TestDepartedClientsResume(t *testing.T) {
	at := func(seq chat.Seq, bytes int) position {
		return position{Cursor: chat.Cursor{Seq: seq, Blocks: []chat.Mark{{Block: "b", Bytes: bytes}}}, Base: 1}
	}
	type departure struct {
		at    position
		ago   time.Duration
		state clientState
	}
	for _, c := range []struct {
		name     string
		live     int
		departed []departure
		want     []position // of those that return, one after the other
	}{
		{name: "nobody departed"},
		{name: "one, long ago", departed: []departure{{at(3, 0), time.Hour, clientClosed}}, want: []position{at(3, 0)}},
		{name: "long ago, others are connected", live: 1, departed: []departure{{at(3, 0), time.Hour, clientClosed}}},
		{name: "broke a moment ago, others are connected", live: 1, departed: []departure{{at(3, 0), 50 * time.Second, connectionLost}}, want: []position{at(3, 0)}},
		{name: "unloaded too long ago for a reload, others are connected", live: 1, departed: []departure{{at(3, 0), 50 * time.Second, pageUnloaded}}},
		{name: "unloaded a moment ago, others are connected", live: 1, departed: []departure{{at(3, 0), 5 * time.Second, pageUnloaded}}, want: []position{at(3, 0)}},
		{
			name:     "three in one outage",
			departed: []departure{{at(3, 9), 0, connectionLost}, {at(3, 5), 0, connectionLost}, {justBefore(5), 0, connectionLost}},
			want:     []position{at(3, 5), at(3, 5), at(3, 5)},
		},
		{
			name:     "one long before the other",
			departed: []departure{{at(2, 9), 2 * time.Minute, connectionLost}, {at(3, 5), 0, connectionLost}},
			want:     []position{at(3, 5)},
		},
	} {
		now := time.Now()
		r := openPoints("", &now)
		for range c.live {
			tab := &subscription{}
			r.add("k", tab)
			r.save(tab, at(9, 0))
		}
		end := now
		for _, d := range c.departed {
			tab := &subscription{}
			r.add("k", tab)
			now = end.Add(-d.ago)
			r.depart(tab, d.at, d.state)
		}
		now = end
		for i, want := range c.want {
			if got, ok, _ := r.resume(t.Context(), "k", &subscription{}); !ok || !got.equal(want) {
				t.Errorf("%s: number %d gets %v, want %v", c.name, i, got, want)
			}
		}
		if got, ok, _ := r.resume(t.Context(), "k", &subscription{}); ok {
			t.Errorf("%s: another one gets %v", c.name, got)
		}
	}
}

// The position of several tabs has nothing that one of them lacks.
func TestPositionOfSeveralTabs(t *testing.T) {
	at := func(cursor string, base, held, shown chat.Seq) position {
		c, err := chat.ParseCursor(cursor)
		if err != nil {
			t.Fatal(err)
		}
		return position{c, base, held, shown}
	}
	for _, c := range []struct {
		name       string
		a, b, want position
	}{
		{"the later one has less of an open block", at("20~b.195", 9, 0, 0), at("21~b.100", 9, 0, 0), at("20~b.100", 9, 0, 0)},
		{"the later one has less of one block and more of another", at("20~a.5~b.195", 9, 0, 0), at("21~b.100~a.7", 9, 0, 0), at("20~a.5~b.100", 9, 0, 0)},
		{"the later one has begun a block", at("20", 9, 0, 0), at("21~b.100", 9, 0, 0), at("20", 9, 0, 0)},
		{"the later one may not have begun the block", at("20~b.195", 9, 0, 0), at("21", 9, 0, 0), at("20", 9, 0, 0)},
		{"the later one has the end of the turn", at("20~b.195", 9, 0, 0), at("22", 23, 0, 0), at("20~b.195", 9, 0, 0)},
		{"the later one has the next turn", at("20~b.195", 9, 0, 0), at("25~c.8", 24, 0, 0), at("20~b.195", 9, 0, 0)},
		{"only one has the block", at("20~b.195", 9, 0, 0), at("20", 9, 0, 0), at("20", 9, 0, 0)},
		{"different prompts and notifications", at("20", 9, 12, 11), at("20", 9, 0, 14), at("20", 9, 12, 0)},
		{"the same prompt", at("20", 9, 12, 11), at("20", 9, 15, 11), at("20", 9, 12, 11)},
	} {
		if got := c.a.lower(c.b); !got.equal(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if got := c.b.lower(c.a); !got.equal(c.want) {
			t.Errorf("%s, the other way: %v, want %v", c.name, got, c.want)
		}
	}
	now := time.Now()
	r := openPoints("", &now)
	for _, p := range []position{at("20~b.195", 9, 0, 0), at("21~b.100", 9, 0, 0)} {
		tab := &subscription{}
		r.add("k", tab)
		r.depart(tab, p, connectionLost)
	}
	for i := range 2 {
		if got, ok, _ := r.resume(t.Context(), "k", &subscription{}); !ok || !got.equal(at("20~b.100", 9, 0, 0)) {
			t.Errorf("number %d resumes at %v, %t", i, got, ok)
		}
	}
}

// A client that never returns is forgotten after its time, however often another one reconnects meanwhile. That one may do so at any node.
func TestClientThatNeverReturnsIsForgotten(t *testing.T) {
	now := time.UnixMicro(1_800_000_000_000_000) // nodes tell each other microseconds
	single := openPoints("", &now)
	var nodes [2]*resumePoints
	for i, name := range []string{"one", "two"} {
		n := &Nodes{Name: name, Others: func() int { return 1 }, Least: 1, Broadcast: func(data []byte) {
			var m nodeMessage
			if err := json.Unmarshal(data, &m); err != nil {
				t.Error(err)
			}
			nodes[1-i].receive(&m)
		}}
		nodes[i] = newResumePoints("", n, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	}
	for name, at := range map[string]func(try int) *resumePoints{
		"a single server": func(int) *resumePoints { return single },
		"two nodes":       func(try int) *resumePoints { return nodes[try%2] },
	} {
		start := now
		gone, client := &subscription{}, &subscription{}
		r := at(0)
		r.add("k", gone)
		r.add("k", client)
		r.depart(client, positionAt(5), connectionLost)
		r.depart(gone, positionAt(3), connectionLost)
		for try := 1; try < 6; try++ {
			now = now.Add(30 * time.Second)
			r = at(try)
			client = &subscription{}
			got, ok, err := r.resume(t.Context(), "k", client)
			want := positionAt(chat.Seq(10 * (try - 1)))
			if now.Sub(start) <= reconnectWindow {
				want = positionAt(3)
			}
			if !ok || err != nil || !got.equal(want) {
				t.Errorf("%s: after %s the client gets %v, %t, %v, want %v", name, now.Sub(start), got, ok, err, want)
			}
			r.depart(client, positionAt(chat.Seq(10*try)), connectionLost)
		}
	}
}

// A client whose connection ends while the other nodes are asked is not taken for one that is connected, or has departed.
func TestResumeWithoutAConnection(t *testing.T) {
	now := time.Now()
	r := openPoints("", &now)
	tab := &subscription{}
	r.add("k", tab)
	r.depart(tab, positionAt(5), connectionLost)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, key := range []string{"k", "other"} {
		if got, ok, err := r.resume(ended, key, &subscription{}); ok || err == nil {
			t.Errorf("%s: got %v, %t, %v", key, got, ok, err)
		}
	}
	r.senderLeft("k", "c1", 9)
	if p := r.byKey["k"]; len(p.live) != 0 || len(p.departed) != 1 || p.departed[0].count != 1 || len(r.byKey) != 1 {
		t.Errorf("recorded are %d clients, %v", len(p.live), p.departed)
	}
}

// Many tabs disconnect in one outage: all that return continue from the lowest position, also after a restart.
func TestManyTabsInOneOutage(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	r := openPoints(dir, &now)
	before := &subscription{} // it departed long before them
	r.add("k", before)
	r.depart(before, positionAt(1), connectionLost)
	now = now.Add(2 * reconnectWindow)
	var tabs []*subscription
	for range 12 {
		tab := &subscription{}
		r.add("k", tab)
		tabs = append(tabs, tab)
	}
	for i, tab := range tabs {
		seq := chat.Seq(7)
		if i == 1 {
			seq = 3
		}
		r.depart(tab, positionAt(seq), connectionLost)
	}
	for name, r := range map[string]*resumePoints{"at once": r, "after a restart": openPoints(dir, &now)} {
		for i := range tabs {
			if got, ok, _ := r.resume(t.Context(), "k", &subscription{}); !ok || !got.equal(positionAt(3)) {
				t.Errorf("%s: number %d resumes at %v, %t", name, i, got, ok)
			}
		}
	}
}
