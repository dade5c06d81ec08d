package node

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/core"
)

// follow collects what a reader of a node sees of a session: the messages and the unfinished text.
func (c *testCluster) follow(ctx context.Context, i int, id chat.SessionID) (seen func() string) {
	var mu sync.Mutex
	var events []string
	open := ""
	go func() {
		for b, err := range c.members[i].sessions.Watch(ctx, ada, id, core.Start{Cursor: &chat.Cursor{}}, nil) {
			if err != nil {
				if ctx.Err() == nil {
					c.t.Errorf("a reader of node %d ended: %v", i, err)
				}
				return
			}
			mu.Lock()
			for _, e := range b.Entries {
				if p := e.Piece; p != nil {
					if p.Offset != len(open) {
						open += "<gap>"
					}
					open += p.Text
					continue
				}
				ev, err := e.Fact.Event()
				if err != nil {
					return
				}
				if m, ok := ev.Body.(chat.AgentText); ok {
					open = ""
					events = append(events, m.Text)
				}
			}
			mu.Unlock()
		}
	}()
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(events, "|") + "…" + open
	}
}

func TestReadersOfAllNodesSeeTextWhileItIsWritten(t *testing.T) {
	t.Parallel()
	for name, loses := range map[string]func() func() bool{
		"all messages arrive": func() func() bool { return nil },
		"every third is lost": func() func() bool { n := 0; return func() bool { n++; return n%3 == 0 } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			id := c.session(0)
			for _, m := range c.members {
				m.port.Loses = loses()
			}
			agent := ada
			var seen []func() string
			for i := range c.members {
				seen = append(seen, c.follow(t.Context(), i, id))
			}
			whole := ""
			for block := range 3 {
				written := ""
				name := chat.BlockID(fmt.Sprint("b", block))
				for n := range 20 {
					piece := fmt.Sprintf("%d.%d ", block, n)
					err := c.members[1].sessions.Preview(t.Context(), agent, id, []chat.Preview{{Block: name, Offset: len(written), Text: piece, Kind: chat.TextBlock}})
					if err != nil {
						t.Fatal(err)
					}
					written += piece
				}
				// The last piece may be lost, so the next one shows all before it.
				for n := 0; n < 3; n++ {
					piece := fmt.Sprint("end", n)
					if err := c.members[2].sessions.Preview(t.Context(), agent, id, []chat.Preview{{Block: name, Offset: len(written), Text: piece, Kind: chat.TextBlock}}); err != nil {
						t.Fatal(err)
					}
					written += piece
					if n == 1 {
						for _, s := range seen {
							eventually(t, "yes", func() string {
								if s := s(); strings.Contains(s, "<gap>") {
									t.Fatal(s)
								} else if strings.HasPrefix(s, whole+"…"+written[:len(written)-8]) {
									return "yes"
								}
								return s()
							})
						}
					}
				}
				_, err := c.members[0].sessions.Append(t.Context(), agent, id, []chat.Draft{chat.NewDraft(chat.AgentText{Block: name, Text: written}).As(string(name))})
				if err != nil {
					t.Fatal(err)
				}
				if whole != "" {
					whole += "|"
				}
				whole += written
				for _, s := range seen {
					eventually(t, whole+"…", s)
				}
			}
		})
	}
}

// The text of two blocks is written at the same time. Messages with text are slow, so an event would come to another node before
// text that was written before it.
func TestNodesShowTextBeforeTheEventsThatFollowIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.session(0)
	part := c.members[0].partOf(id).number
	owner := c.owner(id)
	other := (owner + 1) % len(c.members)
	c.members[other].parts[part].order.late = time.Minute
	hold := make(chan struct{})
	c.members[other].port.Hold = func() { <-hold }
	var mu sync.Mutex
	var at []chat.At
	go func() {
		for b, err := range c.members[other].sessions.Watch(t.Context(), ada, id, core.Start{Cursor: &chat.Cursor{}}, nil) {
			if err != nil {
				return
			}
			mu.Lock()
			for _, e := range b.Entries {
				at = append(at, e.At)
			}
			mu.Unlock()
		}
	}()
	shown := func() (s string) {
		mu.Lock()
		defer mu.Unlock()
		if !slices.IsSorted(at) {
			t.Fatalf("not in the order of positions: %v", at)
		}
		return fmt.Sprint(len(at))
	}
	begun := 0
	eventually(t, "yes", func() string {
		if begun, _ = strconv.Atoi(shown()); begun > 0 {
			return "yes"
		}
		return "nothing is shown"
	})
	written := 0
	for round := range 10 {
		if err := c.members[owner].sessions.Preview(t.Context(), ada, id, []chat.Preview{{Block: "open", Offset: written, Text: "text ", Kind: chat.TextBlock}}); err != nil {
			t.Fatal(err)
		}
		written += len("text ")
		if _, err := c.members[owner].sessions.Append(t.Context(), ada, id, []chat.Draft{chat.NewDraft(chat.AgentText{Text: fmt.Sprint("event ", round)})}); err != nil {
			t.Fatal(err)
		}
		pos := c.members[owner].parts[part].status().Copy.Pos
		early, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := c.members[other].parts[part].get().Reached(early, pos); err == nil {
			t.Error("an event was shown before the text that was written before it")
		}
		cancel()
		hold <- struct{}{}
		eventually(t, fmt.Sprint(begun+2*(round+1)), shown)
	}
}

// A message that is lost delays events once, not each of those that follow.
func TestEventsDoNotWaitForLostText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := previewOrder{late: previewLate}
		o.reached(1, 4)
		begun := time.Now()
		o.wait(1, 3)
		o.wait(1, 4)
		if d := time.Since(begun); d != 0 {
			t.Errorf("waited %s for text that is shown", d)
		}
		for number := range uint64(100) {
			o.wait(1, 5+number)
		}
		if d := time.Since(begun); d != previewLate {
			t.Errorf("waited %s, want %s", d, previewLate)
		}
		o.reached(2, 7) // of the next owner
		o.wait(1, 200)
		if d := time.Since(begun); d != previewLate {
			t.Errorf("waited %s, want %s", d, previewLate)
		}
		go func() {
			time.Sleep(previewLate / 2)
			o.reached(2, 9)
		}()
		o.wait(2, 8)
		if d := time.Since(begun); d != previewLate*3/2 {
			t.Errorf("waited %s, want %s", d, previewLate*3/2)
		}
	})
}

// Clients that resume by counting get the same pieces at all nodes, also where messages with pieces were lost.
func TestPiecesAreTheSameAtAllNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.session(0)
	owner := c.owner(id)
	var whole atomic.Bool
	var sent atomic.Int64
	c.members[(owner+1)%3].port.Misses = func([]byte) bool { return !whole.Load() && sent.Add(1)%7 > 2 }
	ends := func(i int) string {
		var all []string
		for _, b := range c.members[i].hub.Blocks(id) {
			for _, e := range b.Ends {
				all = append(all, fmt.Sprint(e.Bytes, "@", e.At))
			}
		}
		return strings.Join(all, " ")
	}
	written := ""
	for n := range 200 {
		piece := fmt.Sprintf("%d ", n)
		if err := c.members[owner].sessions.Preview(t.Context(), ada, id, []chat.Preview{{Block: "b", Offset: len(written), Text: piece, Kind: chat.TextBlock}}); err != nil {
			t.Fatal(err)
		}
		written += piece
	}
	whole.Store(true)
	if err := c.members[owner].sessions.Preview(t.Context(), ada, id, []chat.Preview{{Block: "b", Offset: len(written), Text: "end", Kind: chat.TextBlock}}); err != nil {
		t.Fatal(err)
	}
	for i := range c.members {
		eventually(t, ends(owner), func() string { return ends(i) })
	}
}

// Messages that wait are shown together: the pieces of a session stay in their order, and an owner's are not mixed with those of
// the one before. One that follows an event that is not applied yet waits.
func TestWaitingPreviewsAreJoined(t *testing.T) {
	number := uint64(0)
	message := func(epoch uint64, pos cluster.Pos, of ...string) *sentPreviews {
		number++
		m := &sentPreviews{epoch: epoch, first: number, number: number, pos: pos}
		for _, s := range of {
			m.sessions = append(m.sessions, core.SessionPieces{Session: chat.SessionID(s[:1]), Pieces: []chat.Preview{{Text: s[1:]}}})
		}
		return m
	}
	m := message(1, 5, "a1", "b1")
	queue := make(chan *sentPreviews, 10)
	for _, m := range []*sentPreviews{message(1, 7, "a2", "c1"), message(1, 6, "b2", "a3"), message(2, 9, "a4"), message(2, 9, "a5"), message(2, 10, "a6")} {
		queue <- m
	}
	show := func(m *sentPreviews) string {
		all := fmt.Sprint(m.epoch, " at ", m.pos, ":")
		for _, of := range m.sessions {
			all += " " + string(of.Session)
			for _, p := range of.Pieces {
				all += p.Text
			}
		}
		return all
	}
	next := m.join(queue, 7)
	if got, want := show(m), "1 at 7: a123 b12 c1"; got != want {
		t.Errorf("joined %q, want %q", got, want)
	}
	if next == nil {
		t.Fatal("the message of the next epoch is lost")
	}
	after := next.join(queue, 9)
	if after == nil || show(next) != "2 at 9: a45" || show(after) != "2 at 10: a6" {
		t.Errorf("joined %q, and then %v", show(next), after)
	}
}
