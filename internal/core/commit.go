package core

import (
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Commit is what the rules decided and a committer orders and stores, as one
// atomic unit. It can be applied only to a session whose last event is After. It
// has all that is stored, so that it can be stored where the session's state is
// not known.
type Commit struct {
	Session chat.SessionID
	Number  chat.Number
	After   chat.Seq
	Events  []chat.Event // at least one, contiguous from After+1; of another node's commit outlines, see chat.Fact.Outline
	Facts   []chat.Fact  // the same, as stored
	Keys    []Key        // idempotency keys of the events that have one, in their order
	Ends    []BlockEnds
	Files   []chat.FileInfo // the files that the events add, and without SHA256 those that they remove; only in a cluster

	// What SetState sets.
	Head       chat.Hash     // of the last fact
	Busy       bool          // the session has a turn that runs or waits
	Record     *chat.Session // after the last event; nil if nothing but the end of the log changed
	RecordJSON []byte        // Record as it is stored
	Checkpoint []byte        // the state as it is stored, every CheckpointEvery events; nil means that none is stored
}

// Entries returns the events as readers get them. It uses the memory of buf if that is
// large enough.
func (c *Commit) Entries(buf []Entry) []Entry {
	out := buf[:0]
	for i := range c.Events {
		e := &c.Events[i]
		out = append(out, Entry{At: e.At, Fact: c.Facts[i], Label: chat.Label{Type: e.Type, Workstream: e.Workstream}, Block: chat.FinishedBlock(e.Body)})
	}
	return out
}

// SetState sets what follows from the state after the last event. changed says
// that the session's record changed beyond its last event. The commit refers to
// s.Session, which must not change until the commit is stored.
func (c *Commit) SetState(s *chat.State, changed bool) (err error) {
	c.Head, c.Busy = s.Head, s.Busy()
	if changed || c.After == 0 {
		c.Record = &s.Session
		if c.RecordJSON, err = json.Marshal(c.Record); err != nil {
			return chat.Errorf(chat.Invalid, "the record of session %s cannot be written as JSON", c.Session).Because(err)
		}
	}
	if c.After/CheckpointEvery != s.Last/CheckpointEvery {
		if c.Checkpoint, err = json.Marshal(s); err != nil {
			return chat.Errorf(chat.Invalid, "the state of session %s cannot be written as JSON", c.Session).Because(err)
		}
	}
	return nil
}

// CommitDone receives the result of a commit whose caller does not wait for it. Its methods
// are called by the goroutine that has stored the commit together with those of other
// sessions, so they must not block.
type CommitDone interface {
	// Done is called when the commit is durable, or with the reason why it is not stored.
	Done(err error)
	// GroupDone is called after Done was called for all commits that were stored together.
	GroupDone()
}

// AppendDone receives the result of an append whose caller does not wait for it.
type AppendDone interface {
	// Answer gets the stored events, and must not block then, because it is called for the
	// appends of many callers, one after the other. With an error it may block.
	Answer(events []chat.Event, err error)
	// Flush is called after Answer was called for all appends that were stored together. It
	// must not block.
	Flush()
}

// Key ties a sender's idempotency key to the event it made.
type Key struct {
	Actor    string // Actor.Key
	ClientID string
	Digest   uint64 // of the draft
	Seq      chat.Seq
}

// BlockEnds keeps where the pieces of a finished block ended.
type BlockEnds struct {
	Seq  chat.Seq // the event that finished it
	Ends []chat.End
}

// CheckpointEvery is the number of events between stored states of a session.
const CheckpointEvery = 1000

// PromptRef says where a prompt was asked and where it ended.
type PromptRef struct {
	Asked chat.Seq
	Ended chat.Seq // answer or prompt.closed; 0 while it is open
}

// Deadline is the time at which an open prompt expires.
type Deadline struct {
	Session   chat.SessionID
	RequestID string
	At        chat.At
}

// Erasure is the intention to erase a session. It is stored before anything is
// removed and deleted when nothing of the session is left.
type Erasure struct {
	Number    chat.Number  `json:"number"`
	Workspace string       `json:"workspace"`
	Owner     chat.Actor   `json:"owner"`
	Receipt   chat.Receipt `json:"receipt"` // given to the caller once the erasure is complete
}
