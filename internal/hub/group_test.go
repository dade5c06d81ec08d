package hub

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/parley-hq/parley/chat"
)

// grouped wants pieces in groups.
type grouped struct{ lines }

func (g *grouped) Group() int { return 20 }

// packedGroups does so in packs.
type packedGroups struct{ packedLines }

func (g *packedGroups) Group() int { return 20 }

func TestAdjacentPiecesAreJoined(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.publish(w.message("one"))
		enc := &grouped{lines{name: "/grouped"}}
		busy, ctx := make(chan struct{}), t.Context()
		x := newClient(1)
		go func() {
			for b, err := range h.Watch(ctx, "s", at(1), enc) {
				if err != nil {
					t.Error(err)
				}
				if err := x.read(bytes.Clone(b.Bytes)); err != nil {
					t.Error(err)
				}
				if len(b.Bytes) > 0 {
					<-busy
				}
			}
		}()
		synctest.Wait()
		w.publish(w.piece("b1", "first "))
		synctest.Wait() // the reader is busy with it
		for range 10 {
			w.publish(w.piece("b1", "12345"))
		}
		w.publish(w.piece("b2", "x"))
		w.publish(w.piece("b1", "12345"))
		w.publish(w.finish("b1"))
		close(busy)
		synctest.Wait()
		// 4 + 4 + 2 of the ten, then one beside the other block.
		if n := enc.pieces.Load(); n != 1+3+1+1 {
			t.Errorf("%d pieces were encoded, want 6", n)
		}
		if err := x.same(w); err != nil {
			t.Error(err)
		}
	})
}

func TestGroupsLeaveSingleEntriesAlone(t *testing.T) {
	c := newCodec(&lines{})
	two := []Entry{{Piece: &chat.Preview{Block: "b", End: 1, Text: "a"}}, {Piece: &chat.Preview{Block: "b", Offset: 1, End: 2, Text: "b"}}}
	if e, n := c.group(two); n != 1 || e != &two[0] {
		t.Error("an encoding that does not ask for groups gets them")
	}
	c = newCodec(&grouped{})
	if e, n := c.group(two); n != 2 || e.Piece.Text != "ab" || e.Piece.Offset != 0 || e.Piece.End != 2 || two[0].Piece.Text != "a" || two[1].Piece.Text != "b" {
		t.Errorf("%d %+v", n, e.Piece)
	}
	// A character counts as one, however many bytes it takes.
	wide := []Entry{{Piece: &chat.Preview{Block: "b", End: 30, Text: "一二三四五六七八九十"}}, {Piece: &chat.Preview{Block: "b", Offset: 30, End: 60, Text: "一二三四五六七八九十"}}, {Piece: &chat.Preview{Block: "b", Offset: 60, End: 63, Text: "一"}}}
	if e, n := c.group(wide); n != 2 || e.Piece.Text != "一二三四五六七八九十一二三四五六七八九十" || e.Piece.End != 60 {
		t.Errorf("%d %+v", n, e.Piece)
	}
	if _, n := c.group([]Entry{two[0], {Fact: chat.Fact{Seq: 2}}, two[1]}); n != 1 {
		t.Error("pieces are joined over an event")
	}
}
