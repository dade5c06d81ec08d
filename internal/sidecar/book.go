package sidecar

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/json"
)

// Types of the events that a sidecar writes for itself.
const (
	deliveredType   = "x1.input.delivered"   // an input was taken by the agent: {sequence, boot}
	undeliveredType = "x1.input.undelivered" // it could not be delivered: {sequence, boot, attempts, error}
	refusedType     = "x1.event.refused"     // an event of the agent was refused: {type, error}
	startedType     = "x1.session.started"   // what the server makes of the agent's session.started; history has it as session.started
)

// book is what the sidecar knows of its session: a function of the log. Events
// are applied in their order by one goroutine; others look.
type book struct {
	mu       sync.Mutex
	last     chat.Seq
	epoch    int64  // of the newest sidecar
	instance string // its name
	left     bool   // it said goodbye
	attended bool   // there was one at all
	boot     int64  // how often the agent began, as far as it is stored
	booted   bool   // its session.started of this boot is stored
	bootKey  string // under this key
	stream   []digest
	cursor   chat.Seq // inputs up to here are done
	pending  []input
	heard    map[string]map[chat.Seq]bool // what the agent repeats of users in this boot, by content; true for what it was told
	news     chan struct{}                // has room for one
	ended    bool                         // the session was completed or failed
	told     bool                         // and the agent knows
}

// input is something that a person said and the agent must hear.
type input struct {
	seq chat.Seq
	id  chat.EventID
	by  chat.Actor
	key string
	msg x1.Message
}

func newBook() *book {
	return &book{heard: map[string]map[chat.Seq]bool{}, news: make(chan struct{}, 1)}
}

// streamKey is the idempotency key of the event at a place of the stream.
func streamKey(boot int64, s *said) string {
	if s.id != "" {
		return fmt.Sprintf("sc:%d:#%s:%s", boot, s.id, s.digest)
	}
	return fmt.Sprintf("sc:%d:%d:%s", boot, s.place, s.digest)
}

// parseStreamKey reads what streamKey wrote.
func parseStreamKey(key string) (boot int64, place int, d digest, ok bool) {
	rest, ok := strings.CutPrefix(key, "sc:")
	if !ok {
		return 0, 0, d, false
	}
	first, rest, _ := strings.Cut(rest, ":")
	boot, err := strconv.ParseInt(first, 10, 64)
	i := strings.LastIndexByte(rest, ':')
	if err != nil || i < 0 {
		return 0, 0, d, false
	}
	d, ok = parseDigest(rest[i+1:])
	if place, err = strconv.Atoi(rest[:i]); err != nil {
		place = -1 // it has an id of its own
	}
	return boot, place, d, ok
}

// bootKey is the idempotency key of the agent's session.started; name is what the
// agent calls this start, "" when it does not say.
func bootKey(boot int64, name string) string {
	if name == "" {
		return fmt.Sprintf("boot:%d", boot)
	}
	return fmt.Sprintf("boot:%d:%s", boot, digestOf("boot", json.RawMessage(name)))
}

// ownSpeech marks what people seem to say and the agent made up, such as the
// prompt it was started with.
const ownSpeech = "su:"

// apply takes the next event of the log.
func (b *book) apply(e *chat.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.Seq <= b.last {
		return
	}
	b.last = e.Seq
	switch e.Type {
	case x1.AttachedType:
		var a x1.Attached
		if json.Unmarshal(e.Payload, &a) == nil && a.Epoch > b.epoch {
			b.epoch, b.instance, b.left, b.attended = a.Epoch, a.Instance, false, true
		}
	case x1.DetachedType:
		var a x1.Attached
		if json.Unmarshal(e.Payload, &a) == nil && a.Epoch == b.epoch {
			b.left = true
		}
	case deliveredType, undeliveredType:
		var done struct {
			Sequence chat.Seq `json:"sequence"`
			Boot     int64    `json:"boot"`
		}
		if json.Unmarshal(e.Payload, &done) == nil {
			b.doneLocked(done.Sequence, done.Boot)
		}
	case "session.completed", "session.failed":
		b.ended = true
		// Somebody else ended it: the agent does not know.
		b.told = strings.HasPrefix(e.ClientID, "sc:") || strings.HasPrefix(e.ClientID, "p:")
	}
	if n, ok := strings.CutPrefix(e.ClientID, "boot:"); ok && (e.Type == startedType || e.Type == "session.started") {
		n, _, _ = strings.Cut(n, ":")
		if boot, err := strconv.ParseInt(n, 10, 64); err == nil && boot >= b.boot {
			b.beginLocked(boot)
			b.booted, b.bootKey = true, e.ClientID
		}
	}
	if boot, place, d, ok := parseStreamKey(e.ClientID); ok && boot >= b.boot {
		b.beginLocked(boot)
		if place >= 0 {
			b.stream = append(b.stream, d)
		}
	}
	b.noteLocked(e)
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// noteLocked remembers what must be delivered.
func (b *book) noteLocked(e *chat.Event) {
	if !b.attended && (strings.HasPrefix(e.Type, "agent.") || e.Type == "turn.completed") {
		// Before there was a sidecar somebody else answered.
		b.cursor, b.pending = e.Seq, nil
		return
	}
	if e.Seq <= b.cursor {
		return
	}
	if strings.HasPrefix(e.ClientID, ownSpeech) {
		if key, ok := inputKey(e.Type, e.Payload); ok {
			b.heardLocked(key, e.Seq, false)
		}
		return
	}
	raw, ok := x1.EncodeInput(e)
	if !ok {
		return
	}
	var m x1.Message
	if json.Unmarshal(raw, &m) != nil {
		return
	}
	in := input{seq: e.Seq, id: e.ID, by: e.Actor, msg: m}
	in.key, _ = inputKey(m.Type, m.Payload)
	b.pending = append(b.pending, in)
	b.ended = false // it is open again
}

// inputKey tells inputs apart as an agent's echo does: by what was said.
func inputKey(typ string, payload json.RawMessage) (string, bool) {
	if typ != "user.message" && typ != "user.input_response" {
		return "", false
	}
	i := injection(typ, payload)
	return typ + "\x00" + i.RequestID + "\x00" + i.Text, true
}

// beginLocked notices that the agent is another process.
func (b *book) beginLocked(boot int64) {
	if boot > b.boot {
		b.boot, b.booted, b.bootKey, b.stream, b.heard = boot, false, "", nil, map[string]map[chat.Seq]bool{}
	}
}

// begin says that the agent is another process from now on.
func (b *book) begin(boot int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.beginLocked(boot)
}

func (b *book) heardLocked(key string, seq chat.Seq, told bool) {
	if b.heard[key] == nil {
		b.heard[key] = map[chat.Seq]bool{}
	}
	b.heard[key][seq] = told
}

// offered says that an input is on its way to the agent: an echo may come any
// moment.
func (b *book) offered(in *input) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heardLocked(in.key, in.seq, true)
}

// doneLocked notes that an input needs no more delivery.
func (b *book) doneLocked(seq chat.Seq, boot int64) {
	b.cursor = max(b.cursor, seq)
	for len(b.pending) > 0 && b.pending[0].seq <= b.cursor {
		if in := &b.pending[0]; boot == b.boot && in.key != "" {
			b.heardLocked(in.key, in.seq, true)
		}
		b.pending = b.pending[1:]
	}
}

// next returns the input to deliver, if there is one.
func (b *book) next() (input, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) == 0 {
		return input{}, false
	}
	return b.pending[0], true
}

// echo decides about the nth time that the stream says a user's words: known ones
// are the agent's repetition. pending is the input that it proves to be delivered.
func (b *book) echo(key string, nth int) (known bool, pending *input) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if nth <= len(b.heard[key]) {
		return true, nil
	}
	if len(b.pending) > 0 && b.pending[0].key == key {
		in := b.pending[0]
		return true, &in
	}
	for _, told := range b.heard[key] {
		if told {
			return true, nil // it was told twice, because of a kill at the wrong moment
		}
	}
	return false, nil
}

// look returns some facts at once.
func (b *book) look(f func(b *book)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b)
}
