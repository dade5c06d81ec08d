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

// Types of the events that a sidecar stores for itself.
const (
	deliveredType   = "x1.input.delivered"   // the agent accepted an input: {sequence, boot}
	undeliveredType = "x1.input.undelivered" // an input could not be delivered: {sequence, boot, attempts, error}
	refusedType     = "x1.event.refused"     // the server refused an event of the agent: {type, error}
	startedType     = "x1.session.started"   // stored type of the agent's session.started; history has it as session.started
)

// state is what the sidecar needs of its session, derived from the log. One goroutine
// applies events in order; others read it with view.
type state struct {
	mu         sync.Mutex
	last       chat.Seq
	epoch      int64  // of the newest sidecar
	instance   string // its name
	detached   bool   // it has detached
	hadSidecar bool   // there was a sidecar
	boot       int64  // how often the agent started, as far as it is stored
	booted     bool   // session.started of this boot is stored
	bootKey    string // its key
	stream     []x1.Digest
	cursor     chat.Seq // inputs up to here need no delivery
	pending    []input
	echoes     map[string]map[chat.Seq]bool // user events that the agent may echo in this boot, by content; true if they were delivered
	changed    chan struct{}                // capacity 1
	ended      bool                         // the session was completed or failed
	endKnown   bool                         // the agent has ended it, or has a message about it
}

// input is a user event that must be delivered to the agent.
type input struct {
	seq chat.Seq
	id  chat.EventID
	by  chat.Actor
	key string
	msg x1.Message
}

func newState() *state {
	return &state{echoes: map[string]map[chat.Seq]bool{}, changed: make(chan struct{}, 1)}
}

// streamKey is the idempotency key of an event of the stream.
func streamKey(boot int64, s *agentEvent) string {
	if s.id != "" {
		return fmt.Sprintf("sc:%d:#%s:%s", boot, s.id, s.digest)
	}
	return fmt.Sprintf("sc:%d:%d:%s", boot, s.index, s.digest)
}

// parseStreamKey reads a key of streamKey.
func parseStreamKey(key string) (boot int64, index int, d x1.Digest, ok bool) {
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
	d, ok = x1.ParseDigest(rest[i+1:])
	if index, err = strconv.Atoi(rest[:i]); err != nil {
		index = -1 // it has an id of its own
	}
	return boot, index, d, ok
}

// bootKey is the idempotency key of the agent's session.started; name is the agent's own
// key, "" for none.
func bootKey(boot int64, name string) string {
	if name == "" {
		return fmt.Sprintf("boot:%d", boot)
	}
	return fmt.Sprintf("boot:%d:%s", boot, x1.DigestOf("boot", json.RawMessage(name)))
}

// agentPrompt is the prefix of the keys of user messages that the agent itself made, such
// as the prompt it was started with.
const agentPrompt = "su:"

// apply applies the next event of the log.
func (b *state) apply(e *chat.Event) {
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
			b.epoch, b.instance, b.detached, b.hadSidecar = a.Epoch, a.Instance, false, true
		}
	case x1.DetachedType:
		var a x1.Attached
		if json.Unmarshal(e.Payload, &a) == nil && a.Epoch == b.epoch {
			b.detached = true
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
		// If the agent did not send it, it must be delivered.
		b.endKnown = strings.HasPrefix(e.ClientID, "sc:") || strings.HasPrefix(e.ClientID, "p:")
	}
	if n, ok := strings.CutPrefix(e.ClientID, "boot:"); ok && (e.Type == startedType || e.Type == "session.started") {
		n, _, _ = strings.Cut(n, ":")
		if boot, err := strconv.ParseInt(n, 10, 64); err == nil && boot >= b.boot {
			b.beginLocked(boot)
			b.booted, b.bootKey = true, e.ClientID
		}
	}
	if boot, index, d, ok := parseStreamKey(e.ClientID); ok && boot >= b.boot {
		b.beginLocked(boot)
		if index >= 0 {
			b.stream = append(b.stream, d)
		}
	}
	b.addInputLocked(e)
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// addInputLocked adds an event that must be delivered.
func (b *state) addInputLocked(e *chat.Event) {
	if !b.hadSidecar && (strings.HasPrefix(e.Type, "agent.") || e.Type == "turn.completed") {
		// Before the first sidecar another agent answered.
		b.cursor, b.pending = e.Seq, nil
		return
	}
	if e.Seq <= b.cursor {
		return
	}
	if strings.HasPrefix(e.ClientID, agentPrompt) {
		if key, ok := inputKey(e.Type, e.Payload); ok {
			b.addEchoLocked(key, e.Seq, false)
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

// inputKey identifies an input by its content, because an echo has no id.
func inputKey(typ string, payload json.RawMessage) (string, bool) {
	if typ != "user.message" && typ != "user.input_response" {
		return "", false
	}
	i := injection(typ, payload)
	return typ + "\x00" + i.RequestID + "\x00" + i.Text, true
}

// beginLocked starts a new boot: the agent is another process.
func (b *state) beginLocked(boot int64) {
	if boot > b.boot {
		b.boot, b.booted, b.bootKey, b.stream, b.echoes = boot, false, "", nil, map[string]map[chat.Seq]bool{}
	}
}

// begin starts a new boot: the agent is another process from now on.
func (b *state) begin(boot int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.beginLocked(boot)
}

func (b *state) addEchoLocked(key string, seq chat.Seq, delivered bool) {
	if b.echoes[key] == nil {
		b.echoes[key] = map[chat.Seq]bool{}
	}
	b.echoes[key][seq] = delivered
}

// expectEcho notes that an input is being delivered: its echo may come at any time.
func (b *state) expectEcho(in *input) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addEchoLocked(in.key, in.seq, true)
}

// doneLocked notes that an input needs no delivery any more.
func (b *state) doneLocked(seq chat.Seq, boot int64) {
	b.cursor = max(b.cursor, seq)
	for len(b.pending) > 0 && b.pending[0].seq <= b.cursor {
		if in := &b.pending[0]; boot == b.boot && in.key != "" {
			b.addEchoLocked(in.key, in.seq, true)
		}
		b.pending = b.pending[1:]
	}
}

// next returns the input to deliver, if there is one.
func (b *state) next() (input, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) == 0 {
		return input{}, false
	}
	return b.pending[0], true
}

// echo decides about the nth user event with the same content in the stream. known means
// that it is an echo; pending is the input that it proves to be delivered.
func (b *state) echo(key string, nth int) (known bool, pending *input) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if nth <= len(b.echoes[key]) {
		return true, nil
	}
	if len(b.pending) > 0 && b.pending[0].key == key {
		in := b.pending[0]
		return true, &in
	}
	for _, delivered := range b.echoes[key] {
		if delivered {
			return true, nil // it was delivered twice, because of a kill before x1.input.delivered was stored
		}
	}
	return false, nil
}

// view calls f with the lock held.
func (b *state) view(f func(b *state)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b)
}
