package vertesia

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// message is one message that an event becomes.
type message struct {
	t     Type
	text  string
	d     []byte // details as JSON, or nil
	index int    // among the messages of its event

	workstream string // "" is the main line
	launched   string // the workstream that begins with the message
	ended      bool   // the workstream has ended without a result
	idle       bool   // the workstream waits for a person
}

// append appends the compact form.
func (m *message) append(dst []byte, at chat.At, workstream string) []byte {
	dst = strconv.AppendInt(append(dst, `{"t":`...), int64(m.t), 10)
	if m.text != "" {
		dst = json.AppendString(append(dst, `,"m":`...), m.text)
	}
	if workstream != "" {
		dst = json.AppendString(append(dst, `,"w":`...), workstream)
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

// chunkSize is how many characters a chunk has at most when pieces of a block are
// sent together.
const chunkSize = 200

// coding turns events and previews into messages. It depends on the session and
// the workstream, never on the reader.
type coding struct {
	name       string
	frame      framing
	workstream string // only this workstream, as a run of its own; "" is all
}

func codingOf(frame framing, workstream string) coding {
	name := [...]string{"vertesia/sse", "vertesia/ws", "vertesia/json"}[frame]
	if workstream != "" {
		name += "/" + workstream
	}
	return coding{name, frame, workstream}
}

// Name implements core.Encoding.
func (c coding) Name() string { return c.name }

// Group implements core.Grouper: pieces of one block that wait together are sent
// as one chunk.
func (coding) Group() int { return chunkSize }

// AppendEvent implements core.Encoding.
func (c coding) AppendEvent(dst []byte, e *core.Entry) []byte {
	if hidden[e.Label.Type] {
		return dst
	}
	ev, err := e.Fact.Event()
	if err != nil {
		return dst // the journal reports damaged events when it reads them
	}
	return c.appendMessages(dst, &ev, 0)
}

// appendMessages appends the messages of an event that come after a position.
func (c coding) appendMessages(dst []byte, e *chat.Event, since chat.At) []byte {
	for _, m := range c.messages(e) {
		if e.At+chat.At(m.index) > since {
			dst = c.wrap(dst, func(b []byte) []byte { return m.append(b, e.At, c.shown(m.workstream)) })
		}
	}
	return dst
}

// shown is the workstream that a message names. A workstream that is shown as a
// run of its own is the main line there.
func (c coding) shown(workstream string) string {
	if c.workstream != "" {
		return ""
	}
	return workstream
}

// messages are the messages of an event that this coding shows.
func (c coding) messages(e *chat.Event) []message {
	all := messagesOf(e)
	if c.workstream == "" {
		return all
	}
	var list []message
	for _, m := range all {
		if m.workstream != c.workstream && m.launched != c.workstream {
			continue
		}
		if m.idle {
			m.t = Idle
		}
		list = append(list, m)
		if m.ended {
			list = append(list, message{t: Terminated, text: m.text, index: m.index + 1})
		}
	}
	return list
}

// AppendPiece implements core.Encoding.
func (c coding) AppendPiece(dst []byte, e *core.Entry) []byte {
	p := e.Piece
	if c.workstream != "" && c.workstream != p.Workstream {
		return dst
	}
	return c.wrap(dst, func(b []byte) []byte {
		b = json.AppendString(append(b, `{"t":12,"m":`...), p.Text)
		if w := c.shown(p.Workstream); w != "" {
			b = json.AppendString(append(b, `,"w":`...), w)
		}
		b = append(append(b, `,"i":"`...), p.Block...) // the name of a block needs no escapes
		return append(appendTS(append(b, `","ts":`...), e.At), '}')
	})
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

// packed is a coding for gzip streams, compressed once for all readers.
type packed struct{ coding }

// Name implements core.Encoding.
func (p packed) Name() string { return p.name + "+gzip" }

// Pack implements core.Packer: it compresses a group of messages.
func (packed) Pack(dst, plain []byte) ([]byte, core.Pack) {
	b := wire.CompressBlock(dst, plain)
	return b.Data, core.Pack{Size: b.Size, Sum: b.CRC, Extra: b.Shift}
}

// blocks are the units of a packed batch.
func blocks(b *core.Batch) []wire.Block {
	out := make([]wire.Block, len(b.Packs))
	from := 0
	for i, p := range b.Packs {
		out[i] = wire.Block{Data: b.Bytes[from : from+p.Len], CRC: p.Sum, Size: p.Size, Shift: p.Extra}
		from += p.Len
	}
	return out
}

// hidden are the types that have no message in this protocol.
var hidden = map[string]bool{
	"session.updated": true, "turn.started": true, "turn.input": true, "turn.stop_requested": true, "agent.trace": true,
	typeTelemetry: true, typeSignal: true,
}

// As returns the messages of an event, for tools that show an event in each
// dialect. The caller has checked that the event may be seen.
func (d *Dialect) As(_ context.Context, fact chat.Fact) (any, error) {
	e, err := fact.Event()
	if err != nil {
		return nil, err
	}
	list := []json.RawMessage{}
	for _, m := range messagesOf(&e) {
		list = append(list, m.append(nil, e.At, m.workstream))
	}
	return list, nil
}

// messagesOf are the messages of an event. They depend on the event alone, so
// that every reader gets the same ones at any time.
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

// one is the only message of an event, on its workstream.
func one(e *chat.Event, t Type, text string, d any) []message {
	return []message{{t: t, text: text, workstream: e.Workstream, d: detailsOf(d)}}
}

func bodyMessages(e *chat.Event) []message {
	switch b := e.Body.(type) {
	case chat.SessionStarted:
		// Clients show no message without a text. But with it every run has a first
		// message, so that a client's cursor is never its own clock.
		return one(e, System, "", details{SystemType: "run_started", Interaction: b.Agent})
	case chat.SessionCompleted:
		if b.Outcome == outcomeCancelled {
			return one(e, Terminated, "The run was cancelled.", details{Status: "canceled"})
		}
		return one(e, Complete, cmp.Or(b.Outcome, "Completed."), nil)
	case chat.SessionFailed:
		return one(e, Terminated, cmp.Or(b.ErrorMessage, "The run failed."), details{Status: "failed", Error: b.ErrorMessage})
	case chat.TurnCompleted:
		return turnMessages(e, b)
	case chat.TurnResumed:
		return one(e, Restarting, "The work was interrupted and goes on.", details{Class: "activity", Attempt: b.Attempt})
	case chat.UserMessage:
		return one(e, Question, cmp.Or(b.PlainText(), namesOf(b.Content)), questionDetails(e, b))
	case chat.UserMessageWithdrawn:
		return one(e, Update, "A message that waited was taken back.", details{Class: "activity"})
	case chat.UserInputResponse:
		return one(e, Question, cmp.Or(b.Text, strings.Join(b.Values, ", "), "(no answer)"), details{Ack: e.ClientID, Answer: &requestRef{b.RequestID}})
	case chat.UserApprovalResponse:
		if e.Actor == chat.System {
			return nil // the settings decided; the request says so
		}
		return one(e, Question, decisionText(b), details{Ack: e.ClientID, Answer: &requestRef{b.RequestID}, Approved: approvalOf(b)})
	case chat.UserPermissionResponse:
		return one(e, Question, permissionText(b), details{Ack: e.ClientID, Answer: &requestRef{b.RequestID}})
	case chat.AgentText:
		if b.Text == "" {
			return nil
		}
		return one(e, Answer, b.Text, blockDetails(b.Block, `,"event_class":"user_content"`))
	case chat.AgentThinking:
		if b.Text == "" {
			return nil
		}
		return one(e, Thought, b.Text, blockDetails(b.Block, `,"display_role":"thinking"`))
	case chat.AgentPlan:
		return one(e, Plan, planText(b), planDetails{Plan: planOf(b)})
	case chat.AgentStatus:
		return one(e, Update, cmp.Or(b.Message, b.Phase, "Working."), details{Class: "activity", Phase: b.Phase})
	case chat.AgentUsage:
		return one(e, Update, fmt.Sprintf("%d tokens in, %d out", b.InputTokens, b.OutputTokens), details{Class: "activity", Tokens: tokensOf(b.Usage), Model: b.Model})
	case chat.AgentError:
		t := Error
		if b.Recoverable {
			t = Warning
		}
		return one(e, t, cmp.Or(b.Message, b.Code, "Something went wrong."), details{Error: b.Code})
	case chat.AgentArtifact:
		return one(e, Update, "Created "+cmp.Or(b.Title, b.Path, b.ArtifactType)+".", artifactDetails(b))
	case chat.AgentShare:
		return one(e, Update, "Shared "+cmp.Or(b.Title, b.Path, b.URL, "something")+".", details{Class: "activity", Share: b})
	case chat.FileUploaded:
		return one(e, Update, cmp.Or(b.Name, b.Path)+" was stored.", details{Class: "artifact_updated", Path: b.Path})
	case chat.FileRemoved:
		return one(e, Update, b.Path+" was removed.", details{Class: "artifact_updated", Path: b.Path})
	case chat.AgentInputRequest:
		if b.InputType == chat.InputNotification {
			return one(e, Update, b.Text, details{Class: "user_content", RequestID: b.RequestID})
		}
		return one(e, RequestInput, inputText(b), inputDetails(b))
	case chat.AgentApprovalRequest:
		if b.Settled {
			return one(e, Update, "The settings of the run allow "+toolsOf(b)+".", details{Class: "activity", RequestID: b.RequestID, Decision: "auto_approved", Released: &approvalKey{b.RequestID}})
		}
		return one(e, RequestInput, approvalText(b), approvalDetails(b))
	case chat.AgentPermissionRequest:
		return one(e, RequestInput, permissionAsked(b), permissionDetails(b))
	case chat.PromptClosed:
		return one(e, Update, closedText(b), closedDetails(b))
	case chat.Unknown:
		return dialectMessages(e, b)
	}
	if list, ok := toolMessages(e); ok {
		return list
	}
	return workMessages(e)
}

// turnMessages are the end of a turn. On a workstream it is shown only as the
// acknowledgement of a stop; the events of the workstream tell the rest.
func turnMessages(e *chat.Event, b chat.TurnCompleted) (list []message) {
	if e.Workstream != "" {
		if b.Ack == "" {
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
		list = append(list, message{t: Error, text: cmp.Or(b.Error, "The turn failed."), d: detailsOf(details{Status: "failed"})})
	case chat.Interrupted:
		list = append(list, message{t: Warning, text: cmp.Or(b.Error, "The agent could not go on.")})
	}
	if b.Outcome == chat.Stopped || b.Ack != "" { // a stop is acknowledged also if the turn ended otherwise before the agent saw it
		return append(list, stopMessage("", "", b.Ack, d.Tokens))
	}
	return append(list, message{t: Idle, d: detailsOf(d)})
}

// stopMessage acknowledges a stop. For a workstream it is an update on the stream
// of the run, because clients take Idle there for the end of the workstream.
func stopMessage(workstream, text, ack string, used *tokenUsage) message {
	m := message{t: Idle, text: cmp.Or(text, "Stopped."), workstream: workstream, idle: true}
	d := details{Ack: ack, StatusReason: "user_stopped", Role: "user_stopped", Tokens: used}
	if workstream != "" {
		m.t, d.Class = Update, "activity"
	}
	m.d = detailsOf(d)
	return m
}

// blockDetails are the details of a finished block; activity_id names the chunks
// that the message replaces.
func blockDetails(block chat.BlockID, more string) json.RawMessage {
	if block == "" {
		return json.RawMessage("{" + more[1:] + "}")
	}
	return json.RawMessage(`{"activity_id":"` + string(block) + `","streamed":true` + more + "}")
}

// postedMessage is the message of an event that was posted in this protocol: the
// original with the event's workstream and time.
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
	return message{t: p.Posted.T, text: p.Posted.M, workstream: e.Workstream, d: p.Posted.D}, true
}
