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

// MessageID returns the id of the n-th message made from an event, counted from 0.
func MessageID(e chat.EventID, n int) string { return uuidOf(IDPrefix, chat.EventPrefix, string(e), n) }

// ofAgent is the number n in the ids of agent messages. Their ids are derived from the
// event before them, which may have a message of its own.
const ofAgent = 64

// idsAfter returns the ids of the agent message and the step that begin after event e.
func idsAfter(e chat.EventID) (message, step string) {
	if id, ok := chat.ParseID(chat.EventPrefix, string(e)); ok {
		if n, seq, ok := id.Parts(); ok {
			id = chat.MakeID(n, seq+1)
			step = StepPrefix + id.UUID()
			id[15] |= ofAgent
			return IDPrefix + id.UUID(), step
		}
	}
	e += "+1" // imported logs may have other ids: derive a distinct, deterministic id
	return MessageID(e, ofAgent), stepID(e)
}

// RunID returns the id of a turn in the Letta API.
func RunID(t chat.TurnID) string { return uuidOf(RunPrefix, chat.TurnPrefix, string(t), 0) }

// stepID returns the id of the step that begins with an event.
func stepID(e chat.EventID) string { return uuidOf(StepPrefix, chat.EventPrefix, string(e), 0) }

// uuidOf converts an id to a UUID with a prefix. The lowest 7 bits of an id are
// unused; n is stored there to distinguish the messages of one event.
func uuidOf(prefix, ours, id string, n int) string {
	if id == "" {
		return ""
	}
	parsed, ok := chat.ParseID(ours, id)
	if !ok { // imported logs may have other ids: derive a deterministic one
		sum := sha256.Sum256([]byte(id))
		parsed = chat.ID(sum[:16])
		parsed[6], parsed[8], parsed[15] = parsed[6]&0xf|0x40, parsed[8]&0x3f|0x80, parsed[15]&0x80
	}
	parsed[15] |= byte(n) & 0x7f
	return prefix + parsed.UUID()
}

// SeqOf returns the sequence of the event that a message's id was derived from: the
// event that made the message or, for an agent message, the event before it.
func SeqOf(id string) (chat.Seq, bool) {
	parsed, ok := chat.ParseID(IDPrefix, id)
	if !ok {
		return 0, false
	}
	_, seq, ok := parsed.Parts()
	return seq, ok
}
