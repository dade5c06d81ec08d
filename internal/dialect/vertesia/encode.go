package vertesia

import (
	"fmt"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// message is one message that an event becomes.
type message struct {
	t     Type
	text  string
	line  string // workstream; "" is the main one
	d     []byte // details as JSON, or nil
	over  bool   // the line it is on has ended without a result
	rest  bool   // the line it is on waits for a person
	born  string // the line that begins with it, whichever it is on
	index int    // among the messages of its event
}

// append writes the compact form.
func (m *message) append(dst []byte, at chat.At, line string) []byte {
	dst = append(dst, `{"t":`...)
	if m.t >= 10 {
		dst = append(dst, '1')
	}
	dst = append(dst, byte('0'+m.t%10))
	if m.text != "" {
		dst = chat.AppendString(append(dst, `,"m":`...), m.text)
	}
	if line != "" {
		dst = chat.AppendString(append(dst, `,"w":`...), line)
	}
	if m.d != nil {
		dst = append(append(dst, `,"d":`...), m.d...)
	}
	dst = appendTS(append(dst, `,"ts":`...), at+chat.At(m.index))
	return append(dst, '}')
}

// framing is how a message is wrapped.
type framing int

const (
	asSSE    framing = iota
	asSocket         // WebSocket text frames
	asJSON           // objects, each followed by a comma
)

// chunkSize is how many characters of text a chunk holds at most when pieces of a
// block are waiting to be sent together.
const chunkSize = 200

// coding turns entries into messages. It depends on the session and the line
// that are looked at, never on the reader.
type coding struct {
	name  string
	frame framing
	line  string // only this workstream, as if it were a run of its own; "" is all
}

func codingOf(frame framing, line string) coding {
	c := coding{frame: frame, line: line, name: [...]string{"vertesia/sse", "vertesia/ws", "vertesia/json"}[frame]}
	if line != "" {
		c.name += "/" + line
	}
	return c
}

func (c coding) Name() string { return c.name }

// Group has pieces of one block that wait together sent as one chunk.
func (coding) Group() int { return chunkSize }

func (c coding) AppendEvent(dst []byte, e *chat.Entry) []byte {
	if quiet[e.Label.Type] {
		return dst
	}
	ev, err := e.Fact.Event()
	if err != nil {
		// A stored event always parses; one that is damaged is reported where
		// the log is read.
		return dst
	}
	return c.appendMessages(dst, &ev, 0)
}

// appendMessages appends the messages of an event that come after a position.
func (c coding) appendMessages(dst []byte, e *chat.Event, since chat.At) []byte {
	for _, m := range c.messages(e) {
		if e.At+chat.At(m.index) <= since {
			continue
		}
		line := m.line
		if c.line != "" {
			line = ""
		}
		dst = c.wrap(dst, func(b []byte) []byte { return m.append(b, e.At, line) })
	}
	return dst
}

// messages are those of an event that this coding shows.
func (c coding) messages(e *chat.Event) []message {
	all := messagesOf(e)
	if c.line == "" {
		return all
	}
	var own []message
	for _, m := range all {
		if m.line == c.line || m.born == c.line {
			if m.rest {
				m.t = Idle
			}
			own = append(own, m)
			if m.over {
				own = append(own, message{t: Terminated, text: m.text, index: m.index + 1})
			}
		}
	}
	return own
}

// AppendPiece is written by hand, because it stands on the path of every token.
func (c coding) AppendPiece(dst []byte, e *chat.Entry) []byte {
	p := e.Piece
	line := p.Workstream
	if c.line != "" {
		if line != c.line {
			return dst
		}
		line = ""
	}
	if c.frame == asSSE {
		dst = append(dst, "data: "...)
		return append(appendChunk(dst, p, line, e.At), '\n', '\n')
	}
	return c.wrap(dst, func(b []byte) []byte { return appendChunk(b, p, line, e.At) })
}

func appendChunk(dst []byte, p *chat.Preview, line string, at chat.At) []byte {
	dst = chat.AppendString(append(dst, `{"t":12,"m":`...), p.Text)
	if line != "" {
		dst = chat.AppendString(append(dst, `,"w":`...), line)
	}
	dst = append(append(dst, `,"i":"`...), p.Block...) // its characters need no escaping
	dst = appendTS(append(dst, `","ts":`...), at)
	return append(dst, '}')
}

func (c coding) wrap(dst []byte, write func([]byte) []byte) []byte {
	switch c.frame {
	case asSSE:
		return append(write(append(dst, "data: "...)), '\n', '\n')
	case asSocket:
		return wire.AppendTextFrame(dst, write(nil))
	}
	return append(write(dst), ',')
}

// packed is a coding for streams, compressed once for all readers.
type packed struct{ coding }

func (p packed) Name() string { return p.name + "+gzip" }

// Pack compresses a group of messages.
func (packed) Pack(dst, plain []byte) ([]byte, chat.Pack) {
	b := wire.CompressBlock(dst, plain)
	return b.Data, chat.Pack{Size: b.Size, Sum: b.CRC, Extra: b.Shift}
}

// blocks are the units of a packed batch.
func blocks(b *chat.Batch) []wire.Block {
	out := make([]wire.Block, len(b.Packs))
	from := 0
	for i, p := range b.Packs {
		out[i] = wire.Block{Data: b.Bytes[from : from+p.Len], CRC: p.Sum, Size: p.Size, Shift: p.Extra}
		from += p.Len
	}
	return out
}

// quiet are the types that become nothing here; they need not be decoded.
var quiet = map[string]bool{
	"session.updated": true, "turn.started": true, "turn.input": true, "turn.stop_requested": true, "agent.trace": true,
	typeTelemetry: true, typeSignal: true,
}

// messagesOf are the messages that an event becomes. It is a function of the
// event alone, so that every reader at every time gets the same ones.
func messagesOf(e *chat.Event) []message {
	list := bodyMessages(e)
	if m, ok := postedMessage(e); ok {
		list = []message{m}
	}
	for i := range list {
		list[i].index = i
	}
	return list
}

func bodyMessages(e *chat.Event) []message {
	line := e.Workstream
	one := func(t Type, text string, d any) []message {
		return []message{{t: t, text: text, line: line, d: detailsOf(d)}}
	}
	switch b := e.Body.(type) {
	case chat.SessionStarted:
		// Without a text nothing shows it. But it gives every run a first
		// message, so that a client's cursor is never its own clock.
		return one(System, "", details{SystemType: "run_started", Interaction: b.Agent})
	case chat.SessionCompleted:
		if b.Outcome == outcomeCancelled {
			return one(Terminated, "The run was cancelled.", details{Status: "canceled"})
		}
		return one(Complete, first(b.Outcome, "Completed."), nil)
	case chat.SessionFailed:
		return one(Terminated, first(b.ErrorMessage, "The run failed."), details{Status: "failed", Error: b.ErrorMessage})
	case chat.TurnCompleted:
		return turnMessages(e, b)
	case chat.TurnResumed:
		return one(Restarting, "The work was interrupted and goes on.", details{Class: "activity", Attempt: b.Attempt})
	case chat.UserMessage:
		return one(Question, first(b.PlainText(), namesOf(b.Content)), questionDetails(e, b))
	case chat.UserMessageWithdrawn:
		return one(Update, "A message that waited was taken back.", details{Class: "activity"})
	case chat.UserInputResponse:
		return one(Question, first(b.Text, strings.Join(b.Values, ", "), "(no answer)"), details{Ack: e.ClientID, Answer: &requestRef{b.RequestID}})
	case chat.UserApprovalResponse:
		if e.Actor == chat.System {
			return nil // nobody was asked, see the request
		}
		return one(Question, decisionText(b), details{Ack: e.ClientID, Answer: &requestRef{b.RequestID}, Approved: approvalOf(b)})
	case chat.UserPermissionResponse:
		return one(Question, permissionText(b), details{Ack: e.ClientID, Answer: &requestRef{b.RequestID}})
	case chat.AgentText:
		if b.Text == "" {
			return nil
		}
		return one(Answer, b.Text, blockDetails(b.Block, `,"event_class":"user_content"`))
	case chat.AgentThinking:
		if b.Text == "" {
			return nil
		}
		return one(Thought, b.Text, blockDetails(b.Block, `,"display_role":"thinking"`))
	case chat.AgentPlan:
		return one(Plan, planText(b), planDetails{Plan: planOf(b)})
	case chat.AgentStatus:
		return one(Update, first(b.Message, b.Phase, "Working."), details{Class: "activity", Phase: b.Phase})
	case chat.AgentUsage:
		return one(Update, fmt.Sprintf("%d tokens in, %d out", b.InputTokens, b.OutputTokens), details{Class: "activity", Tokens: tokensOf(b.Usage), Model: b.Model})
	case chat.AgentError:
		t := Error
		if b.Recoverable {
			t = Warning
		}
		return one(t, first(b.Message, b.Code, "Something went wrong."), details{Error: b.Code})
	case chat.AgentArtifact:
		return one(Update, "Created "+first(b.Title, b.Path, b.ArtifactType)+".", artifactDetails(b))
	case chat.AgentShare:
		return one(Update, "Shared "+first(b.Title, b.Path, b.URL, "something")+".", details{Class: "activity", Share: b})
	case chat.FileUploaded:
		return one(Update, first(b.Name, b.Path)+" was stored.", details{Class: "artifact_updated", Path: b.Path})
	case chat.FileRemoved:
		return one(Update, b.Path+" was removed.", details{Class: "artifact_updated", Path: b.Path})
	case chat.AgentInputRequest:
		if b.InputType == chat.InputNotification {
			return one(Update, b.Text, details{Class: "user_content", RequestID: b.RequestID})
		}
		return one(RequestInput, inputText(b), inputDetails(b))
	case chat.AgentApprovalRequest:
		if b.Settled {
			return one(Update, "The settings of the run allow "+toolsOf(b)+".", details{Class: "activity", RequestID: b.RequestID, Decision: "auto_approved", Released: &approvalKey{b.RequestID}})
		}
		return one(RequestInput, approvalText(b), approvalDetails(b))
	case chat.AgentPermissionRequest:
		return one(RequestInput, permissionAsked(b), permissionDetails(b))
	case chat.PromptClosed:
		return one(Update, closedText(b), closedDetails(b))
	case chat.Unknown:
		return ownMessages(e, b)
	}
	if list, ok := toolMessages(e); ok {
		return list
	}
	return workMessages(e)
}

// turnMessages are the end of a turn. A line beside the main one is not over
// with its turn: its own end is told by its workstream. Only who stopped it is
// answered here.
func turnMessages(e *chat.Event, b chat.TurnCompleted) (list []message) {
	if e.Workstream != "" {
		if b.Outcome != chat.Stopped || b.Ack == "" {
			return nil
		}
		return []message{stopMessage(e.Workstream, "", b.Ack, nil)}
	}
	d := details{}
	if b.Usage != nil {
		d.Tokens = tokensOf(*b.Usage)
	}
	switch b.Outcome {
	case chat.Failed:
		list = append(list, message{t: Error, text: first(b.Error, "The turn failed."), d: detailsOf(details{Status: "failed"})})
	case chat.Interrupted:
		list = append(list, message{t: Warning, text: first(b.Error, "The agent could not go on.")})
	case chat.Stopped:
		return []message{stopMessage("", "", b.Ack, d.Tokens)}
	}
	return append(list, message{t: Idle, d: detailsOf(d)})
}

// stopMessage tells who stopped a line that it is at rest. Clients take a child
// that is idle for one that has ended, which this one need not have: on its
// parent's stream it is an update.
func stopMessage(line, text, ack string, used *tokenUsage) message {
	m := message{t: Idle, text: first(text, "Stopped."), line: line, rest: true}
	d := details{Ack: ack, StatusReason: "user_stopped", Role: "user_stopped", Tokens: used}
	if line != "" {
		m.t, d.Class = Update, "activity"
	}
	m.d = detailsOf(d)
	return m
}

// blockDetails are those of a finished block, whose chunks it replaces.
func blockDetails(block chat.BlockID, more string) json.RawMessage {
	if block == "" {
		return json.RawMessage("{" + more[1:] + "}")
	}
	return json.RawMessage(`{"activity_id":"` + string(block) + `","streamed":true` + more + "}")
}

// postedMessage is a message that somebody posted in this protocol: it goes out
// as it came, but for its place and time.
func postedMessage(e *chat.Event) (message, bool) {
	if e.Via != via {
		return message{}, false
	}
	var p struct {
		Posted *posted `json:"vertesia"`
	}
	if json.Unmarshal(e.Payload, &p) != nil || p.Posted == nil {
		return message{}, false
	}
	return message{t: p.Posted.T, text: p.Posted.M, line: e.Workstream, d: p.Posted.D}, true
}

func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}
