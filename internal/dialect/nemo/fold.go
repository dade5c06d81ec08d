package nemo

import (
	"cmp"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
)

// via marks drafts of this dialect.
const via = "nemo"

// item is something to show, independent of schema and transport.
type item struct {
	kind    itemKind
	turn    *turn
	root    chat.Seq // the message that it belongs to, also when a workstream of its answer shows it
	at      chat.At
	id      string
	parent  string          // of a step: the step that contains it, "" for none
	name    string          // of a step
	text    string          // of a response; payload of a step; the trace
	err     errorContent    // of an error
	outcome chat.Outcome    // of an end
	usage   *chat.Usage     // of an end
	notice  *chat.Prompt    // of a notification
	raw     string          // of a step: its event type in the toolkit's stream of steps
	data    json.RawMessage // of a step: the payload for raw
	pos     position        // of a reader after it
}

type itemKind int

// The kinds of item.
const (
	itemText   itemKind = iota
	itemStep            // an intermediate step
	itemNotice          // a notification: it needs no answer
	itemError           // the turn failed
	itemEnd             // the turn ended
	itemTrace           // the trace of the turn, after its end
)

// turn is the state of one turn.
type turn struct {
	id         chat.TurnID
	uuid       string
	workstream string // "" is the main line
	queuedMessage
	superseded bool // a newer message replaced it
	begun      bool // the reader has its beginning
	visible    bool // something of it was shown
	block      chat.BlockID
	lastByte   byte   // of the text so far
	text       []byte // of an answer that is shown at once
	trace      string
	calls      map[string]call
}

type call struct {
	id     string // of its step
	tool   string
	params json.RawMessage
	shown  int64 // progress shown last
}

// queuedMessage is a user message that waits for its turn, and what its turn needs of it.
type queuedMessage struct {
	trigger  chat.Seq
	parent   string // its id in frames
	version  string // schema_version of the client
	thread   string // thread_id of the client
	atOnce   bool   // the answer is shown when it is complete
	fromNeMo bool
}

// fold turns the entries of a session into items for one reader. The items depend only on the entries and on the
// position of the reader. It belongs to one goroutine.
type fold struct {
	session     chat.SessionID
	pos         chat.Cursor // what the reader has
	from        chat.Seq    // where it began to read
	historyEnd  chat.Seq    // up to here, ended turns of other dialects are not shown, unless the reader has their beginning
	runningTurn chat.TurnID // the turn that runs at historyEnd
	wholeTexts  bool        // texts are shown block by block, not in pieces
	noticesFrom chat.Seq    // notifications from this one on are shown although the reader has passed them; 0 for none

	turns       map[chat.TurnID]*turn
	queued      []queuedMessage
	lastMessage queuedMessage // for turns that no message started
	sent        map[chat.BlockID]int
	thinking    map[chat.BlockID]*thinkingText
	work        map[string]workStep
	prompts     []*openPrompt // oldest first
	out         []item
}

// thinkingText is a block of thinking that is being written.
type thinkingText struct {
	text []byte // at most about maxPayload of it
	have int    // bytes of the block
	next int    // it is shown again when it has so many bytes
}

type workStep struct {
	id       string
	root     chat.Seq // the message in whose answer it was launched
	launched chat.WorkstreamLaunched
}

func (w workStep) name() string { return cmp.Or(w.launched.Name, w.launched.ID) }

// openPrompt is a prompt without an answer.
type openPrompt struct {
	chat.Prompt
	uuid      string // of its event
	turn      *turn
	root      chat.Seq // the message that it belongs to
	execution string   // the turn that answers that message
}

// newFold returns a fold for a reader that has everything up to pos. The entries may start earlier: what the reader has
// is folded and not shown again.
func newFold(session chat.SessionID, pos chat.Cursor) *fold {
	f := &fold{
		session: session, from: pos.Seq, pos: chat.Cursor{Seq: pos.Seq, Blocks: slices.Clone(pos.Blocks)},
		turns: map[chat.TurnID]*turn{}, sent: map[chat.BlockID]int{}, thinking: map[chat.BlockID]*thinkingText{},
		work: map[string]workStep{}, lastMessage: queuedMessage{parent: placeholder},
	}
	for _, m := range pos.Blocks {
		f.sent[m.Block] = m.Bytes
	}
	return f
}

// take folds one entry and returns what it shows. The items are valid until the next call.
func (f *fold) take(e *core.Entry) ([]item, error) {
	f.out = f.out[:0]
	if e.Piece != nil {
		f.preview(e.Piece, e.At)
	} else {
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
	}
	for i := range f.out {
		f.out[i].pos = f.position()
	}
	return f.out, nil
}

// position is the position of the reader now.
func (f *fold) position() position {
	at := position{Cursor: chat.Cursor{Seq: f.pos.Seq, Blocks: slices.Clone(f.pos.Blocks)}, Base: f.pos.Seq + 1}
	for _, t := range f.turns {
		if t.trigger > 0 {
			at.Base = min(at.Base, t.trigger)
		}
	}
	for _, m := range f.queued {
		at.Base = min(at.Base, m.trigger)
	}
	return at
}

// show adds an item, unless a newer message replaced its turn, or its turn is another dialect's and began and ended before the
// reader connected. A reader that has its beginning waits for its end.
func (f *fold) show(t *turn, it item) {
	if t.superseded || !t.fromNeMo && !t.begun && f.historyEnd > 0 && f.pos.Seq < f.historyEnd && t.id != f.runningTurn {
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

func (f *fold) step(t *turn, it item) {
	it.kind = itemStep
	if w, ok := f.work[t.workstream]; ok && it.parent == "" {
		it.parent = w.id
	}
	f.show(t, it)
}

// rootMessage is the message that a turn belongs to: the one that it answers, or in whose answer its workstream was
// launched.
func (f *fold) rootMessage(t *turn) chat.Seq {
	if w, ok := f.work[t.workstream]; ok {
		return w.root
	}
	return t.trigger
}

// turn finds a turn. An event outside of any turn belongs to the answer to the last message.
func (f *fold) turn(id chat.TurnID, workstream string) *turn {
	if t := f.turns[id]; t != nil {
		return t
	}
	t := &turn{id: id, workstream: workstream, uuid: turnUUID(id), queuedMessage: f.lastMessage}
	t.trigger = 0
	if id == "" {
		t.uuid = derivedID(string(f.session), f.lastMessage.parent)
		return t
	}
	f.turns[id] = t
	return t
}

// preview folds a piece of an open block.
func (f *fold) preview(p *chat.Preview, at chat.At) {
	t := f.turn(p.Turn, p.Workstream)
	if p.Kind == chat.ThinkingBlock {
		f.previewThinking(t, p, at)
		return
	}
	have := f.sent[p.Block]
	if text := p.TextAfter(have); text != "" && p.Workstream == "" && !t.atOnce && !f.wholeTexts {
		f.sent[p.Block] = p.End
		f.appendText(t, p.Block, text, at, have > 0)
		f.pos.PassPiece(p.Block, p.End)
	}
}

// appendText shows a part of the answer. Blocks are paragraphs: the UI concatenates texts.
func (f *fold) appendText(t *turn, block chat.BlockID, text string, at chat.At, continued bool) {
	if text == "" {
		return
	}
	if !continued && !f.wholeTexts && t.lastByte != 0 && t.block != block && t.lastByte != '\n' {
		text = "\n\n" + text
	}
	t.block, t.lastByte = block, text[len(text)-1]
	if t.atOnce {
		t.text = append(t.text, text...)
		return
	}
	f.show(t, item{kind: itemText, id: t.uuid, text: text, at: at})
}

// previewThinking shows thinking as a step. A step is sent whole, so it is sent again only when it has doubled: all of it
// together is at most twice the text.
func (f *fold) previewThinking(t *turn, p *chat.Preview, at chat.At) {
	th := f.thinking[p.Block]
	if th == nil {
		th = &thinkingText{}
		f.thinking[p.Block] = th
	}
	text := p.TextAfter(th.have)
	if text == "" {
		return
	}
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
