package terminal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// itemKind says how an item is drawn.
type itemKind int

const (
	userItem itemKind = iota
	textItem
	thinkingItem
	toolItem
	planItem
	askItem
	streamItem // a workstream
	noteItem   // a line about what happened
	faultItem
)

// item is one thing on the screen.
type item struct {
	kind  itemKind
	line  string // the workstream it belongs to; "" is the main line
	turn  chat.TurnID
	block chat.BlockID
	text  string
	extra string // a tool's parameters, an answer, a phase
	state string // of a tool, a question, a message
	live  bool   // more is to come
	plan  []chat.Task

	rev   int // counts changes
	drawn drawn
}

// drawn is an item's lines as they were last laid out.
type drawn struct {
	width, rev int
	lines      []string
}

// queued is a message that waits for its turn.
type queued struct {
	seq  chat.Seq
	item *item
}

// maxItems bounds what a terminal keeps; the log has the rest.
const maxItems = 3000

// talk folds a session's stream into what a terminal shows.
type talk struct {
	items   []*item
	prompts []chat.Prompt // open ones, oldest first
	running map[chat.TurnID]string
	status  string // what the agent says it is doing
	usage   chat.Usage
	last    chat.Seq

	blocks  map[chat.BlockID]*item
	calls   map[string]*item
	asks    map[string]*item
	streams map[string]*item
	plan    *item

	mine   map[string]bool // prompts that are answered here; nil means that it does not matter who answers
	silent bool            // nobody answers here
	queue  []queued        // user messages that wait for their turn; drawn below all else
}

func newTalk() *talk {
	return &talk{
		running: map[chat.TurnID]string{}, blocks: map[chat.BlockID]*item{}, calls: map[string]*item{},
		asks: map[string]*item{}, streams: map[string]*item{},
	}
}

func (t *talk) add(i *item) *item {
	t.items = append(t.items, i)
	if len(t.items) > maxItems {
		t.items = slices.Clone(t.items[maxItems/4:])
	}
	return i
}

// busy reports whether a turn runs on the main line.
func (t *talk) busy() bool {
	for _, line := range t.running {
		if line == "" {
			return true
		}
	}
	return false
}

// preview takes a piece of a block that is being written.
func (t *talk) preview(p *chat.Preview) {
	i := t.blocks[p.Block]
	if i == nil {
		kind := textItem
		if p.Kind == chat.ThinkingBlock {
			kind = thinkingItem
		}
		i = t.add(&item{kind: kind, line: p.Workstream, turn: p.Turn, block: p.Block, live: true})
		t.blocks[p.Block] = i
	}
	if p.Offset == len(i.text) {
		i.text += p.Text
		i.rev++
	}
}

// apply takes an event.
func (t *talk) apply(e *chat.Event) {
	t.last = e.Seq
	switch b := e.Body.(type) {
	case chat.UserMessage:
		i := &item{kind: userItem, line: e.Workstream, text: messageText(b)}
		if t.silent {
			t.add(i)
			break
		}
		if t.busy() {
			i.state = "queued"
		}
		t.queue = append(t.queue, queued{e.Seq, i})
	case chat.UserMessageWithdrawn:
		t.taken("withdrawn", b.Sequence)
	case chat.TurnStarted:
		t.running[b.TurnID] = e.Workstream
		t.taken("", b.Trigger)
		t.status = ""
	case chat.TurnInput:
		t.taken("", b.Sequences...)
	case chat.TurnCompleted:
		t.turnEnded(e, b)
	case chat.AgentText:
		t.finish(e, textItem, b.Block, b.Text, b.Partial)
	case chat.AgentThinking:
		t.finish(e, thinkingItem, b.Block, b.Text, b.Partial)
	case chat.AgentToolCall:
		t.calls[b.CallID] = t.add(&item{kind: toolItem, line: e.Workstream, turn: e.Turn, text: b.Tool, extra: string(b.Params), state: "running", live: true})
	case chat.AgentToolResult:
		t.toolEnded(e, b.CallID, b.Tool, "done", string(b.Result))
	case chat.AgentToolError:
		t.toolEnded(e, b.CallID, b.Tool, "failed", b.Error)
	case chat.AgentToolProgress:
		if i := t.calls[b.CallID]; i != nil && i.live {
			i.state = strings.TrimSpace(progressText(b.Done, b.Total) + " " + b.Message)
			i.rev++
		}
	case chat.AgentPlan:
		if t.plan == nil || t.plan.turn != e.Turn {
			t.plan = t.add(&item{kind: planItem, line: e.Workstream, turn: e.Turn})
		}
		t.plan.plan = b.Tasks
		t.plan.rev++
	case chat.AgentStatus:
		t.status = b.Message
	case chat.AgentUsage:
		t.usage = t.usage.Plus(b.Usage)
	case chat.AgentError:
		t.add(&item{kind: faultItem, line: e.Workstream, text: b.Message})
	case chat.AgentArtifact:
		t.note(e, "◆ "+artifactText(b))
	case chat.FileUploaded:
		t.note(e, "◆ file "+b.Path+" ("+Size(b.Size)+")")
	case chat.AgentInputRequest, chat.AgentApprovalRequest, chat.AgentPermissionRequest:
		t.asked(e)
	case chat.UserInputResponse, chat.UserApprovalResponse, chat.UserPermissionResponse, chat.PromptClosed:
		t.answered(e)
	case chat.SessionCompleted:
		t.note(e, "the session is completed; a message reopens it")
	case chat.SessionFailed:
		t.add(&item{kind: faultItem, text: "the session failed: " + b.ErrorMessage})
	default:
		t.applyWorkstream(e)
	}
}

func (t *talk) note(e *chat.Event, text string) {
	t.add(&item{kind: noteItem, line: e.Workstream, turn: e.Turn, text: text})
}

// taken marks messages that wait no more.
func (t *talk) taken(state string, seqs ...chat.Seq) {
	t.queue = slices.DeleteFunc(t.queue, func(q queued) bool {
		if !slices.Contains(seqs, q.seq) {
			return false
		}
		q.item.state = state
		q.item.rev++
		t.add(q.item)
		return true
	})
}

func (t *talk) finish(e *chat.Event, kind itemKind, block chat.BlockID, text string, partial bool) {
	i := t.blocks[block]
	if i == nil || block == "" {
		i = t.add(&item{kind: kind, line: e.Workstream, turn: e.Turn, block: block})
	}
	delete(t.blocks, block)
	i.text, i.live = text, false
	if partial {
		i.state = "cut short"
	}
	i.rev++
}

func (t *talk) toolEnded(e *chat.Event, callID, tool, state, result string) {
	i := t.calls[callID]
	if i == nil {
		i = t.add(&item{kind: toolItem, line: e.Workstream, turn: e.Turn, text: tool})
	}
	delete(t.calls, callID)
	i.state, i.live = state, false
	i.extra = strings.TrimSpace(i.extra + " → " + result)
	i.rev++
}

func (t *talk) turnEnded(e *chat.Event, b chat.TurnCompleted) {
	delete(t.running, b.TurnID)
	t.status = ""
	for _, i := range t.items {
		if i.live && i.turn == b.TurnID {
			i.live = false
			if i.kind == toolItem {
				i.state = "no result"
			}
			delete(t.blocks, i.block)
			i.rev++
		}
	}
	switch b.Outcome {
	case chat.Stopped:
		t.note(e, "■ stopped")
	case chat.Failed, chat.Interrupted:
		text := b.Error
		if text == "" {
			text = "no reason given"
		}
		t.add(&item{kind: faultItem, line: e.Workstream, text: "the turn " + map[chat.Outcome]string{chat.Failed: "failed", chat.Interrupted: "was interrupted"}[b.Outcome] + ": " + text})
	}
}

func (t *talk) asked(e *chat.Event) {
	p, waits := chat.AsPrompt(e)
	if !waits {
		b, _ := e.Body.(chat.AgentInputRequest)
		t.note(e, "🔔 "+b.Text)
		return
	}
	t.asks[p.RequestID] = t.add(&item{kind: askItem, line: e.Workstream, turn: e.Turn, text: PromptTitle(&p), state: "open", live: true})
	if !slices.ContainsFunc(t.prompts, func(o chat.Prompt) bool { return o.RequestID == p.RequestID }) {
		t.prompts = append(t.prompts, p)
	}
}

func (t *talk) answered(e *chat.Event) {
	id := chat.AnswerOf(e.Body)
	t.prompts = slices.DeleteFunc(t.prompts, func(p chat.Prompt) bool { return p.RequestID == id })
	i := t.asks[id]
	if i == nil {
		return
	}
	delete(t.asks, id)
	i.live, i.state, i.extra = false, "answered", answerText(e.Body)
	if b, ok := e.Body.(chat.PromptClosed); ok {
		i.state = string(b.Reason)
	} else if t.mine != nil && !t.mine[id] {
		i.extra += " (answered by " + e.Actor.ID + " elsewhere)"
	}
	delete(t.mine, id)
	i.rev++
}

func (t *talk) applyWorkstream(e *chat.Event) {
	set := func(id, state, text string) {
		i := t.streams[id]
		if i == nil {
			i = t.add(&item{kind: streamItem, text: id})
			t.streams[id] = i
		}
		i.state, i.live = state, state == "running" || state == "canceling"
		if text != "" {
			i.extra = text
		}
		i.rev++
	}
	switch b := e.Body.(type) {
	case chat.WorkstreamLaunched:
		set(b.ID, "running", b.Task)
	case chat.WorkstreamProgress:
		set(b.ID, "running", strings.TrimSpace(b.Phase+" "+b.Message))
	case chat.WorkstreamWarning:
		set(b.ID, "running", fmt.Sprintf("%.0f %% of its time is over", b.Share*100))
	case chat.WorkstreamCanceling:
		set(b.ID, "canceling", b.Reason)
	case chat.WorkstreamCompleted:
		set(b.ID, "completed", b.Summary)
	case chat.WorkstreamFailed:
		set(b.ID, "failed", b.Error)
	case chat.WorkstreamTimeout:
		set(b.ID, "timeout", b.Summary)
	case chat.WorkstreamCanceled:
		set(b.ID, "canceled", b.Reason)
	}
}
