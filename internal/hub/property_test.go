package hub

import (
	"context"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/parley-hq/parley/chat"
)

// checkedReader drives one watch step by step.
type checkedReader struct {
	r     *reader
	c     *client
	enc   Encoding
	byPos bool
	slow  bool
	given chat.Cursor // with the batch before
	text  string      // as it was then
}

// more reports whether next would return without waiting.
func (r *reader) more() bool {
	t := r.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != nil {
		return true
	}
	return !(r.live && r.pos == t.live.end() || !r.live && r.cursor.Seq > t.last())
}

func (x *checkedReader) join(h *Hub, id chat.SessionID, from *chat.Cursor) error {
	x.r = &reader{hub: h, enc: x.enc, byPosition: x.byPos, wake: make(chan struct{}, 1), parked: -1}
	if err := x.r.start(context.Background(), id, from); err != nil {
		return err
	}
	if from == nil {
		x.c = newClient(x.r.cursor.Seq)
	}
	return nil
}

func (x *checkedReader) leave(h *Hub) {
	h.leave(x.r.topic, x.r)
	x.r = nil
}

// step takes one batch and reads of it as many bytes as cut says.
func (x *checkedReader) step(cut func(n int) int) error {
	b, waits, err := x.r.next(context.Background())
	if err != nil {
		return err
	}
	if waits {
		return fmt.Errorf("a reader that lacks something has to wait")
	}
	defer x.r.release()
	_, err = x.take(b, cut)
	return err
}

// take reads a batch up to the cut; broke says that there was more.
func (x *checkedReader) take(b Batch, cut func(n int) int) (broke bool, err error) {
	if now := x.given.String(); x.text != "" && x.text != now {
		return false, fmt.Errorf("a cursor changed after it was given away: %s, now %s", x.text, now)
	}
	x.given, x.text = b.Cursor, b.Cursor.String()
	if x.enc == nil {
		for _, e := range b.Entries {
			if e.Session == "" {
				return false, fmt.Errorf("an entry without session: %+v", e)
			}
			if e.Piece != nil {
				err = x.c.piece(e.Piece.Block, e.Piece.Offset, e.Piece.Text)
			} else {
				err = x.c.event(e.Fact)
			}
			if err != nil {
				return false, err
			}
		}
		// Without frames the batch's cursor is the one to resume from.
		return false, x.c.pass(b.Cursor)
	}
	plain := b.Bytes
	if _, ok := x.enc.(Packer); ok {
		if plain, err = unpack(b.Bytes, b.Packs); err != nil {
			return false, err
		}
	}
	n := cut(len(plain))
	if err := x.c.read(plain[:n]); err != nil || n < len(plain) {
		return true, err
	}
	if b.Cursor.Seq != x.c.seq {
		return false, fmt.Errorf("batch says %s, the client is at %d", b.Cursor, x.c.seq)
	}
	for id, text := range x.c.text {
		if b.Cursor.Bytes(id) != len(text) {
			return false, fmt.Errorf("batch says %s, the client has %d of %s", b.Cursor, len(text), id)
		}
	}
	return false, nil
}

// Random publishes with readers that join, are disconnected at any byte, resume and fall behind the tail in memory: all
// readers get the same events and texts.
func TestAllReadersGetTheSame(t *testing.T) { rapid.Check(t, readersAgree) }

func readersAgree(t *rapid.T) {
	log := newLog()
	h := New(log, Options{
		Tail:      rapid.SampledFrom([]int{2, 3, 8, 0}).Draw(t, "tail"),
		TailBytes: rapid.SampledFrom([]int{1, 2000, 0}).Draw(t, "tailBytes"),
		Idle:      rapid.SampledFrom([]int{-1, 1, 0}).Draw(t, "idle"),
		PageBytes: rapid.SampledFrom([]int{1, 500, 0}).Draw(t, "pageBytes"),
	})
	w := &writer{id: "s", log: log, hub: h, at: 1 << 20}
	h.first = rapid.SampledFrom([]int{1, 3, firstRead}).Draw(t, "first")
	encodings := []Encoding{&lines{}, &lines{name: "/wide", wide: 1000}, &packedLines{lines{name: "/packed"}}, &grouped{lines{name: "/grouped"}}, &packedGroups{packedLines{lines{name: "/packedgroups"}}}, nil}
	var readers []*checkedReader
	var pending []Entry // durable, but not yet published
	names, rounds := 0, 0
	// A prompt writer publishes a piece before it stores the next event. Only then
	// can positions rise for a reader that comes in between.
	prompt := rapid.Bool().Draw(t, "prompt")

	publish := func(n int) {
		w.publish(pending[:n]...)
		pending = append([]Entry(nil), pending[n:]...)
	}
	write := func() {
		switch k := rapid.IntRange(0, 9).Draw(t, "write"); {
		case k < 3:
			if prompt {
				publish(len(pending))
			}
			pending = append(pending, w.message(rapid.StringN(0, 20, 40).Draw(t, "message")))
		case k < 4 && len(w.open) > 0:
			if prompt {
				publish(len(pending))
			}
			pending = append(pending, w.finish(rapid.SampledFrom(w.open).Draw(t, "finish").ID))
		case k < 5 && len(w.open) < 3 || len(w.open) == 0:
			names++
			pending = append(pending, w.piece(chat.BlockID(fmt.Sprint("b", names)), rapid.StringN(1, 6, 20).Draw(t, "first")))
		default:
			pending = append(pending, w.piece(rapid.SampledFrom(w.open).Draw(t, "block").ID, rapid.StringN(1, 6, 20).Draw(t, "piece")))
		}
	}
	pending = append(pending, w.message("first"))
	publish(1)
	// Things happen while the log is being read.
	log.around = func() {
		if rounds++; rounds < 100 && rapid.Bool().Draw(t, "meanwhile") {
			write()
			publish(rapid.IntRange(0, len(pending)).Draw(t, "meanwhilePublish"))
		}
	}
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	// enter lets a reader come back. Some of them have just read the log.
	enter := func(x *checkedReader, from *chat.Cursor) {
		check(x.join(h, w.id, from))
		x.c.strict = x.byPos && prompt
	}
	whole := func(n int) int { return n }

	t.Repeat(map[string]func(*rapid.T){
		"write": func(*rapid.T) {
			for range rapid.IntRange(1, 5).Draw(t, "writes") {
				write()
			}
		},
		"publish": func(t *rapid.T) { publish(rapid.IntRange(0, len(pending)).Draw(t, "publish")) },
		"enter": func(t *rapid.T) {
			if len(readers) == 6 {
				t.Skip("enough")
			}
			x := &checkedReader{enc: rapid.SampledFrom(encodings).Draw(t, "encoding"), slow: rapid.Bool().Draw(t, "slow")}
			x.byPos = rapid.IntRange(0, 3).Draw(t, "byPosition") == 0
			if rapid.Bool().Draw(t, "now") {
				enter(x, nil)
			} else {
				seq := chat.Seq(rapid.Uint64Range(0, uint64(w.seq)).Draw(t, "from"))
				x.c = newClient(seq)
				enter(x, &chat.Cursor{Seq: seq})
			}
			readers = append(readers, x)
		},
		"read": func(t *rapid.T) {
			for _, x := range readers {
				if x.r == nil || x.slow && rapid.IntRange(0, 5).Draw(t, "stall") > 0 {
					continue
				}
				for n := rapid.IntRange(1, 4).Draw(t, "batches"); n > 0 && x.r.more(); n-- {
					check(x.step(whole))
				}
			}
		},
		"cut": func(t *rapid.T) {
			for _, x := range readers {
				if x.r == nil || rapid.Bool().Draw(t, "spare") {
					continue
				}
				if x.r.more() {
					check(x.step(func(n int) int { return rapid.IntRange(0, n).Draw(t, "cutAt") }))
				}
				x.leave(h)
			}
		},
		"resume": func(t *rapid.T) {
			for _, x := range readers {
				if x.r == nil && rapid.Bool().Draw(t, "back") {
					enter(x, x.c.resume())
				}
			}
		},
		"": func(t *rapid.T) { checkBounds(t, h) },
	})

	publish(len(pending))
	log.around = nil
	for i, x := range readers {
		if x.r == nil {
			enter(x, x.c.resume())
		}
		for x.r.more() {
			check(x.step(whole))
		}
		if err := x.c.same(w); err != nil {
			t.Fatalf("reader %d: %v", i, err)
		}
		x.leave(h)
	}
	for i, b := range h.Blocks(w.id) {
		if b.Text != w.open[i].Text || b.Ends[len(b.Ends)-1].Bytes != len(b.Text) {
			t.Fatalf("block %d is %q", i, b.Text)
		}
	}
}

// checkBounds looks whether the hub holds more than it may.
func checkBounds(t *rapid.T, h *Hub) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.topics {
		if n := len(p.events.ents); n > h.opt.Tail || n > 1 && p.events.bytes > h.opt.TailBytes {
			t.Fatalf("%d events, %d bytes in the tail", n, p.events.bytes)
		}
		if n := len(p.live.ents); n > max(h.opt.Tail, 1) {
			t.Fatalf("%d entries in the live ring", n)
		}
		if p.unused() {
			t.Fatal("a topic is kept for nothing")
		}
		for _, c := range p.codecs {
			for _, s := range c.live.segs {
				if s.next <= p.live.first && s.next < p.live.end() {
					t.Fatalf("a segment up to %d is kept, the ring begins at %d", s.next, p.live.first)
				}
			}
		}
	}
}
