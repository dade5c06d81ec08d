package session

import (
	"cmp"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// decision turns requests into events. It holds everything that the rules may read; it
// has no access to the store, the hub, the clock or another session. It changes only the
// state that it was given, and only for requests that it accepts.
type decision struct {
	session  chat.SessionID
	state    *chat.State
	blocks   []chat.Block // the open blocks, as readers have received them
	now      chat.At
	lastAt   chat.At // position of the last event or preview
	maxQueue int

	after  chat.Seq // the last event before this decision
	seen   chat.Seq // the last event before the current request
	events []chat.Event
	facts  []chat.Fact
	keys   []core.Key
	ends   []core.BlockEnds
	named  []chat.FileInfo // the changes of files that the events report

	record   bool // the session's record changed
	members  bool // access to the session changed
	deadline bool // a prompt with a deadline was opened
	work     bool // the next deadline of the workstreams may have changed

	files map[string][]string // merged files, by id of the workstream that may end

	// Memory for one event, because most decisions have only one.
	first struct {
		event  [1]chat.Event
		fact   [1]chat.Fact
		entry  [1]core.Entry
		commit core.Commit
	}
}

// run applies the rules of one request. A refused request adds no events, with one
// exception: an answer after the deadline closes its prompt as expired.
func (d *decision) run(req *request) error {
	d.files, d.seen = req.files, 0
	if d.state != nil {
		d.seen = d.state.Last
	}
	rested := d.state == nil || d.state.Rests()
	err := d.try(req)
	if !rested && d.state.Session.Settings.CompleteAfterTurn && d.state.Rests() {
		d.complete()
	}
	return err
}

// try applies the rules and, if they fail, restores the decision when req.undo is set.
func (d *decision) try(req *request) error {
	if !req.undo {
		return req.decide(d)
	}
	saved := *d
	if d.state != nil {
		d.state = d.state.Clone()
	}
	err := req.decide(d)
	if err != nil {
		*d = saved
	}
	return err
}

// complete ends a session that has the setting CompleteAfterTurn.
func (d *decision) complete() {
	var body chat.Body
	switch d.state.Ended.Outcome {
	case chat.Done:
		body = chat.SessionCompleted{}
	case chat.Stopped:
		body = chat.SessionCompleted{Outcome: chat.SessionCancelled}
	default:
		body = chat.SessionFailed{ErrorMessage: cmp.Or(d.state.Ended.Error, "the agent could not continue")}
	}
	d.addSystem(body, "", "")
}

// blockIn returns the block with an id, or nil.
func blockIn(blocks []chat.Block, id chat.BlockID) *chat.Block {
	if i := slices.IndexFunc(blocks, func(b chat.Block) bool { return b.ID == id }); i >= 0 {
		return &blocks[i]
	}
	return nil
}

// add creates the next event of the session and applies it to the state.
func (d *decision) add(actor chat.Actor, draft chat.Draft, turn chat.TurnID) *chat.Event {
	if len(d.events) == 0 {
		d.after = d.state.Last
	}
	st := d.state
	seq := st.Last + 1
	d.lastAt = core.After(d.lastAt, d.now)
	e := chat.Event{
		Session: d.session, Seq: seq, At: d.lastAt, Type: draft.Type,
		ID:   chat.EventID(chat.MakeID(st.Number, seq).Text(chat.EventPrefix)),
		Turn: turn, Workstream: draft.Workstream, Actor: actor, Parent: draft.Parent,
		ClientID: draft.ClientID, Via: draft.Via, Prev: st.Head, Payload: draft.Payload, Body: draft.Body,
	}
	fact := chat.Fact{Seq: seq, JSON: e.AppendJSON(make([]byte, 0, 384+len(draft.Payload)))}
	if draft.ClientID != "" {
		d.keys = append(d.keys, core.Key{Actor: actor.Key(), ClientID: draft.ClientID, Digest: draft.Digest(), Seq: seq})
	}
	if b := chat.FinishedBlock(e.Body); b != "" {
		if open := blockIn(d.blocks, b); open != nil && len(open.Ends) > 0 {
			d.ends = append(d.ends, core.BlockEnds{Seq: seq, Ends: open.Ends})
		}
	}
	if draft.File != nil {
		d.named = append(d.named, draft.File.FileInfo)
	}
	if st.Apply(&e) {
		d.record = true
	}
	st.Head = fact.Hash()
	d.events = append(d.events, e)
	d.facts = append(d.facts, fact)
	return &d.events[len(d.events)-1]
}

// addSystem adds an event with the server as its actor.
func (d *decision) addSystem(body chat.Body, workstream string, turn chat.TurnID) {
	d.addAs(chat.System, body, workstream, turn)
}

// addAs adds an event that the server makes on behalf of an actor.
func (d *decision) addAs(actor chat.Actor, body chat.Body, workstream string, turn chat.TurnID) {
	draft := chat.NewDraft(body)
	draft.Workstream = workstream
	if err := draft.Normalize(); err != nil {
		panic("session: the server's own event is invalid: " + err.Error())
	}
	d.add(actor, draft, turn)
}

func (d *decision) commit() (*core.Commit, error) {
	d.first.commit = core.Commit{
		Session: d.session, Number: d.state.Number, After: d.after,
		Events: d.events, Facts: d.facts, Keys: d.keys, Ends: d.ends, Files: d.named,
	}
	return &d.first.commit, d.first.commit.SetState(d.state, d.record)
}

// entries returns the events of the commit as readers get them.
func (d *decision) entries() []core.Entry {
	buf := d.first.entry[:]
	if len(d.events) > 1 {
		buf = make([]core.Entry, 0, len(d.events))
	}
	return d.first.commit.Entries(buf)
}

// nextID returns an id with the sequence of the next event, for events that have it in
// their payload.
func (d *decision) nextID(prefix string) string {
	return chat.MakeID(d.state.Number, d.state.Last+1).Text(prefix)
}
