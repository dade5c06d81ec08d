package aisdk

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/attachment"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/pages"
	"github.com/parley-hq/parley/internal/turnlog"
)

// via marks events that came through this dialect.
const via = "aisdk"

// segment names a segment of an assistant message; see the package comment.
type segment struct {
	message chat.Seq // the event by which the turn took up a message of the page; 0 is the first message of the turn
	index   int
}

// addition has the chunks that an entry adds to a segment of a turn.
type addition struct {
	at     segment
	chunks []chunk
	asks   bool // the segment ends behind these chunks, because the agent waits for an answer
}

// run turns the entries of a turn, from turn.started on, into chunks. It does no I/O.
type run struct {
	turn    chat.TurnID
	session chat.SessionID
	agent   string
	legacy  bool // for version 5, which has no approvals

	at    segment
	ended bool // turn.completed was taken

	inStep  bool // start-step was sent in this message
	newStep bool // the next text or call begins a step
	step    int  // the number of the present step

	blocks  map[chat.BlockID]*block
	open    []*block // blocks with a text part that has not ended, in order
	calls   map[string]*call
	called  int       // the number of calls so far
	prompts []*prompt // asked and not ended, in order
	said    map[chat.Seq]*chat.Event
	work    map[string]*workView
	usage   chat.Usage

	added   []addition
	out     []chunk // of the present entry
	flushed int     // how many of them are in added
}

// block is a text of the agent.
type block struct {
	part     string // the id of its part
	thinking bool
	parts    int // how many parts it has had: a prompt ends the part, and the rest becomes another one
	have     int // bytes that were sent
}

// call is a tool part.
type call struct {
	tool    string
	input   json.RawMessage
	number  int      // in the order of the calls
	message chat.Seq // the message that has the part
	step    int      // the step that has the part
	dynamic bool
	asked   bool // a prompt asks about it
	done    bool // it has its output
}

// prompt is a prompt that was shown.
type prompt struct {
	chat.Prompt
	at segment
}

func newRun(legacy bool) *run {
	return &run{
		legacy: legacy, newStep: true, blocks: map[chat.BlockID]*block{}, calls: map[string]*call{}, said: map[chat.Seq]*chat.Event{}, work: map[string]*workView{},
	}
}

// messageID is the id of an assistant message.
func messageID(turn chat.TurnID, message chat.Seq) string {
	if message == 0 {
		return string(turn)
	}
	return string(turn) + "~" + strconv.FormatUint(uint64(message), 10)
}

// start is the first chunk of a response.
func (r *run) start(message chat.Seq) chunk {
	b := pages.Marshal(struct {
		Session chat.SessionID `json:"session_id"`
		Turn    chat.TurnID    `json:"turn_id"`
		Agent   string         `json:"agent"`
	}{r.session, r.turn, r.agent})
	return chunk{Type: chunkStart, MessageID: messageID(r.turn, message), Metadata: b}
}

// take returns what an entry adds. The result is valid until the next call.
func (r *run) take(e *turnlog.Entry) []addition {
	p := e.Piece
	if p == nil {
		return r.event(e.Event)
	}
	r.reset()
	if p.Workstream == "" && p.Turn == r.turn && r.turn != "" && !r.ended {
		r.piece(p)
		r.flush(false)
	}
	return r.added
}

// event returns what a stored event adds, as take does. A prompt ends the segment, also if it adds no chunks.
func (r *run) event(e *chat.Event) []addition {
	if r.reset(); r.ended {
		return nil
	}
	asks := r.prompt(e)
	switch {
	case asks:
	case e.Workstream == "" && (e.Turn == r.turn || e.Turn == "" || r.turn == ""):
		r.mainLine(e)
	case e.Workstream != "":
		r.workstream(e)
	}
	r.flush(asks)
	return r.added
}

// reset forgets what the last entry has added.
func (r *run) reset() { r.added, r.out, r.flushed = r.added[:0], r.out[:0], 0 }

// flush makes an addition of the chunks since the last one.
func (r *run) flush(asks bool) {
	n := len(r.out)
	if n == r.flushed && !asks {
		return
	}
	r.added = append(r.added, addition{at: r.at, chunks: r.out[r.flushed:n:n], asks: asks})
	r.flushed = n
	if asks {
		r.at.index++
	}
}

// waits returns the index of the last segment of the present message that ends with an open prompt, -1 when there is none.
func (r *run) waits() int {
	last := -1
	for _, p := range r.prompts {
		if p.at.message == r.at.message && !r.ended {
			last = max(last, p.at.index)
		}
	}
	return last
}

func (r *run) emit(c chunk) { r.out = append(r.out, c) }

// part begins a step where one is due; it is called before a text or a tool part.
func (r *run) part() {
	if !r.newStep {
		return
	}
	if r.inStep {
		r.endTexts() // versions 5 and 6 end them with the step
		r.emit(chunk{Type: chunkFinishStep})
	}
	r.emit(chunk{Type: chunkStartStep})
	r.inStep, r.newStep = true, false
	r.step++
}

// follow begins an assistant message behind a message of the page.
func (r *run) follow(taken chat.Seq) {
	r.endTexts()
	r.flush(false)
	r.at = segment{message: taken}
	r.inStep, r.newStep = false, true
}

// piece shows a part of a block.
func (r *run) piece(p *chat.Preview) {
	b := r.blocks[p.Block]
	if b == nil {
		b = &block{thinking: p.Kind == chat.ThinkingBlock}
		r.blocks[p.Block] = b
	}
	text := p.TextAfter(b.have)
	if text == "" {
		return
	}
	b.have += len(text)
	if b.part == "" {
		r.part()
		b.part = string(p.Block)
		if b.parts > 0 {
			b.part += "." + strconv.Itoa(b.parts)
		}
		b.parts++
		r.open = append(r.open, b)
		r.emit(chunk{Type: b.typ(chunkTextStart, chunkThinkStart), ID: b.part})
	}
	r.emit(chunk{Type: b.typ(chunkTextDelta, chunkThinkDelta), ID: b.part, Delta: text})
}

func (b *block) typ(text, thinking string) string {
	if b.thinking {
		return thinking
	}
	return text
}

// text shows the rest of a finished block.
func (r *run) text(e *chat.Event, id chat.BlockID, kind chat.BlockKind, text string) {
	id = cmp.Or(id, chat.BlockID(e.ID))
	if text != "" {
		r.piece(&chat.Preview{Block: id, Kind: kind, Text: text})
	}
	if b := r.blocks[id]; b != nil {
		r.endText(b)
		b.have = chat.MaxBlock // pieces that come late are not shown again
	}
}

func (r *run) endText(b *block) {
	if b.part == "" {
		return
	}
	r.emit(chunk{Type: b.typ(chunkTextEnd, chunkThinkEnd), ID: b.part})
	b.part = ""
	r.open = slices.DeleteFunc(r.open, func(o *block) bool { return o == b })
}

// endTexts ends the open text parts: a part cannot go on in another response.
func (r *run) endTexts() {
	for len(r.open) > 0 {
		r.endText(r.open[0])
	}
}

// mainLine shows an event of the turn.
func (r *run) mainLine(e *chat.Event) {
	switch b := e.Body.(type) {
	case chat.TurnStarted:
		if r.turn == "" {
			r.turn, r.session, r.agent = b.TurnID, e.Session, b.Agent
		}
	case chat.UserMessage:
		r.said[e.Seq] = e
	case chat.TurnInput:
		r.input(e, b)
	case chat.AgentText:
		r.text(e, b.Block, chat.TextBlock, b.Text)
	case chat.AgentThinking:
		r.text(e, b.Block, chat.ThinkingBlock, b.Text)
	case chat.AgentToolCall:
		r.tool(cmp.Or(b.CallID, string(e.ID)), b.Tool, b.Params, false)
	case chat.AgentToolResult:
		r.result(b.CallID, b.Tool, chunk{Type: chunkToolOutput, Output: b.Result})
	case chat.AgentToolError:
		r.result(b.CallID, b.Tool, chunk{Type: chunkToolError, Error: cmp.Or(b.Error, "The tool failed.")})
	case chat.AgentToolProgress:
		r.emit(chunk{Type: dataProgress, ID: cmp.Or(b.CallID, b.BatchID, "progress"), Data: e.Payload})
	case chat.AgentPlan:
		r.emit(chunk{Type: dataPlan, ID: "plan", Data: e.Payload})
	case chat.AgentStatus:
		r.emit(chunk{Type: dataStatus, Data: e.Payload, Transient: true})
	case chat.AgentUsage:
		r.usage = r.usage.Plus(b.Usage)
		r.emit(chunk{Type: chunkMetadata, Metadata: pages.Marshal(map[string]chat.Usage{"usage": r.usage})})
	case chat.AgentError:
		r.emit(chunk{Type: dataError, ID: string(e.ID), Data: e.Payload})
	case chat.AgentShare:
		r.emit(chunk{Type: dataShare, ID: cmp.Or(b.ShareID, string(e.ID)), Data: e.Payload})
	case chat.AgentArtifact:
		r.artifact(e, b)
	case chat.TurnCompleted:
		if b.TurnID == r.turn || e.Turn == r.turn {
			r.complete(b)
		}
	default:
		r.workstream(e)
	}
}

// input shows messages that the running turn has taken up. One of the page begins another assistant message.
func (r *run) input(e *chat.Event, b chat.TurnInput) {
	if slices.ContainsFunc(b.Sequences, func(seq chat.Seq) bool { e := r.said[seq]; return e != nil && e.Via == via }) {
		r.follow(e.Seq)
	}
	for _, seq := range b.Sequences {
		e := r.said[seq]
		if e == nil || e.Via == via {
			continue
		}
		r.emit(chunk{Type: dataSteered, ID: string(e.ID), Data: pages.Marshal(struct {
			Text string     `json:"text"`
			By   chat.Actor `json:"by"`
		}{e.Body.(chat.UserMessage).PlainText(), e.Actor})})
	}
}

// tool shows a tool part. The page runs the tool when it is one of the client's.
func (r *run) tool(id, name string, input json.RawMessage, client bool) {
	// A prompt has shown the call, or the page has run it and has its output.
	if c := r.calls[id]; c != nil && c.message == r.at.message && (!c.done || !c.dynamic && !client && c.tool == name) {
		return
	}
	if input = json.NotNull(input); input == nil {
		input = json.RawMessage("{}")
	}
	r.part()
	// A static part, tool-NAME, is what pages declare for the tools that they run.
	r.called++
	r.calls[id] = &call{tool: name, input: input, number: r.called, message: r.at.message, step: r.step, dynamic: !client}
	r.emit(chunk{Type: chunkToolInput, Call: id, Tool: name, Input: input, Executed: !client, Dynamic: !client})
}

// result shows the output of a call.
func (r *run) result(id, tool string, c chunk) {
	if id == "" {
		id = r.oldestCall(tool)
	}
	known := r.calls[id]
	switch {
	case known != nil && known.done, known == nil && (id == "" || tool == ""):
		return
	case known == nil:
		r.tool(id, tool, nil, false)
	case known.message != r.at.message:
		// The part is in another message, and clients refuse an output without its part.
		r.tool(id, known.tool, known.input, false)
	}
	r.output(id, c)
	r.newStep = true
}

// oldestCall returns the first call of a tool that waits for its result. A result without a call id belongs to it, as in
// [chat.Transcript].
func (r *run) oldestCall(tool string) (id string) {
	for k, c := range r.calls {
		if c.tool == tool && !c.done && (id == "" || c.number < r.calls[id].number) {
			id = k
		}
	}
	return id
}

// output ends a call whose part is in this message.
func (r *run) output(id string, c chunk) {
	known := r.calls[id]
	if known == nil || known.done || known.message != r.at.message {
		return
	}
	known.done = true
	c.Call = id
	if c.Type != chunkToolDenied {
		c.Dynamic, c.Executed = known.dynamic, known.dynamic
	}
	if c.Type == chunkToolOutput && len(c.Output) == 0 {
		c.Output = json.RawMessage("null")
	}
	r.emit(c)
}

// artifact shows something that the agent made.
func (r *run) artifact(e *chat.Event, b chat.AgentArtifact) {
	if b.Path == "" {
		r.emit(chunk{Type: dataArtifact, ID: cmp.Or(b.ArtifactID, string(e.ID)), Data: e.Payload})
		return
	}
	r.emit(chunk{Type: chunkFile, URL: attachment.URL(r.session, b.Path), MediaType: cmp.Or(b.MediaType, "application/octet-stream")})
}

// complete ends the turn.
func (r *run) complete(b chat.TurnCompleted) {
	r.endTexts()
	if r.inStep {
		r.emit(chunk{Type: chunkFinishStep})
	}
	r.ended = true
	reason := finishStop
	switch b.Outcome {
	case chat.Done:
	case chat.Stopped:
		r.emit(chunk{Type: chunkAbort})
		reason = finishOther
	default:
		// The page stops reading here. WorkflowChatTransport reads on and asks again without a finish.
		r.emit(chunk{Type: chunkError, Error: cmp.Or(b.Error, "The agent could not go on.")})
		reason = finishError
	}
	r.emit(chunk{Type: chunkFinish, Finish: reason})
}
