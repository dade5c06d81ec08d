package agui

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/aguiwire"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/pages"
	"github.com/parley-hq/parley/internal/turnlog"
)

// variant is what differs between clients.
type variant struct {
	v1       bool // AG-UI 1.0; otherwise 0.0.x
	tanstack bool // interrupts carry what TanStack's client needs to answer them
	plain    bool // neither TanStack's client nor CopilotKit: it may repeat a request in another run
}

// frame is an event of a run, as JSON. A client resumes after "EVENT.N".
type frame struct {
	run     chat.Seq     // the event that begins the run
	event   chat.EventID // its id
	trigger chat.Seq     // the message that it answers, 0 when there is none
	n       int          // the number of the frame in the run
	extra   bool         // not every reader gets it, so it has no number of its own
	start   bool         // it is RUN_STARTED
	end     bool         // it is the last frame of the run
	data    []byte
}

// encoder folds the entries of a session into the frames of its runs. It does no I/O. The frames depend only on the entries, so
// every reader of a run gets the same ones.
type encoder struct {
	variant variant
	thread  string
	client  string // the id of the client's run, where it may be another one than that of the run that is shown
	whole   bool   // the entries begin with the session; what happens outside of turns is shown too

	messages map[chat.Seq]*chat.Event // user messages that no turn has taken up
	imported []message                // the history of the page that began the session
	work     map[string]*subagent     // workstreams that were launched
	prompts  []*chat.Prompt           // open ones
	blocks   map[string]*block        // open ones
	calls    map[string]*call         // calls that were shown, by their id
	turn     chat.TurnID              // the running turn of the main line

	run     *run            // nil between runs
	last    string          // the id of the last run
	waiting []string        // the prompts that the last run ended with and that are still open
	held    []turnlog.Entry // what happened since the last run ended, while it waits
	out     []frame
	at      chat.At
}

// run is the run that is being shown.
type run struct {
	seq       chat.Seq // of the event that begins it
	event     chat.EventID
	id        string
	trigger   chat.Seq
	n         int
	subagents map[string]bool            // that were started in it; true while open
	shown     map[string]json.RawMessage // activities by their id, and the state under ""
	usage     []aguiwire.Tokens
}

type subagent struct {
	name, task, parent string
}

type block struct {
	id       string // of the message
	line     string
	thinking bool
	sent     int  // bytes that were shown
	open     bool // in this run
}

type call struct {
	line     string
	answered bool
}

func newEncoder(f variant, thread string) *encoder {
	return &encoder{
		variant: f, thread: thread, messages: map[chat.Seq]*chat.Event{}, work: map[string]*subagent{}, blocks: map[string]*block{}, calls: map[string]*call{},
	}
}

// take returns the frames that an entry adds. The result is valid until the next call.
func (x *encoder) take(s turnlog.Entry) []frame {
	x.out = x.out[:0]
	x.process(s)
	return x.out
}

func (x *encoder) process(s turnlog.Entry) {
	if len(x.waiting) == 0 || !x.hold(s) {
		x.apply(s)
	}
}

// hold keeps an entry for the next run while the last one waits for answers. It returns false for the event that begins the next run.
func (x *encoder) hold(s turnlog.Entry) bool {
	if s.Event != nil {
		if _, ok := s.Event.Body.(chat.TurnStarted); ok && s.Event.Workstream == "" {
			x.resume()
			return false
		}
		if id := chat.AnswerOf(s.Event.Body); id != "" && slices.Contains(x.waiting, id) {
			if x.waiting = slices.DeleteFunc(x.waiting, func(w string) bool { return w == id }); len(x.waiting) > 0 {
				x.apply(s)
				return true
			}
			x.begin(s.Event, x.continuedID(s.Event), nil)
			x.apply(s)
			x.flush()
			return true
		}
	}
	x.held = append(x.held, s)
	return true
}

// resume shows what is held when a turn starts while prompts of workstreams are still open.
func (x *encoder) resume() {
	x.waiting = nil
	if i := slices.IndexFunc(x.held, func(h turnlog.Entry) bool { return h.Event != nil }); i >= 0 {
		e := x.held[i].Event
		x.at = x.held[i].At
		x.begin(e, x.continuedID(e), nil)
	}
	x.flush()
	x.held, x.waiting = nil, nil
	if x.run != nil {
		x.finish(&outcome{Type: "success"})
	}
}

// flush applies what is held. It ends the run again when the turn is over.
func (x *encoder) flush() {
	held := x.held
	x.held = nil
	for _, h := range held {
		x.process(h)
	}
	if x.run != nil && x.turn == "" {
		x.end()
	}
}

// note records what the runs after an event need of it.
func (x *encoder) note(e *chat.Event) {
	switch b := e.Body.(type) {
	case chat.UserMessage:
		x.messages[e.Seq] = e
	case chat.WorkstreamLaunched:
		if x.work[b.ID] == nil { // so a parent is always launched before
			x.work[b.ID] = &subagent{name: b.Name, task: b.Task}
			if x.work[e.Workstream] != nil && e.Workstream != b.ID {
				x.work[b.ID].parent = e.Workstream
			}
		}
	}
	if p, ok := chat.AsPrompt(e); ok && (p.Approval == nil || !p.Approval.Settled) {
		x.prompts = append(x.prompts, &p)
	} else if id := chat.AnswerOf(e.Body); id != "" {
		x.prompts = slices.DeleteFunc(x.prompts, func(p *chat.Prompt) bool { return p.RequestID == id })
	}
}

func (x *encoder) apply(s turnlog.Entry) {
	x.at = s.At
	if s.Piece != nil {
		x.piece(s.Piece)
		return
	}
	e := s.Event
	if isImported(e) {
		if m, ok := messageOf(e); ok {
			x.imported = append(x.imported, m)
		}
		return
	}
	if x.run == nil && x.whole && x.turn == "" && len(x.waiting) == 0 && e.Workstream == "" && standsAlone(e.Body) {
		x.begin(e, "event-"+strconv.FormatUint(uint64(e.Seq), 10), nil)
		x.show(e)
		x.finish(&outcome{Type: "success"})
		return
	}
	x.note(e)
	switch b := e.Body.(type) {
	case chat.UserMessageWithdrawn:
		delete(x.messages, b.Sequence)
	case chat.TurnStarted:
		if e.Workstream != "" {
			return
		}
		if x.run != nil {
			x.finish(&outcome{Type: "success"})
		}
		x.turn = b.TurnID
		trigger := x.messages[b.Trigger]
		delete(x.messages, b.Trigger)
		x.begin(e, runID(b.TurnID, trigger), trigger)
	case chat.TurnCompleted:
		if e.Workstream != "" {
			return
		}
		if x.turn = ""; x.run != nil {
			x.complete(b)
		}
	case chat.AgentInputRequest, chat.AgentApprovalRequest, chat.AgentPermissionRequest:
		x.ask(e)
	case chat.UserInputResponse, chat.UserApprovalResponse, chat.UserPermissionResponse, chat.PromptClosed:
		x.denied(e)
	default:
		x.show(e)
	}
}

// isImported reports whether an event is from the history of the page that began the session.
func isImported(e *chat.Event) bool {
	_, said := e.Body.(chat.AgentText)
	return said && e.Via == via || storedOf(e).Imported
}

// standsAlone reports whether an event outside of turns is shown as a run of its own.
func standsAlone(b chat.Body) bool {
	switch b := b.(type) {
	case chat.AgentText:
		return b.Text != ""
	case chat.AgentArtifact:
		return true
	}
	return false
}

// runID is the id of the run that answers a message: the sender's, if it came through this dialect.
func runID(turn chat.TurnID, trigger *chat.Event) string {
	if trigger == nil {
		return string(turn)
	}
	return cmp.Or(storedOf(trigger).Run, string(turn))
}

// continuedID is the id of a run that an event other than turn.started begins.
func (x *encoder) continuedID(e *chat.Event) string {
	id, _ := senderOf(e)
	return cmp.Or(id, string(x.turn)+"-"+strconv.FormatUint(uint64(e.Seq), 10))
}

// storedOf is what this dialect has stored with a message.
func storedOf(e *chat.Event) stored {
	if b, ok := e.Body.(chat.UserMessage); ok && e.Via == via {
		return aguiwire.Own[stored](b.Context)
	}
	return stored{}
}

// begin begins a run.
func (x *encoder) begin(e *chat.Event, id string, trigger *chat.Event) {
	id = cmp.Or(id, string(e.ID))
	x.run, x.last = &run{seq: e.Seq, event: e.ID, id: id, subagents: map[string]bool{}, shown: map[string]json.RawMessage{}}, id
	ev := runStarted(x.thread, id, x.variant)
	if trigger != nil {
		x.run.trigger = trigger.Seq
		ev.Input = &aguiwire.Input{
			ThreadID: x.thread, RunID: id, State: emptyObject, Messages: append(x.imported, userMessage(trigger)), Tools: []chat.ClientTool{}, Context: []aguiwire.ContextItem{}, Props: emptyObject,
		}
		x.imported = nil
	}
	x.emit(ev)
	x.out[len(x.out)-1].start = true
	if trigger != nil && x.whole {
		if state := storedOf(trigger).State; state != nil { // pages that send a run have the state
			x.emit(event{Type: "STATE_SNAPSHOT", Snapshot: state})
			x.run.n--
			x.out[len(x.out)-1].extra = true
		}
	}
}

func runStarted(thread, id string, f variant) event {
	ev := event{Type: "RUN_STARTED", Thread: thread, Run: id}
	if f.v1 {
		ev.Version = "1.0"
	}
	return ev
}

var emptyObject = json.RawMessage("{}")

// emit adds a frame to the run.
func (x *encoder) emit(ev event) {
	ev.Time = x.milliseconds()
	x.add(pages.Marshal(ev))
}

// emitText adds a frame with a piece of a text. Most frames are such, and they need no reflection.
func (x *encoder) emitText(typ, message, text, subagent string) {
	b := make([]byte, 0, 128+len(message)+len(text)+len(subagent))
	b = append(append(append(b, `{"type":"`...), typ...), `","messageId":`...)
	b = append(json.AppendString(b, message), `,"delta":`...)
	b = json.AppendString(b, text)
	if subagent != "" {
		b = json.AppendString(append(b, `,"subagentRunId":`...), subagent)
	}
	x.add(append(strconv.AppendInt(append(b, `,"timestamp":`...), x.milliseconds(), 10), '}'))
}

func (x *encoder) milliseconds() int64 { return int64(x.at) / 1000 }

func (x *encoder) add(data []byte) {
	x.run.n++
	x.out = append(x.out, frame{run: x.run.seq, event: x.run.event, trigger: x.run.trigger, n: x.run.n, data: data})
}

// complete ends the run with the end of its turn.
func (x *encoder) complete(b chat.TurnCompleted) {
	switch b.Outcome {
	case chat.Done:
		x.end()
	case chat.Stopped:
		o := &outcome{Type: "cancelled"}
		if !x.variant.v1 {
			o = nil // fatal to clients before 1.0
		}
		x.finish(o)
	default:
		text := cmp.Or(b.Error, "the run ended with the outcome "+string(b.Outcome))
		x.close(nil, event{Type: "RUN_ERROR", Message: text, Code: string(b.Outcome)})
	}
}

// end ends the run: with the open prompts, or with success.
func (x *encoder) end() {
	if len(x.prompts) == 0 {
		x.finish(&outcome{Type: "success"})
		return
	}
	for _, p := range x.prompts {
		if p.Workstream != "" {
			x.open(p.Workstream)
		}
		x.waiting = append(x.waiting, p.RequestID)
	}
	x.finish(openOutcome(x.prompts, x.variant, cmp.Or(x.client, x.run.id)))
}

// finish ends the run without an error.
func (x *encoder) finish(o *outcome) {
	x.close(o, event{Type: "RUN_FINISHED", Thread: x.thread, Run: x.run.id, Outcome: o})
}

// close ends the run with an event. No message and no subagent may be open then; those of workstreams go on in the next run.
func (x *encoder) close(o *outcome, last event) {
	for _, key := range slices.Sorted(maps.Keys(x.blocks)) {
		x.closeBlock(x.blocks[key])
	}
	for _, id := range slices.Sorted(maps.Keys(x.run.subagents)) {
		if !x.run.subagents[id] {
			continue
		}
		s := &outcome{Type: "suspended"}
		if o != nil {
			for _, i := range o.Interrupts {
				if i.Subagent == id {
					s.Waits = append(s.Waits, i.ID)
				}
			}
		}
		x.emit(event{Type: "SUBAGENT_FINISHED", Subagent: id, Outcome: s})
	}
	last.Usage = x.run.usage
	x.emit(last)
	x.out[len(x.out)-1].end = true
	x.run = nil
}
