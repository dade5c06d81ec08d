package llm

import (
	"slices"

	"github.com/parley-hq/parley/chat"
)

// Options say whose messages a fold makes.
type Options struct {
	Workstream     string // the line of work; "" is the main line
	AgentID        string // put into every message, if given
	ConversationID string // put into every message; "" means the session's id

	// Brief leaves out what is asked while a tool runs, and the answer: for agents
	// that ask through tools, whose results tell the model.
	Brief bool
}

// Fold makes messages from the events of one line of work. An event costs the
// same however long the session is.
//
// The order is the model's, not the log's: a message that a person sends while
// a turn runs comes where a turn takes it up. What the agent thinks, says and
// calls in one go is one assistant message; the results of its calls are one
// tool message. What becomes of workstreams is told in system messages; they
// interrupt nobody: what the agent was saying goes on in the message it was in,
// until a turn takes the news up.
//
// Between turns a fold forgets everything but the messages that wait. So a fold
// that begins at such a place makes the same messages, with the same ids, as
// one that began with the session; see List.
type Fold struct {
	opt      Options
	messages []Message
	places   []chat.Seq // of the event at which each message came
	at       chat.Seq   // of the event that is folded
	now      chat.EventID
	opener   chat.EventID // of the event behind which the agent speaks; see Speaking
	running  chat.TurnID  // the turn that runs
	waiting  []chat.Event
	heard    chat.Seq // what the last message says, if it is a person's

	// Of the running turn:
	open    opening
	speaks  int                      // the message that is open
	turn    chat.TurnID              // of that message
	step    string                   // the model's last one
	named   map[string]string        // call → tool
	unnamed []ToolCall               // calls without an id of their own that have no result yet
	asked   map[string]place         // calls that an approval request has shown already
	denied  map[string]bool          // calls whose refusal was told as their result
	printed map[string]chat.Decision // calls that the client ran and that have no result yet
	prompt  map[string]chat.Body
	works   map[string]bool // calls without a result
	hushed  map[string]bool // prompts that are left out
	usage   int             // messages before it have their model
}

// opening is what the message that is open can still take up.
type opening int

const (
	openNone opening = iota
	openAssistant
	openTool
)

// place is where an approval request shows a call.
type place struct{ message, call int }

// NewFold returns a fold that has seen nothing.
func NewFold(opt Options) *Fold { return &Fold{opt: opt} }

// Messages folds a whole log, or one from a place between turns.
func Messages(events []chat.Event, opt Options) []Message {
	f := NewFold(opt)
	// A question and its answer are four events, and a message is large to move.
	f.messages, f.places = make([]Message, 0, len(events)/2+1), make([]chat.Seq, 0, len(events)/2+1)
	for i := range events {
		f.Apply(&events[i])
	}
	return f.Messages()
}

// Messages returns what the model has been told so far. The slice is the
// fold's own: what a later Apply adds or completes may show in it.
func (f *Fold) Messages() []Message { return f.messages }

// Waiting returns the messages that people sent during the running turn and
// that no turn has taken up yet.
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
	if spoken(e, f.opt.Workstream) {
		f.hear(e)
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
		f.forget()
		f.running, f.opener = b.TurnID, e.ID
		f.take(b.Trigger, e.Turn)
	case chat.TurnInput:
		for _, seq := range b.Sequences {
			f.take(seq, e.Turn)
		}
		// What the agent says from here on, it says knowing of the news.
		f.open, f.opener = openNone, e.ID
	case chat.TurnCompleted:
		f.forget()
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
		if !f.hush(e) {
			f.ask(e)
		}
	case chat.UserInputResponse, chat.UserApprovalResponse, chat.UserPermissionResponse, chat.PromptClosed:
		if !f.hushed[chat.AnswerOf(e.Body)] {
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

// spoken reports whether an event is what a person, or the line that launched
// it, says to a line.
func spoken(e *chat.Event, line string) bool {
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

// hear takes what a person says: at once, or when a turn takes it up.
func (f *Fold) hear(e *chat.Event) {
	if f.running != "" {
		f.waiting = append(f.waiting, *e)
		return
	}
	// No turn runs, so this is a place from which another fold may begin.
	f.forget()
	for i := range f.waiting { // their turn never came
		f.putPerson(&f.waiting[i])
	}
	f.waiting = nil
	f.putPerson(e)
}

// take notes that a turn takes a message up. One that waited is put here. One
// that did not was put when it came, or lies before the fold's beginning.
func (f *Fold) take(seq chat.Seq, turn chat.TurnID) {
	if n := len(f.messages) - 1; n >= 0 && f.heard == seq {
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

// forget drops what only the turn that has ended needed.
func (f *Fold) forget() {
	f.open, f.step, f.opener = openNone, "", ""
	f.usage, f.unnamed = len(f.messages), nil
	clear(f.named)
	clear(f.asked)
	clear(f.denied)
	clear(f.printed)
	clear(f.prompt)
	clear(f.works)
	clear(f.hushed)
}

// hush reports whether a prompt is left out because a tool asks.
func (f *Fold) hush(e *chat.Event) bool {
	if !f.opt.Brief || len(f.works) == 0 {
		return false
	}
	switch b := e.Body.(type) {
	case chat.AgentInputRequest:
		put(&f.hushed, b.RequestID, true)
	case chat.AgentPermissionRequest:
		put(&f.hushed, b.RequestID, true)
	default:
		return false
	}
	return true
}

// message begins the n-th message that e makes.
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

// put adds a message; what was open takes up nothing more.
func (f *Fold) put(e *chat.Event, m Message) {
	f.messages = append(f.messages, m)
	f.places = append(f.places, f.at)
	f.open, f.speaks, f.turn, f.heard = openNone, len(f.messages)-1, e.Turn, 0
	if m.Role != Assistant {
		f.opener = f.now
	}
}

// Speaking names the message that the agent is in or, when it is in none, the
// one that its next word begins, and the step. So a reader can be told the name
// of a message while its first words are shown, before any event of it is in
// the log: the name comes from the event behind which the agent speaks.
func (f *Fold) Speaking(turn chat.TurnID) (message, step string) {
	if f.open == openAssistant && f.turn == turn {
		m := f.present()
		return m.ID, m.StepID
	}
	return f.begins(f.opener, "")
}

// begins names the message and the step that begin behind an event; own is the
// event that begins them, for logs in which nothing comes before it.
func (f *Fold) begins(opener, own chat.EventID) (message, step string) {
	if opener != "" {
		return behind(opener)
	}
	return MessageID(own, ofAgent), stepID(own)
}

func (f *Fold) putPerson(e *chat.Event) {
	if m, ok := f.fromPerson(e); ok {
		f.put(e, m)
		f.step, f.heard = "", e.Seq
	}
}

// present is the message that is open.
func (f *Fold) present() *Message { return &f.messages[f.speaks] }

// notice tells the model something that nobody in the conversation said.
func (f *Fold) notice(e *chat.Event, text string) {
	m := f.message(e, System, 0)
	m.Content = Texts(text)
	f.put(e, m)
}

// news is a notice that comes at any moment, also while the agent is in the
// middle of a sentence whose beginning was shown under a name. So it closes
// nothing.
func (f *Fold) news(e *chat.Event, text string) {
	m := f.message(e, System, 0)
	m.Content = Texts(text)
	if m.RunID == "" {
		m.RunID = RunID(f.running)
	}
	f.messages = append(f.messages, m)
	f.places = append(f.places, f.at)
	f.heard = 0
}

// imported takes a message that stands in the log as it is; see Drafts.
func (f *Fold) imported(e *chat.Event, b chat.Unknown) {
	if b.Name != ImportedType {
		return
	}
	m, err := Decode(b.Payload)
	if err != nil {
		return // written by something else under our name
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
