package llm

import (
	"crypto/sha256"

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
	return prefix + parsed.UUID()
}

// SeqOf returns the sequence of the event that made a message, from its id.
func SeqOf(id string) (chat.Seq, bool) {
	parsed, ok := chat.ParseID(IDPrefix, id)
	if !ok {
		return 0, false
	}
	_, seq, ok := parsed.Parts()
	return seq, ok
}
