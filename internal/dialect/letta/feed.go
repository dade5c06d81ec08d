package letta

import (
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
)

// feed turns the entries of a session, from the beginning of a run on, into what
// a stream of that run shows. It is pure. Which items come, their names and
// their positions follow from the log alone, so that a reader that comes back
// with the position of the last one it had misses nothing and gets nothing twice.
type feed struct {
	turn   chat.TurnID
	run    string
	fold   *llm.Fold
	form   form
	tokens bool    // text as it is written; else whole messages
	after  chat.At // the reader has all up to here
	last   chat.At // position of the last item, or where the run began

	sent  map[chat.BlockID]int   // bytes of blocks that the reader has
	names map[chat.BlockID]named // of the blocks that are being written
	ended func(seq chat.Seq) ([]chat.End, error)
	ahead func(seq chat.Seq) ([]chat.Event, error) // the next texts that are finished behind an event
	spent func(seq chat.Seq) (chat.Usage, error)   // what is reported right behind a question
	known chat.Seq                                 // the last event when the stream began
	open  map[string]bool                          // the prompts that were open then

	// Of the message that is looked at:
	message int // in the fold
	seen    int // messages of the fold that were looked at
	parts   int // of it that were shown
	calls   int
	returns int
	id      string   // of the message that units counts
	units   []string // kinds of its parts so far

	held  *item           // a message that may still grow
	works map[string]bool // calls of the run that have no return yet
	now   chat.At
	count chat.At // items of the present entry
	out   []item

	usage chat.Usage
	steps map[string]bool
	end   *ending
}

// named is the part of a message that a block is.
type named struct {
	id, step, otid string
	place          int // index among the parts
}

// ending is how a run ended, or why a stream of it ends.
type ending struct {
	reason string
	failed string // what went wrong
	at     chat.At
}

// progress is what a client has been told of a run.
type progress struct {
	last  chat.At // all up to here
	end   *ending // nil while there is more to come
	usage chat.Usage
	steps int // that the agent took since it was last asked
}

// newFeed returns a feed that has seen the beginning of the run.
func newFeed(r *run, f form, tokens bool, after chat.At) *feed {
	fd := &feed{
		turn: r.turn, run: r.id, form: f, tokens: tokens, after: after, last: r.started.At,
		fold: llm.NewFold(llm.Options{AgentID: r.agentID, ConversationID: r.conversation}),
		sent: map[chat.BlockID]int{}, names: map[chat.BlockID]named{}, open: map[string]bool{}, steps: map[string]bool{},
		works: map[string]bool{},
	}
	if r.trigger.Seq > 0 {
		fd.fold.Apply(&r.trigger)
	}
	fd.fold.Apply(&r.started)
	fd.message = len(fd.fold.Messages())
	fd.seen = fd.message
	return fd
}

// take folds one entry and returns what it shows. The items are valid until the
// next call; nothing more comes once end is set.
func (f *feed) take(e *chat.Entry) ([]item, error) {
	f.out, f.now, f.count = f.out[:0], e.At, 0
	if e.Piece != nil {
		f.piece(e.Piece)
		return f.out, nil
	}
	ev, err := e.Fact.Event()
	if err != nil {
		return nil, err
	}
	return f.out, f.event(&ev)
}

// piece shows text that is being written.
func (f *feed) piece(p *chat.Preview) {
	have := f.sent[p.Block]
	if !f.tokens || p.Workstream != "" || p.Turn != f.turn || p.End <= have || p.Offset > have {
		return
	}
	f.sent[p.Block] = p.End
	it := item{text: p.Text[have-p.Offset:], date: f.now.Time(), kind: kindAssistant}
	if p.Kind == chat.ThinkingBlock {
		it.kind, it.native = kindReasoning, true
	} else if f.form.legacy {
		it.kind = kindReasoning
	}
	n, ok := f.names[p.Block]
	if !ok {
		n.id, n.step = f.fold.Speaking(f.turn)
		n.place = f.unit(n.id, it.kind, true)
		n.otid = otidOf(n.id, n.place)
		f.names[p.Block] = n
	}
	it.id, it.step, it.otid = n.id, n.step, n.otid
	f.show(it)
}

// unit counts the parts of a message; one that merges with the last is no new one.
func (f *feed) unit(id, kind string, merges bool) int {
	if f.id != id {
		f.id, f.units = id, f.units[:0]
	}
	if n := len(f.units) - 1; merges && n >= 0 && f.units[n] == kind {
		return n
	}
	f.units = append(f.units, kind)
	return len(f.units) - 1
}

func (f *feed) event(e *chat.Event) error {
	f.fold.Apply(e)
	if e.Workstream != "" {
		return nil
	}
	if err := f.messages(e); err != nil {
		return err
	}
	if e.Turn != f.turn {
		return nil
	}
	switch b := e.Body.(type) {
	case chat.AgentUsage:
		f.usage = f.usage.Plus(b.Usage)
	case chat.AgentApprovalRequest:
		if !b.Settled {
			return f.asks(e, b.RequestID, stopApproval)
		}
	case chat.AgentInputRequest:
		if b.InputType != chat.InputNotification {
			return f.asks(e, b.RequestID, stopEndTurn)
		}
	case chat.AgentPermissionRequest:
		return f.asks(e, b.RequestID, stopEndTurn)
	case chat.UserApprovalResponse, chat.UserInputResponse, chat.UserPermissionResponse:
		if e.Actor != chat.System { // the settings did not end the stream
			// What follows is another answer to the client.
			f.usage, f.steps = chat.Usage{}, map[string]bool{}
		}
	case chat.TurnCompleted:
		f.flush()
		f.end = endingOf(b, e.At+f.count) // behind what was held
	}
	return nil
}

// asks ends the stream at a question that waits, unless the reader has been told
// of it. What the step that asks has cost stands behind the question in the log, and
// counts.
func (f *feed) asks(e *chat.Event, request, reason string) error {
	f.flush() // also when it was answered: positions must not depend on when a reader comes
	if e.Seq <= f.known && !f.open[request] {
		return nil // it was answered
	}
	at := min(e.At+f.count, e.At+chat.AtStep-3)
	if f.after >= at+1 {
		return nil
	}
	f.end = &ending{reason: reason, at: at}
	if f.spent == nil {
		return nil
	}
	spent, err := f.spent(e.Seq)
	f.usage = f.usage.Plus(spent)
	return err
}

// endingOf words how a turn ended.
func endingOf(b chat.TurnCompleted, at chat.At) *ending {
	switch b.Outcome {
	case chat.Done:
		return &ending{reason: stopEndTurn, at: at}
	case chat.Stopped:
		return &ending{reason: stopCancelled, at: at}
	}
	return &ending{reason: stopError, failed: first(b.Error, "the agent could not go on"), at: at}
}

// messages shows what an event added to the messages of the run. The agent goes
// on in its message over what is told of workstreams.
func (f *feed) messages(e *chat.Event) error {
	list := f.fold.Messages()
	if f.message < f.seen {
		if err := f.added(&list[f.message], e); err != nil {
			return err
		}
	}
	for ; f.seen < len(list); f.seen++ {
		m := &list[f.seen]
		if m.Role == llm.System {
			if err := f.tells(m, e); err != nil {
				return err
			}
			continue
		}
		f.flush() // the message before it is complete
		f.message = f.seen
		f.parts, f.calls, f.returns = 0, 0, 0
		if err := f.added(m, e); err != nil {
			return err
		}
	}
	return nil
}

// added shows what is new in a message. What people said is not shown to them
// again.
func (f *feed) added(m *llm.Message, e *chat.Event) error {
	if m.RunID != f.run && e.Turn != f.turn {
		return nil
	}
	base := item{id: m.ID, step: m.StepID, date: m.CreatedAt, name: m.Name}
	switch {
	case m.Role == llm.Assistant:
		for ; f.parts < len(m.Content); f.parts++ {
			if err := f.part(m.Content[f.parts], base, e); err != nil {
				return err
			}
		}
		for ; f.calls < len(m.ToolCalls); f.calls++ {
			f.call(m, base)
		}
	case m.IsApprovalRequest() && f.calls == 0:
		f.calls = len(m.ToolCalls)
		f.request(m, base)
	case m.Role == llm.Tool:
		f.returned(m, base)
	case m.Role == llm.Summary && f.form.summaries:
		for _, it := range compaction(m) {
			f.show(it)
		}
	}
	return nil
}

// part shows a part of what the agent says. Of a block the reader may have the
// beginning.
func (f *feed) part(p llm.Part, base item, e *chat.Event) error {
	it, merges, ok := f.form.part(p, base)
	if !ok {
		return nil
	}
	block := chat.FinishedBlock(e.Body)
	n, seen := f.names[block]
	if block == "" || !seen {
		n.place = f.unit(it.id, it.kind, merges)
	}
	it.otid = otidOf(it.id, n.place)
	if !f.tokens {
		f.hold(it, merges)
		return nil
	}
	have, last, err := f.has(block, e)
	if err != nil {
		return err
	}
	whole := it.text
	if have > len(whole) {
		have = len(whole)
	}
	if last.Bytes > have && last.Bytes <= len(whole) && last.At > f.last {
		// What was shown while it was written stays at the position it had then.
		piece := it
		piece.text, piece.signature, piece.seq = whole[have:last.Bytes], "", last.At
		f.add(piece)
		have = last.Bytes
	}
	it.text = whole[have:]
	if it.text == "" && it.signature == "" && it.kind != kindHidden {
		return nil
	}
	if e.Seq <= f.known {
		// Of the texts behind it some may have been shown before it.
		if err := f.written(e); err != nil {
			return err
		}
	}
	f.show(it)
	return nil
}

// has is how much of a finished block the reader has and, when the block was
// finished before the stream began, where its last piece ended.
func (f *feed) has(block chat.BlockID, e *chat.Event) (have int, last chat.End, err error) {
	if block == "" {
		return 0, last, nil
	}
	have = f.sent[block]
	f.sent[block] = chat.MaxBlock // a piece of it that comes late says nothing new
	if have > 0 || f.ended == nil || e.Seq > f.known || e.At <= f.after {
		return have, last, nil
	}
	ends, err := f.ended(e.Seq)
	if err != nil || len(ends) == 0 {
		return 0, last, err
	}
	return bytesAt(ends, f.after), ends[len(ends)-1], nil
}

// bytesAt is how much of a block had been shown at a position.
func bytesAt(ends []chat.End, at chat.At) (n int) {
	for _, e := range ends {
		if e.At > at {
			break
		}
		n = e.Bytes
	}
	return n
}

// show adds an item of the present entry.
func (f *feed) show(it item) {
	it.seq = f.place()
	f.add(it)
}

// place is the position of the next item of the present entry.
func (f *feed) place() chat.At {
	at := f.now + min(f.count, chat.AtStep-1)
	f.count++
	return at
}

func (f *feed) add(it item) {
	if it.step != "" {
		f.steps[it.step] = true
	}
	if it.seq <= f.after {
		return
	}
	it.run = f.run
	f.last = max(f.last, it.seq)
	f.out = append(f.out, it)
}

// resume tells the feed what there is when the stream begins: of the blocks that
// are being written the reader has what was shown up to its position. It returns
// where to watch from.
func (f *feed) resume(started chat.Seq, st *chat.State, blocks []chat.Block) chat.Cursor {
	f.known = st.Last
	for _, p := range st.Prompts {
		f.open[p.RequestID] = true
	}
	from := chat.Cursor{Seq: started}
	for _, b := range blocks {
		if n := bytesAt(b.Ends, f.after); n > 0 && b.Turn == f.turn {
			f.sent[b.ID] = n
			from.Blocks = append(from.Blocks, chat.Mark{Block: b.ID, Bytes: n})
		}
	}
	return from
}

// told is how far a feed is.
func (f *feed) told() progress {
	return progress{last: f.last, end: f.end, usage: f.usage, steps: len(f.steps)}
}
