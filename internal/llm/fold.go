package llm

import (
	"slices"

	"github.com/parley-hq/parley/chat"
)

// Options configure a Fold.
type Options struct {
	Workstream     string // the workstream to fold; "" means the main conversation
	AgentID        string // agent id of every message; "" means none
	ConversationID string // conversation id of every message; "" means the session's id

	// Brief omits prompts that are opened while a tool runs, and their answers, for
	// agents that ask through tools: the tool's result contains the answer.
	Brief bool
}

// Fold converts the events of one workstream to messages. Its cost per event does not
// depend on the length of the session.
//
// Messages are in the order in which the model receives them, which can differ from
// the order of the log: a message that a person sends during a turn is placed where a
// turn takes it as input. Consecutive reasoning, text and calls of the agent form one
// assistant message; the results of these calls form one tool message. Events about
// workstreams become system messages. They do not end the current assistant message;
// that one ends when the turn takes new input.
//
// Between turns a Fold has no state except the messages that wait for a turn. A Fold
// that begins between turns therefore makes the same messages, with the same ids, as
// one that began at the start of the session; see List.
type Fold struct {
	opt       Options
	messages  []Message
	sequences []chat.Seq // sequence of the event that added each message
	at        chat.Seq   // sequence of the current event
	now       chat.EventID
	prevEvent chat.EventID // the event that the id of the next agent message is derived from; see Speaking
	running   chat.TurnID  // the running turn
	waiting   []chat.Event
	lastInput chat.Seq // sequence of the event of the last message, if it is a user message

	// State of the running turn:
	open           opening
	openIndex      int                      // index of the open message
	turn           chat.TurnID              // turn of the open message
	step           string                   // id of the model's last step
	toolNames      map[string]string        // call → tool
	callsWithoutID []ToolCall               // calls without an id in the log that have no result yet
	asked          map[string]callIndex     // calls in approval requests
	denied         map[string]bool          // denied calls, whose result is the denial
	clientRuns     map[string]chat.Decision // calls that the client ran and that have no result yet
	prompt         map[string]chat.Body
	pending        map[string]bool // running calls
	omitted        map[string]bool // omitted prompts; see Options.Brief
	usage          int             // messages before this index have their model set
}

// opening says what kind of content can be added to the open message.
type opening int

const (
	openNone opening = iota
	openAssistant
	openTool
)

// callIndex finds a call of an approval request: the index of its message, and its index in that message.
type callIndex struct{ message, call int }

// NewFold returns an empty Fold.
func NewFold(opt Options) *Fold {
	return &Fold{
		opt: opt, toolNames: map[string]string{}, asked: map[string]callIndex{}, denied: map[string]bool{}, clientRuns: map[string]chat.Decision{},
		prompt: map[string]chat.Body{}, pending: map[string]bool{}, omitted: map[string]bool{},
	}
}

// Messages returns the messages so far. The slice belongs to the Fold: later calls of
// Apply may change it.
func (f *Fold) Messages() []Message { return f.messages }

// Waiting returns the messages that people sent during the running turn and that no
// turn has taken as input yet.
func (f *Fold) Waiting() []Message {
	var out []Message
	for i := range f.waiting {
		if m, ok := f.fromPerson(&f.waiting[i]); ok {
			out = append(out, m)
		}
	}
	return out
}

// Apply folds the next event.
func (f *Fold) Apply(e *chat.Event) {
	f.at, f.now = e.Seq, e.ID
	if isInput(e, f.opt.Workstream) {
		f.addInput(e)
		return
	}
	if e.Workstream != f.opt.Workstream {
		if b, ok := e.Body.(chat.WorkstreamSteered); ok && b.ID == f.opt.Workstream {
			f.news(e, "Directive "+b.Command+": "+b.Text)
		}
		return
	}
	switch b := e.Body.(type) {
	case chat.UserMessageWithdrawn:
		f.waiting = slices.DeleteFunc(f.waiting, func(w chat.Event) bool { return w.Seq == b.Sequence })
	case chat.TurnStarted:
		f.resetTurn()
		f.running, f.prevEvent = b.TurnID, e.ID
		f.take(b.Trigger, e.Turn)
	case chat.TurnInput:
		for _, seq := range b.Sequences {
			f.take(seq, e.Turn)
		}
		// The agent's later output can depend on the new input, so it needs a new message.
		f.open, f.prevEvent = openNone, e.ID
	case chat.TurnCompleted:
		f.resetTurn()
		f.running = ""

	case chat.AgentThinking:
		f.think(e, b)
	case chat.AgentText:
		f.say(e, b)
	case chat.AgentToolCall:
		f.call(e, b)
	case chat.AgentToolResult:
		f.result(e, b)
	case chat.AgentToolError:
		f.toolError(e, b)
	case chat.AgentUsage:
		f.model(b.Model)

	case chat.AgentInputRequest, chat.AgentApprovalRequest, chat.AgentPermissionRequest:
		if !f.omits(e) {
			f.ask(e)
		}
	case chat.UserInputResponse, chat.UserApprovalResponse, chat.UserPermissionResponse, chat.PromptClosed:
		if !f.omitted[chat.AnswerOf(e.Body)] {
			f.answered(e)
		}

	case chat.SessionUpdated:
		if b.Summary != nil && *b.Summary != "" {
			m := f.message(e, Summary, 0)
			m.Content = Texts(PackSummary(*b.Summary, e.At.Time()))
			f.put(e, m)
		}
	case chat.WorkstreamLaunched, chat.WorkstreamCompleted, chat.WorkstreamFailed, chat.WorkstreamTimeout, chat.WorkstreamWarning, chat.WorkstreamCanceled, chat.WorkstreamProgress:
		f.child(e)
	case chat.Unknown:
		f.imported(e, b)
	}
}

// isInput reports whether an event is input for a workstream: a user message, its task,
// or a message from the workstream that launched it.
func isInput(e *chat.Event, line string) bool {
	switch b := e.Body.(type) {
	case chat.UserMessage:
		return e.Workstream == line
	case chat.WorkstreamLaunched:
		return b.ID == line
	case chat.WorkstreamMessage:
		return b.ID == line
	}
	return false
}

// addInput adds an input message immediately if no turn runs. Otherwise the message waits
// until a turn takes it.
func (f *Fold) addInput(e *chat.Event) {
	if f.running != "" {
		f.waiting = append(f.waiting, *e)
		return
	}
	// Another Fold may begin here, because no turn runs.
	f.resetTurn()
	for i := range f.waiting { // no turn has taken them
		f.putPerson(&f.waiting[i])
	}
	f.waiting = nil
	f.putPerson(e)
}

// take records that a turn takes a message as input. If the message waited, take adds
// it here. Otherwise it was added when it was sent, or it is before the Fold's first
// event.
func (f *Fold) take(seq chat.Seq, turn chat.TurnID) {
	if n := len(f.messages) - 1; n >= 0 && f.lastInput == seq {
		f.messages[n].RunID = RunID(turn)
	}
	for i := range f.waiting {
		if f.waiting[i].Seq == seq {
			e := f.waiting[i]
			e.Turn = turn
			f.putPerson(&e)
			f.waiting = slices.Delete(f.waiting, i, i+1)
			return
		}
	}
}

// resetTurn clears the state of the turn that has ended.
func (f *Fold) resetTurn() {
	f.open, f.step, f.prevEvent = openNone, "", ""
	f.usage, f.callsWithoutID = len(f.messages), nil
	clear(f.toolNames)
	clear(f.asked)
	clear(f.denied)
	clear(f.clientRuns)
	clear(f.prompt)
	clear(f.pending)
	clear(f.omitted)
}

// omits reports whether to omit a prompt because a running tool opened it.
func (f *Fold) omits(e *chat.Event) bool {
	if !f.opt.Brief || len(f.pending) == 0 {
		return false
	}
	switch b := e.Body.(type) {
	case chat.AgentInputRequest:
		f.omitted[b.RequestID] = true
	case chat.AgentPermissionRequest:
		f.omitted[b.RequestID] = true
	default:
		return false
	}
	return true
}

// message returns a new message, the n-th that is made from e.
func (f *Fold) message(e *chat.Event, role Role, n int) Message {
	m := Message{
		ID: MessageID(e.ID, n), Role: role, RunID: RunID(e.Turn), CreatedAt: e.At.Time(),
		AgentID: f.opt.AgentID, ConversationID: f.opt.ConversationID,
	}
	if m.ConversationID == "" {
		m.ConversationID = string(e.Session)
	}
	return m
}

// put adds a message and closes the open one.
func (f *Fold) put(e *chat.Event, m Message) {
	f.messages = append(f.messages, m)
	f.sequences = append(f.sequences, f.at)
	f.open, f.openIndex, f.turn, f.lastInput = openNone, len(f.messages)-1, e.Turn, 0
	if m.Role != Assistant {
		f.prevEvent = f.now
	}
}

// Speaking returns the ids of the open assistant message and its step or, if none is
// open, the ids that the next ones will have. Readers can therefore get the id of a
// message with its first preview, before any of its events is in the log. The id is
// derived from the event that precedes the message.
func (f *Fold) Speaking(turn chat.TurnID) (message, step string) {
	if f.open == openAssistant && f.turn == turn {
		m := f.openMessage()
		return m.ID, m.StepID
	}
	return f.nextIDs(f.prevEvent, "")
}

// nextIDs returns the ids of the message and the step that begin after prevEvent. Without
// it, the ids are derived from own, the first event of the message.
func (f *Fold) nextIDs(prevEvent, own chat.EventID) (message, step string) {
	if prevEvent != "" {
		return idsAfter(prevEvent)
	}
	return MessageID(own, ofAgent), stepID(own)
}

func (f *Fold) putPerson(e *chat.Event) {
	if m, ok := f.fromPerson(e); ok {
		f.put(e, m)
		f.step, f.lastInput = "", e.Seq
	}
}

// openMessage returns the open message.
func (f *Fold) openMessage() *Message { return &f.messages[f.openIndex] }

// notice adds a system message and closes the open message.
func (f *Fold) notice(e *chat.Event, text string) {
	m := f.message(e, System, 0)
	m.Content = Texts(text)
	f.put(e, m)
}

// news adds a system message without closing the open message. News can arrive while
// an assistant message is written whose id readers already have.
func (f *Fold) news(e *chat.Event, text string) {
	m := f.message(e, System, 0)
	m.Content = Texts(text)
	if m.RunID == "" {
		m.RunID = RunID(f.running)
	}
	f.messages = append(f.messages, m)
	f.sequences = append(f.sequences, f.at)
	f.lastInput = 0
}

// ImportedType is the type of an event that contains a complete message, for messages
// without an event type of their own: summaries, and messages before the last one of a
// request. A Fold returns the contained message.
const ImportedType = "llm.message"

// imported adds a message that the log contains unchanged.
func (f *Fold) imported(e *chat.Event, b chat.Unknown) {
	if b.Name != ImportedType {
		return
	}
	m, err := decodeMessage(b.Payload)
	if err != nil {
		return // an event of this type from another source
	}
	mine := f.message(e, m.Role, 0)
	m.ID, m.ConversationID = mine.ID, mine.ConversationID
	if mine.AgentID != "" {
		m.AgentID = mine.AgentID
	}
	if m.CreatedAt.IsZero() {
		m.CreatedAt = mine.CreatedAt
	}
	f.put(e, m)
}
