package stream

import (
	"cmp"
	"iter"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/turnlog"
)

// Run is the turn that a Feed shows.
type Run struct {
	ID           string
	Turn         chat.TurnID
	AgentID      string
	Conversation string     // its id; "" is the agent's default conversation
	Started      chat.Event // turn.started
	Trigger      chat.Event // the event that the turn answers; Seq is 0 when there is none
}

// Ending says how a run ended, or why its stream ends.
type Ending struct {
	Reason string // a stop_reason
	Failed string // the error of a failed run
	At     chat.At
}

// EndingOf returns the ending of a completed turn.
func EndingOf(b chat.TurnCompleted, at chat.At) *Ending {
	switch b.Outcome {
	case chat.Done:
		return &Ending{Reason: StopEndTurn, At: at}
	case chat.Stopped:
		return &Ending{Reason: StopCancelled, At: at}
	}
	return &Ending{Reason: StopError, Failed: cmp.Or(b.Error, "the agent could not go on"), At: at}
}

// Progress says how much of a run a feed has shown.
type Progress struct {
	Last  chat.At    // all items up to this position
	End   *Ending    // nil while there is more to come
	Usage chat.Usage // since the last answer of a person
	Steps int        // since the last answer of a person
}

// Feed turns the entries of a [turnlog.Decoder], from the start of a run, into the items of that run's stream. They depend on the log
// alone, and so do the items, their names and their positions: a client that resumes after the position of its last item
// misses nothing and gets nothing twice.
type Feed struct {
	turn      chat.TurnID
	run       string
	fold      *llm.Fold
	summaries bool    // show summaries that are made during the run
	tokens    bool    // show previews; otherwise only whole messages
	after     chat.At // the client has all items up to this position
	events    Events  // nil: the usage that the agent reports after a question is not looked up

	lastStored  chat.Seq        // the last event when the stream began
	openPrompts map[string]bool // the prompts that were open when the stream began

	blockBytes map[chat.BlockID]int      // bytes of each block whose previews were shown
	blockNames map[chat.BlockID]partName // of the blocks with shown previews

	// The message of the fold that the agent is writing:
	message int // its index
	seen    int // messages of the fold that were looked at
	parts   int // shown parts, calls and returns of it
	calls   int
	returns int

	unitID string   // the message that units counts
	units  []string // the kinds of its items so far

	held    *Item           // an item that the next part may be joined to
	running map[string]bool // tool calls of the run without a return

	at    chat.At // position of the present entry
	count chat.At // items of the present entry
	out   []Item  // the result of Take
	last  chat.At // position of the last item, or of the run's start

	usage chat.Usage
	steps map[string]bool
	end   *Ending
}

// partName names the item of a block.
type partName struct {
	id, step string
	unit     int
}

// Events reads stored events of the session.
type Events func(chat.Range) iter.Seq2[chat.Event, error]

// NewFeed returns a feed for a client that has all items up to after.
func NewFeed(r *Run, summaries, tokens bool, after chat.At, events Events) *Feed {
	f := &Feed{
		turn: r.Turn, run: r.ID, summaries: summaries, tokens: tokens, after: after, events: events, last: r.Started.At,
		fold:        llm.NewFold(llm.Options{AgentID: r.AgentID, ConversationID: r.Conversation}),
		openPrompts: map[string]bool{}, blockBytes: map[chat.BlockID]int{}, blockNames: map[chat.BlockID]partName{},
		running: map[string]bool{}, steps: map[string]bool{},
	}
	if r.Trigger.Seq > 0 {
		f.fold.Apply(&r.Trigger)
	}
	f.fold.Apply(&r.Started)
	f.message = len(f.fold.Messages())
	f.seen = f.message
	return f
}

// Resume sets the state of the session at the start of the stream.
func (f *Feed) Resume(st *chat.State) {
	f.lastStored = st.Last
	for _, p := range st.Prompts {
		f.openPrompts[p.RequestID] = true
	}
}

// Progress returns how much the feed has shown.
func (f *Feed) Progress() Progress {
	return Progress{Last: f.last, End: f.end, Usage: f.usage, Steps: len(f.steps)}
}

// Continue goes on after a question that ended the stream.
func (f *Feed) Continue() { f.end = nil }

// Messages returns the messages of the run so far.
func (f *Feed) Messages() []llm.Message { return f.fold.Messages() }

// Take returns the items of entries. They are valid until the next call. Once Progress has an End, nothing more comes.
func (f *Feed) Take(entries []turnlog.Entry) ([]Item, error) {
	f.out = f.out[:0]
	for _, e := range entries {
		f.at, f.count = e.At, 0
		if e.Piece != nil {
			f.preview(e.Piece)
		} else if err := f.event(e.Event); err != nil || f.end != nil {
			return f.out, err
		}
	}
	return f.out, nil
}

// preview shows text that is being written.
func (f *Feed) preview(p *chat.Preview) {
	text := p.TextAfter(f.blockBytes[p.Block])
	if !f.tokens || p.Workstream != "" || p.Turn != f.turn || text == "" {
		return
	}
	f.blockBytes[p.Block] = p.End
	it := Item{Kind: KindAssistant, text: text, Date: f.at.Time()}
	if p.Kind == chat.ThinkingBlock {
		it.Kind, it.native = KindReasoning, true
	}
	n, ok := f.blockNames[p.Block]
	if !ok {
		n.id, n.step = f.fold.Speaking(f.turn)
		n.unit = f.unit(n.id, it.Kind, true)
		f.blockNames[p.Block] = n
	}
	it.ID, it.step, it.otid, it.piece = n.id, n.step, otidOf(n.id, n.unit), true
	f.show(it)
}

// unit returns the number of an item within its message. An item that is joined with the last one has its number.
func (f *Feed) unit(id, kind string, merges bool) int {
	if f.unitID != id {
		f.unitID, f.units = id, f.units[:0]
	}
	if n := len(f.units) - 1; merges && n >= 0 && f.units[n] == kind {
		return n
	}
	f.units = append(f.units, kind)
	return len(f.units) - 1
}

func (f *Feed) event(e *chat.Event) error {
	f.fold.Apply(e)
	if e.Workstream != "" {
		return nil
	}
	f.messages(e)
	if e.Turn != f.turn {
		return nil
	}
	switch b := e.Body.(type) {
	case chat.AgentUsage:
		f.usage = f.usage.Plus(b.Usage)
	case chat.AgentApprovalRequest:
		if !b.Settled {
			return f.question(e, b.RequestID, StopApproval)
		}
	case chat.AgentInputRequest:
		if b.InputType != chat.InputNotification {
			return f.question(e, b.RequestID, StopEndTurn)
		}
	case chat.AgentPermissionRequest:
		return f.question(e, b.RequestID, StopEndTurn)
	case chat.UserApprovalResponse, chat.UserInputResponse, chat.UserPermissionResponse:
		if e.Actor != chat.System { // an answer by the settings did not end a stream
			f.usage, f.steps = chat.Usage{}, map[string]bool{}
		}
	case chat.TurnCompleted:
		f.flush()
		f.end = EndingOf(b, e.At+f.count) // after the held item
	}
	return nil
}

// question ends the stream at a prompt that waits for an answer, unless the client already has that ending.
func (f *Feed) question(e *chat.Event, request, reason string) error {
	f.flush() // also when it is answered: positions must not depend on the time of reading
	if e.Seq <= f.lastStored && !f.openPrompts[request] {
		return nil // it is answered
	}
	at := min(e.At+f.count, e.At+core.AtStep-3)
	if f.after >= at+1 {
		return nil
	}
	f.end = &Ending{Reason: reason, At: at}
	spent, err := f.usageAfter(e.Seq)
	f.usage = f.usage.Plus(spent)
	return err
}

// usageAfter returns the usage that the agent reports together with a question: the report follows the question
// directly, or after a remark.
func (f *Feed) usageAfter(question chat.Seq) (u chat.Usage, err error) {
	if f.events == nil {
		return u, nil
	}
	for e, err := range f.events(chat.Range{After: question, Limit: 2, Workstream: &turnlog.MainLine}) {
		if err != nil {
			return u, err
		}
		switch b := e.Body.(type) {
		case chat.AgentUsage:
			return b.Usage, nil
		case chat.AgentError:
		default:
			return u, nil
		}
	}
	return u, nil
}

// messages shows what an event added to the messages of the run. System messages about workstreams may come in the
// middle of the agent's message.
func (f *Feed) messages(e *chat.Event) {
	list := f.fold.Messages()
	if f.message < f.seen {
		f.added(&list[f.message], e)
	}
	for ; f.seen < len(list); f.seen++ {
		m := &list[f.seen]
		if m.Role == llm.System {
			f.workstream(m, e)
			continue
		}
		f.flush() // the message before is complete
		f.message = f.seen
		f.parts, f.calls, f.returns = 0, 0, 0
		f.added(m, e)
	}
}

// workstream shows a system message about a workstream. Other system messages come from clients and are not shown.
func (f *Feed) workstream(m *llm.Message, e *chat.Event) {
	if m.RunID != f.run || !strings.HasPrefix(e.Type, "workstream.") {
		return
	}
	if f.held != nil && len(f.held.calls)+len(f.held.returns) == 0 {
		f.flush() // held calls and returns wait for the rest of theirs
	}
	for _, it := range Expand(m, f.summaries) {
		f.show(it)
	}
}

// added shows what is new in a message. Messages of people are not shown: streams do not repeat them.
func (f *Feed) added(m *llm.Message, e *chat.Event) {
	if m.RunID != f.run && e.Turn != f.turn {
		return
	}
	base := Item{ID: m.ID, Date: m.CreatedAt, step: m.StepID, name: m.Name}
	switch {
	case m.Role == llm.Assistant:
		for ; f.parts < len(m.Content); f.parts++ {
			f.part(m.Content[f.parts], base, e)
		}
		for ; f.calls < len(m.ToolCalls); f.calls++ {
			f.call(m.ToolCalls[f.calls:f.calls+1:f.calls+1], base)
		}
	case m.IsApprovalRequest() && f.calls == 0:
		f.calls = len(m.ToolCalls)
		f.request(m, base)
	case m.Role == llm.Tool:
		f.returned(m, base)
	case m.Role == llm.Summary && f.summaries && f.parts == 0:
		f.parts = 1
		for _, it := range compaction(m) {
			f.show(it)
		}
	}
}

// part shows a part of the agent's message: of a block whose previews were shown, the rest.
func (f *Feed) part(p llm.Part, base Item, e *chat.Event) {
	it, merges, ok := partItem(p, base)
	if !ok {
		return
	}
	block := chat.FinishedBlock(e.Body)
	n, named := f.blockNames[block]
	if block == "" || !named {
		n.unit = f.unit(it.ID, it.Kind, merges)
	}
	it.otid = otidOf(it.ID, n.unit)
	if !f.tokens {
		f.hold(it, merges)
		return
	}
	if it.text = it.text[min(f.blockBytes[block], len(it.text)):]; it.text != "" || it.signature != "" || it.Kind == KindHidden {
		f.show(it)
	}
}

// show adds an item of the present entry.
func (f *Feed) show(it Item) {
	it.Seq = f.at + min(f.count, core.AtStep-1)
	f.count++
	f.add(it)
}

// maxJoined bounds the text of an item that has several previews.
const maxJoined = 1 << 10

// add adds an item, unless the client has it. Previews that come together become one item.
func (f *Feed) add(it Item) {
	if it.step != "" {
		f.steps[it.step] = true
	}
	if it.Seq <= f.after {
		return
	}
	it.Run = f.run
	f.last = max(f.last, it.Seq)
	if n := len(f.out) - 1; n >= 0 && it.piece && f.out[n].piece && f.out[n].otid == it.otid && len(f.out[n].text) < maxJoined {
		f.out[n].text += it.text
		f.out[n].Seq = it.Seq
		return
	}
	f.out = append(f.out, it)
}
