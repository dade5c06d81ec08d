package llm

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/parley-hq/parley/chat"
)

// Prefixes of ids on Letta's wire.
const (
	IDPrefix   = "message-"
	RunPrefix  = "run-"
	StepPrefix = "step-"
)

// MessageID is the id of the n-th message that an event makes; the first is 0.
func MessageID(e chat.EventID, n int) string { return uuidOf(IDPrefix, chat.EventPrefix, string(e), n) }

// ofAgent marks the messages of agents: they are named after an event that may
// have a message of its own.
const ofAgent = 64

// behind names the message and the step of an agent that begin with the event
// that follows another one in its session.
func behind(e chat.EventID) (message, step string) {
	if id, ok := chat.ParseID(chat.EventPrefix, string(e)); ok {
		if n, seq, ok := id.Parts(); ok {
			id = chat.MakeID(n, seq+1)
			step = written(StepPrefix, &id)
			id[15] |= ofAgent
			return written(IDPrefix, &id), step
		}
	}
	e += "+1" // of a foreign log: a name of its own, and always the same
	return MessageID(e, ofAgent), stepID(e)
}

// RunID is the id of a turn at Letta's edge.
func RunID(t chat.TurnID) string { return uuidOf(RunPrefix, chat.TurnPrefix, string(t), 0) }

// stepID names the step that an event begins.
func stepID(e chat.EventID) string { return uuidOf(StepPrefix, chat.EventPrefix, string(e), 0) }

// uuidOf writes one of our ids as a UUID. The lowest 7 bits are free; they tell
// the messages of one event apart.
func uuidOf(prefix, ours, id string, n int) string {
	if id == "" {
		return ""
	}
	parsed, ok := chat.ParseID(ours, id)
	if !ok { // of a foreign log: as good as any name, as long as it is always the same
		sum := sha256.Sum256([]byte(id))
		parsed = chat.ID(sum[:16])
		parsed[6], parsed[8], parsed[15] = parsed[6]&0xf|0x40, parsed[8]&0x3f|0x80, parsed[15]&0x80
	}
	parsed[15] |= byte(n) & 0x7f
	return written(prefix, &parsed)
}

// written is an id as a UUID behind its prefix, in one piece of memory: a list
// of messages has several of them each.
func written(prefix string, id *chat.ID) string {
	var room [64]byte
	b := append(room[:0], prefix...)
	for i, group := range [][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, group)
	}
	return string(b)
}

// SeqOf returns the sequence of the event that made a message, or of the one
// from which the agent spoke, from the message's id.
func SeqOf(id string) (chat.Seq, bool) {
	parsed, ok := chat.ParseID(IDPrefix, id)
	if !ok {
		return 0, false
	}
	_, seq, ok := parsed.Parts()
	return seq, ok
}
