package hub

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memLog is a journal in memory.
type memLog struct {
	mu    sync.Mutex
	facts map[chat.SessionID][]chat.Fact
	gone  map[chat.SessionID]bool
	reads atomic.Int64
	// around is called before and after a reading.
	around func()
}

func newLog() *memLog {
	return &memLog{facts: map[chat.SessionID][]chat.Fact{}, gone: map[chat.SessionID]bool{}}
}

func (l *memLog) Record(_ context.Context, id chat.SessionID) (chat.Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone[id] {
		return chat.Session{}, chat.Errorf(chat.Gone, "erased")
	}
	if len(l.facts[id]) == 0 {
		return chat.Session{}, chat.Errorf(chat.NotFound, "no such session")
	}
	return chat.Session{ID: id, Last: chat.Seq(len(l.facts[id]))}, nil
}

func (l *memLog) Read(_ context.Context, id chat.SessionID, r chat.Range) ([]chat.Fact, bool, error) {
	l.reads.Add(1)
	if l.around != nil {
		l.around()
		defer l.around()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []chat.Fact
	all := l.facts[id]
	size, n := 0, len(all)
	for k := range n {
		// The sequence is the place, unless a test has damaged the log.
		if !r.Desc && all[n-1].Seq == chat.Seq(n) && k < int(r.After) {
			continue
		}
		f := all[k]
		if r.Desc {
			f = all[n-1-k]
		}
		if f.Seq <= r.After || r.Before != 0 && f.Seq >= r.Before {
			continue
		}
		if r.Limit > 0 && len(out) == r.Limit || r.MaxBytes > 0 && len(out) > 0 && size+len(f.JSON) > r.MaxBytes {
			return out, true, nil
		}
		size += len(f.JSON)
		out = append(out, f)
	}
	return out, false, nil
}

func (l *memLog) add(id chat.SessionID, f chat.Fact) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.Seq != chat.Seq(len(l.facts[id])+1) {
		panic("out of order")
	}
	l.facts[id] = append(l.facts[id], f)
}

// writer stands for package session: it makes the stream of one session.
type writer struct {
	id   chat.SessionID
	log  *memLog
	hub  *Hub
	seq  chat.Seq
	at   chat.At
	open []chat.Block // as the writer knows them
}

// fact makes the next event durable. A block other than "" is finished by it.
func (w *writer) fact(typ string, payload any) Entry {
	w.seq++
	w.at += core.AtStep
	raw, err := json.Marshal(payload)
	if err != nil {
		panic(err)
	}
	e := chat.Event{Session: w.id, Seq: w.seq, At: w.at, Type: typ, Payload: raw}
	f := e.Fact()
	w.log.add(w.id, f)
	return Entry{At: w.at, Fact: f, Label: chat.Label{Type: typ}}
}

func (w *writer) message(text string) Entry {
	return w.fact("user.message", map[string]any{"text": text})
}

func (w *writer) piece(id chat.BlockID, text string) Entry {
	w.at += core.AtStep
	i := slices.IndexFunc(w.open, func(b chat.Block) bool { return b.ID == id })
	if i < 0 {
		w.open = append(w.open, chat.Block{ID: id})
		i = len(w.open) - 1
	}
	off := len(w.open[i].Text)
	w.open[i].Text += text
	return Entry{At: w.at, Piece: &chat.Preview{Block: id, Offset: off, End: off + len(text), Text: text, Kind: chat.TextBlock}}
}

func (w *writer) finish(id chat.BlockID) Entry {
	i := slices.IndexFunc(w.open, func(b chat.Block) bool { return b.ID == id })
	text := w.open[i].Text
	w.open = slices.Delete(w.open, i, i+1)
	e := w.fact("agent.text", chat.AgentText{Block: id, Text: text})
	e.Block = id
	return e
}

func (w *writer) publish(entries ...Entry) { w.hub.Publish(w.id, entries) }

// lines is a toy encoding: one line per entry, fields separated by tabs.
type lines struct {
	name   string
	wide   int // bytes of padding after each line
	events atomic.Int64
	pieces atomic.Int64
}

func (l *lines) Name() string { return "lines" + l.name }

func (l *lines) AppendEvent(dst []byte, e *Entry) []byte {
	l.events.Add(1)
	if e.Session == "" {
		panic("an entry without session")
	}
	dst = append(append(dst, "e\t"...), e.Cursor.String()...)
	return l.pad(fmt.Appendf(dst, "\t%d\t%d\t%s\n", e.At, e.Fact.Seq, e.Fact.JSON))
}

func (l *lines) AppendPiece(dst []byte, e *Entry) []byte {
	l.pieces.Add(1)
	if e.Session == "" {
		panic("an entry without session")
	}
	dst = append(append(dst, "p\t"...), e.Cursor.String()...)
	return l.pad(fmt.Appendf(dst, "\t%d\t%s\t%d\t%q\n", e.At, e.Piece.Block, e.Piece.Offset, e.Piece.Text))
}

// pad makes frames larger than anybody would guess from the entry.
func (l *lines) pad(dst []byte) []byte {
	if l.wide > 0 {
		dst = append(append(dst, strings.Repeat("#", l.wide)...), '\n')
	}
	return dst
}

// packedLines packs by turning every bit and putting the length before it.
type packedLines struct{ lines }

func (p *packedLines) Pack(dst, plain []byte) ([]byte, Pack) {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(plain)))
	for _, b := range plain {
		dst = append(dst, ^b)
	}
	return dst, Pack{Size: len(plain), Sum: crc32.ChecksumIEEE(plain)}
}

func unpack(b []byte, packs []Pack) ([]byte, error) {
	var out []byte
	for _, p := range packs {
		unit := b[:p.Len]
		b = b[p.Len:]
		plain := bytes.Clone(unit[4:])
		for i := range plain {
			plain[i] = ^plain[i]
		}
		if int(binary.BigEndian.Uint32(unit)) != len(plain) || p.Size != len(plain) || crc32.ChecksumIEEE(plain) != p.Sum {
			return nil, fmt.Errorf("a packed unit does not fit its description")
		}
		out = append(out, plain...)
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%d bytes belong to no unit", len(b))
	}
	return out, nil
}

// client is what a reader makes of the frames it gets. It is strict: an event
// out of order, a piece that does not begin where the client is, or a cursor
// that claims what it does not have, is an error.
type client struct {
	cursor chat.Cursor // of the last whole frame
	seq    chat.Seq
	at     chat.At
	first  chat.Seq // where it began
	text   map[chat.BlockID]string
	done   map[chat.BlockID]bool
	strict bool // positions must rise, too
}

func newClient(seq chat.Seq) *client {
	return &client{seq: seq, first: seq, cursor: chat.Cursor{Seq: seq}, text: map[chat.BlockID]string{}, done: map[chat.BlockID]bool{}}
}

// read takes whole lines; a part of a line at the end is lost.
func (c *client) read(b []byte) error {
	for {
		line, rest, ok := bytes.Cut(b, []byte("\n"))
		if !ok {
			return nil
		}
		if line[0] == '#' {
			b = rest
			continue
		}
		if err := c.line(string(line)); err != nil {
			return fmt.Errorf("%w in %.120q", err, line)
		}
		b = rest
	}
}

func (c *client) line(s string) error {
	f := strings.SplitN(s, "\t", 6)
	cur, err := chat.ParseCursor(f[1])
	if err != nil {
		return err
	}
	at, _ := strconv.Atoi(f[2])
	if c.strict && chat.At(at) <= c.at {
		return fmt.Errorf("position %d after %d", at, c.at)
	}
	c.at = chat.At(at)
	if f[0] == "e" {
		seq, _ := strconv.Atoi(f[3])
		if err := c.event(chat.Fact{Seq: chat.Seq(seq), JSON: []byte(f[4])}); err != nil {
			return err
		}
	} else {
		off, _ := strconv.Atoi(f[4])
		text, err := strconv.Unquote(f[5])
		if err != nil {
			return err
		}
		if err := c.piece(chat.BlockID(f[3]), off, text); err != nil {
			return err
		}
	}
	return c.pass(cur)
}

func (c *client) event(f chat.Fact) error {
	if f.Seq != c.seq+1 {
		return fmt.Errorf("event %d after %d", f.Seq, c.seq)
	}
	c.seq = f.Seq
	e, err := f.Event()
	if err != nil {
		return err
	}
	if b := chat.FinishedBlock(e.Body); b != "" {
		text := e.Body.(chat.AgentText).Text
		if !strings.HasPrefix(text, c.text[b]) {
			return fmt.Errorf("block %s was %q, became %q", b, c.text[b], text)
		}
		delete(c.text, b)
		c.done[b] = true
	}
	return nil
}

func (c *client) piece(b chat.BlockID, offset int, text string) error {
	if c.done[b] {
		return fmt.Errorf("piece of %s after it was finished", b)
	}
	if offset != len(c.text[b]) {
		return fmt.Errorf("piece of %s at %d, have %d", b, offset, len(c.text[b]))
	}
	c.text[b] += text
	return nil
}

func (c *client) pass(cur chat.Cursor) error {
	c.cursor = cur
	if cur.Seq != c.seq {
		return fmt.Errorf("cursor %s at event %d", cur, c.seq)
	}
	for _, m := range cur.Blocks {
		if m.Bytes > len(c.text[m.Block]) {
			return fmt.Errorf("cursor %s, but block %s has %d", cur, m.Block, len(c.text[m.Block]))
		}
	}
	return nil
}

// resume forgets all that the last cursor does not claim.
func (c *client) resume() *chat.Cursor {
	text := map[chat.BlockID]string{}
	for _, m := range c.cursor.Blocks {
		text[m.Block] = c.text[m.Block][:m.Bytes]
	}
	c.text, c.at = text, 0
	cur := c.cursor
	return &cur
}

// same reports how the client differs from the writer.
func (c *client) same(w *writer) error {
	if c.seq != w.seq {
		return fmt.Errorf("client ends at %d, the log at %d", c.seq, w.seq)
	}
	n := 0
	for _, b := range w.open {
		if b.Text != c.text[b.ID] {
			return fmt.Errorf("block %s is %q, the client has %q", b.ID, b.Text, c.text[b.ID])
		}
		n++
	}
	if len(c.text) != n {
		return fmt.Errorf("the client has %d open blocks, there are %d: %v", len(c.text), n, c.text)
	}
	return nil
}

// blockOf returns an open block.
func blockOf(h *Hub, id chat.SessionID, block chat.BlockID) (b chat.Block, ok bool) {
	all := h.Blocks(id)
	i := slices.IndexFunc(all, func(b chat.Block) bool { return b.ID == block })
	if i >= 0 {
		b = all[i]
	}
	return b, i >= 0
}

func setup(opt Options) (*memLog, *Hub, *writer) {
	log := newLog()
	h := New(log, opt)
	return log, h, &writer{id: "s", log: log, hub: h, at: 1 << 20}
}

// watching is a watch in a goroutine of its own, inside a synctest bubble.
type watching struct {
	c       *client
	batches []Batch // bytes left out
	err     error
	ended   bool
	bytes   string
	cancel  context.CancelFunc
}

func watch(t *testing.T, h *Hub, id chat.SessionID, from Start, enc Encoding) *watching {
	ctx, cancel := context.WithCancel(t.Context())
	x := &watching{cancel: cancel}
	go func() {
		defer func() { x.ended = true }()
		for b, err := range h.Watch(ctx, id, from, enc) {
			if err != nil {
				x.err = err
				continue
			}
			if x.c == nil {
				x.c = newClient(b.Cursor.Seq)
			}
			x.bytes += string(b.Bytes)
			if err := x.c.read(b.Bytes); err != nil {
				t.Error(err)
				return
			}
			b.Bytes = nil
			x.batches = append(x.batches, b)
		}
	}()
	synctest.Wait()
	return x
}

func at(seq chat.Seq, marks ...chat.Mark) Start {
	return Start{Cursor: &chat.Cursor{Seq: seq, Blocks: marks}}
}

// bubble runs f in a bubble; watches end with the test's context.
func withFakeClock(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}
