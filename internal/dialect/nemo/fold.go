package nemo

import (
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// via marks drafts that come by this dialect.
const via = "nemo"

// item is one thing to show, in NeMo's terms but in no framing yet.
type item struct {
	kind    itemKind
	turn    *turn
	root    chat.Seq // the message that it belongs to, also when a workstream of its answer shows it
	at      chat.At
	id      string
	parent  string          // of a step: the step it is nested in, "" for none
	name    string          // of a step
	text    string          // of a response; payload of a step; the trace
	err     errorContent    // of an error
	outcome chat.Outcome    // of an end
	usage   *chat.Usage     // of an end
	notice  *chat.Prompt    // of a notification
	raw     string          // of a step: its event type in NeMo's own stream of steps
	data    json.RawMessage // of a step: what belongs to raw
	pos     position        // where a reader stands after it
}

type itemKind int

// The kinds of item.
const (
	itemText   itemKind = iota
	itemStep            // an intermediate step
	itemNotice          // a notification: nobody waits for an answer
	itemError           // the turn failed
	itemEnd             // the turn ended
	itemTrace           // the trace of the turn, after its end
)

// turn is what a feed knows of one turn.
type turn struct {
	id         chat.TurnID
	uuid       string
	workstream string // "" is the main line
	trigger    chat.Seq
	parent     string // the user message's id on the wire
	version    string // schema version that the client named
	thread     string // thread_id of the client's message
	atOnce     bool   // the answer is shown at once, at its end
	fromNeMo   bool   // begun from NeMo
	superseded bool   // overtaken by a newer message
	visible    bool   // something of it can be seen
	block      chat.BlockID
	lastByte   byte // of the text so far
	text       []byte
	trace      string
	calls      map[string]call
}

type call struct {
	id     string // of its step
	tool   string
	params json.RawMessage
	shown  int64 // progress shown last
}

// queuedMessage is a user message that waits for its turn.
type queuedMessage struct {
	seq              chat.Seq
	parent, version  string
	thread           string
	atOnce, fromNeMo bool
}

// fold turns the entries of a session into items for one reader. It is a pure
// fold: what it gives depends on the entries and on where the reader stands.
// It belongs to one goroutine.
type fold struct {
	session     chat.SessionID
	pos         chat.Cursor // what the reader has
	historyEnd  chat.Seq    // up to here, turns of other dialects that have ended are not shown
	runningTurn chat.TurnID // the turn that runs while replay is read
	wholeTexts  bool        // texts are shown when they are whole, block by block
	noticesFrom chat.Seq    // notifications from this one on are shown, also what the reader has passed; 0 for none

	turns       map[chat.TurnID]*turn
	queued      []queuedMessage
	lastMessage queuedMessage // the newest message, for turns that no message began
	sent        map[chat.BlockID]int
	thinking    map[chat.BlockID]*thinkingText
	work        map[string]workStep
	prompts     []*openPrompt // open ones, oldest first
	out         []item
}

// thinkingText is a block of reasoning that is being written.
type thinkingText struct {
	text []byte // at most about maxPayload of it
	have int    // bytes of the block
	next int    // shown again when it has grown to so many bytes
}

type workStep struct {
	id       string
	root     chat.Seq // the message in whose answer it was launched
	launched chat.WorkstreamLaunched
}

// openPrompt is an open prompt.
type openPrompt struct {
	chat.Prompt
	uuid      string // of its event
	turn      *turn
	root      chat.Seq // the message that it belongs to
	execution string   // the turn that answers that message
}

// newFold returns a feed for a reader that has all up to pos. The entries it is
// given may begin earlier: what the reader has is folded and not shown again.
func newFold(session chat.SessionID, pos chat.Cursor) *fold {
	f := &fold{
		session: session, pos: chat.Cursor{Seq: pos.Seq, Blocks: slices.Clone(pos.Blocks)},
		turns: map[chat.TurnID]*turn{}, sent: map[chat.BlockID]int{}, thinking: map[chat.BlockID]*thinkingText{},
		work: map[string]workStep{}, lastMessage: queuedMessage{parent: placeholder},
	}
	for _, m := range pos.Blocks {
		f.sent[m.Block] = m.Bytes
	}
	return f
}

// take folds one entry and returns what it shows. The items are valid until the
// next call.
func (f *fold) take(e *chat.Entry) ([]item, error) {
	f.out = f.out[:0]
	if e.Piece != nil {
		f.preview(e.Piece, e.At)
		return f.out, nil
	}
	ev, err := e.Fact.Event()
	if err != nil {
		return nil, err
	}
	f.event(&ev)
	switch {
	case ev.Seq > f.pos.Seq:
		f.pos.PassEvent(ev.Seq, chat.FinishedBlock(ev.Body))
	case f.noticesFrom == 0 || ev.Seq < f.noticesFrom:
		return nil, nil // the reader has it
	default:
		f.out = slices.DeleteFunc(f.out, func(it item) bool { return it.kind != itemNotice })
	}
	for i := range f.out {
		f.out[i].pos = f.position()
	}
	return f.out, nil
}

// position is where the reader stands now: its cursor, and the oldest event that a
// feed must read again to go on from there.
func (f *fold) position() position {
	at := position{Cursor: chat.Cursor{Seq: f.pos.Seq, Blocks: slices.Clone(f.pos.Blocks)}, Base: f.pos.Seq + 1}
	for _, t := range f.turns {
		if t.trigger > 0 {
			at.Base = min(at.Base, t.trigger)
		}
	}
	for _, h := range f.queued {
		at.Base = min(at.Base, h.seq)
	}
	return at
}

// show adds an item, unless its turn has been overtaken.
func (f *fold) show(t *turn, it item) {
	if t.superseded || t.hidden(f) {
		return
	}
	it.turn = t
	if it.root == 0 {
		it.root = f.rootMessage(t)
	}
	if it.kind == itemText || it.kind == itemStep {
		t.visible = true
	}
	f.out = append(f.out, it)
}

// rootMessage is the message that a turn belongs to: the one it answers, or that in whose
// answer its workstream was launched.
func (f *fold) rootMessage(t *turn) chat.Seq {
	if w, ok := f.work[t.workstream]; ok {
		return w.root
	}
	return t.trigger
}

// hidden reports whether the turn was another dialect's and had ended before the
// reader came.
func (t *turn) hidden(f *fold) bool {
	return !t.fromNeMo && f.historyEnd > 0 && f.pos.Seq < f.historyEnd && t.id != f.runningTurn
}

// turn finds a turn. What is said outside of any turn answers the newest message.
func (f *fold) turn(id chat.TurnID, line string) *turn {
	t := f.turns[id]
	if t == nil {
		t = &turn{id: id, workstream: line, uuid: turnUUID(id)}
		t.setMessage(f.lastMessage)
		t.trigger = 0
		if id == "" {
			t.uuid = derivedID(string(f.session), f.lastMessage.parent)
			return t
		}
		f.turns[id] = t
	}
	return t
}

func (t *turn) setMessage(h queuedMessage) {
	t.trigger, t.parent, t.version, t.thread, t.atOnce, t.fromNeMo = h.seq, h.parent, h.version, h.thread, h.atOnce, h.fromNeMo
}

func (f *fold) preview(p *chat.Preview, at chat.At) {
	t := f.turn(p.Turn, p.Workstream)
	switch have := f.sent[p.Block]; {
	case p.Kind == chat.ThinkingBlock:
		f.previewThinking(t, p, at)
	case p.Workstream != "", t.atOnce, f.wholeTexts, p.End <= have, p.Offset > have:
		return
	default:
		f.sent[p.Block] = p.End
		f.appendText(t, p.Block, p.Text[have-p.Offset:], at, have > 0)
		f.pos.PassPiece(p.Block, p.End)
	}
	for i := range f.out {
		f.out[i].pos = f.position()
	}
}

// appendText shows a part of the answer. Blocks are paragraphs: the UI strings texts
// together as they come.
func (f *fold) appendText(t *turn, block chat.BlockID, text string, at chat.At, begun bool) {
	if text == "" {
		return
	}
	if !begun && !f.wholeTexts && t.lastByte != 0 && t.block != block && t.lastByte != '\n' {
		text = "\n\n" + text
	}
	t.block, t.lastByte = block, text[len(text)-1]
	if t.atOnce {
		t.text = append(t.text, text...)
		return
	}
	f.show(t, item{kind: itemText, id: t.uuid, text: text, at: at})
}

// previewThinking shows reasoning as a step. The step is sent anew only when it has grown
// to twice its size, so that all of it together is not more than twice the text.
func (f *fold) previewThinking(t *turn, p *chat.Preview, at chat.At) {
	th := f.thinking[p.Block]
	if th == nil {
		th = &thinkingText{}
		f.thinking[p.Block] = th
	}
	if p.End <= th.have || p.Offset > th.have {
		return
	}
	text := p.Text[th.have-p.Offset:]
	th.have = p.End
	if len(th.text) < maxPayload {
		th.text = append(th.text, text...)
	}
	if len(th.text) < th.next {
		return
	}
	th.next = max(256, 2*len(th.text))
	f.step(t, item{id: derivedID(string(t.id), string(p.Block)), name: "Thinking", text: string(th.text), at: at, raw: "LLM_NEW_TOKEN"})
}

func (f *fold) step(t *turn, it item) {
	it.kind = itemStep
	if w, ok := f.work[t.workstream]; ok && it.parent == "" {
		it.parent = w.id
	}
	f.show(t, it)
}
