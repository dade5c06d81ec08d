package chat

import (
	"cmp"
	"slices"
)

// fold gives each kind of event its place among the items. Kinds that are not
// named here are part of the state only.
func (t *Transcript) fold(e *Event) {
	switch b := e.Body.(type) {
	case UserMessage:
		t.message(e, b)
	case UserMessageWithdrawn:
		if it := t.at(e, seqID(b.Sequence)); it != nil && it.Message != nil {
			m := *it.Message
			m.State = MessageWithdrawn
			it.Message = &m
		}
	case TurnStarted:
		t.turn(b.TurnID).began = true
		t.taken(e, b.Trigger, b.TurnID, false)
	case TurnInput:
		for _, seq := range b.Sequences {
			t.taken(e, seq, e.Turn, true)
		}
	case TurnCompleted:
		t.turnEnded(e, b)
	case TurnResumed:
		t.notice(e, NoticeItem{Code: "resumed", Text: b.Reason, Attempt: b.Attempt})
	case TurnStopRequested:
		by := b.By
		if by == (Actor{}) {
			by = e.Actor
		}
		t.notice(e, NoticeItem{Code: "stop_requested", Text: b.Reason, By: &by})
	case SessionCompleted:
		t.notice(e, NoticeItem{Code: "session_completed", Text: b.Outcome})
	case SessionFailed:
		t.notice(e, NoticeItem{Code: "session_failed", Text: b.ErrorMessage})

	case AgentText:
		t.block(e, ItemText, TextItem{Block: b.Block, Text: b.Text, Final: b.Final, Partial: b.Partial})
	case AgentThinking:
		t.block(e, ItemThinking, TextItem{Block: b.Block, Text: b.Text, Partial: b.Partial, Redacted: b.Redacted != ""})
	case AgentToolCall:
		t.call(e, b)
	case AgentToolProgress:
		t.progress(e, b)
	case AgentToolResult:
		t.outcome(e, b.CallID, b.Tool, func(it *ToolItem) { it.Status, it.Result, it.Error, it.Code = ToolOK, b.Result, "", "" })
	case AgentToolError:
		t.outcome(e, b.CallID, b.Tool, func(it *ToolItem) { it.Status, it.Error, it.Code = statusOf(b.Code), b.Error, b.Code })

	case AgentInputRequest:
		if b.InputType == InputNotification {
			t.notice(e, NoticeItem{Code: "notification", Text: b.Text})
			return
		}
		t.ask(e, PromptItem{RequestID: b.RequestID, Deadline: b.Deadline, Input: &b})
	case AgentApprovalRequest:
		t.ask(e, PromptItem{RequestID: b.RequestID, Deadline: b.Deadline, Approval: &b})
	case AgentPermissionRequest:
		t.ask(e, PromptItem{RequestID: b.RequestID, Deadline: b.Deadline, Permission: &b})
	case UserInputResponse:
		t.answer(e, b.RequestID, PromptAnswered, &Answer{Text: b.Text, Values: b.Values})
	case UserApprovalResponse:
		t.answer(e, b.RequestID, PromptAnswered, &Answer{Decisions: b.Decisions})
	case UserPermissionResponse:
		granted := b.Granted
		if granted == nil {
			granted = []string{}
		}
		t.answer(e, b.RequestID, PromptAnswered, &Answer{Granted: &granted, Denied: b.Denied, Duration: b.Duration})
	case PromptClosed:
		t.answer(e, b.RequestID, PromptStatus(b.Reason), nil)

	case AgentPlan:
		t.plan(e, b)
	case AgentStatus:
		t.status(e, b)
	case AgentError:
		t.put(e, ItemError, func(it *Item) { it.Error = &b })
	case AgentArtifact:
		t.put(e, ItemArtifact, func(it *Item) { it.Artifact = &b })
	case AgentShare:
		t.put(e, ItemShare, func(it *Item) { it.Share = &b })
	case FileUploaded:
		t.file(e, FileItem{Path: b.Path, Name: b.Name, MediaType: b.MediaType, Size: b.Size, SHA256: b.SHA256, Change: "uploaded"})
	case FileRemoved:
		t.file(e, FileItem{Path: b.Path, Change: "removed"})

	case WorkstreamSteered:
		t.workstream(e, b.ID)
		t.notice(e, NoticeItem{Code: "steered", Text: b.Text, Command: b.Command, About: b.ID})
	case WorkstreamMessage:
		t.notice(e, NoticeItem{Code: "follow_up", Text: b.Text, About: b.ID})
	case Unknown:
		t.put(e, ItemCustom, func(it *Item) { it.Custom = &CustomItem{Type: b.Name, Payload: b.Payload} })
	default:
		if id := workstreamOf(e.Body); id != "" {
			t.workstream(e, id)
		}
	}
}

func (t *Transcript) notice(e *Event, n NoticeItem) {
	t.put(e, ItemNotice, func(it *Item) { it.Notice = &n })
}

func (t *Transcript) message(e *Event, b UserMessage) {
	state := MessageSent
	line := t.State.Line(e.Workstream)
	if slices.Contains(line.Queue, e.Seq) || line.Turn != nil && slices.Contains(line.Turn.Steered, e.Seq) {
		state = MessageQueued
	}
	t.put(e, ItemMessage, func(it *Item) {
		it.Message = &MessageItem{
			Text: b.Text, Content: b.Content, UserID: b.UserID, Context: b.Context, ClientID: e.ClientID, State: state,
		}
	})
}

// taken notes that a turn answers a message.
func (t *Transcript) taken(e *Event, seq Seq, turn TurnID, steered bool) {
	if it := t.at(e, seqID(seq)); it != nil && it.Message != nil {
		m := *it.Message
		m.State, m.TakenBy, m.Steered = MessageTaken, turn, steered
		it.Message = &m
	}
}

// turnEnded settles what the turn leaves without an outcome.
func (t *Transcript) turnEnded(e *Event, b TurnCompleted) {
	for key := range t.turn(b.TurnID).calls {
		t.cutOff(e, key)
	}
	delete(t.turns, b.TurnID)
	t.Open = slices.DeleteFunc(t.Open, func(it Item) bool { return it.Turn == b.TurnID && b.TurnID != "" })
	if b.Outcome != Done && b.Outcome != "" {
		t.notice(e, NoticeItem{Code: string(b.Outcome), Text: b.Error})
	}
}

func (t *Transcript) ask(e *Event, p PromptItem) {
	p.Status = PromptOpen
	if i := t.add(e, ItemPrompt, promptID(e, p.RequestID)); i >= 0 {
		t.Items[i].Prompt = &p
	}
}

func (t *Transcript) answer(e *Event, request string, status PromptStatus, answer *Answer) {
	var it *Item
	if i, ok := t.index[promptID(e, request)]; ok {
		it = &t.Items[i]
	} else {
		i := t.add(e, ItemPrompt, promptID(e, request))
		if i < 0 {
			return
		}
		it = &t.Items[i]
		it.Headless, it.Prompt = true, &PromptItem{RequestID: request}
	}
	if it.Prompt.EndedAt != 0 {
		return // the first answer wins
	}
	p := *it.Prompt
	p.Status, p.Answer, p.EndedAt = status, answer, e.At
	if e.Actor != (Actor{}) {
		by := e.Actor
		p.EndedBy = &by
	}
	it.Prompt, it.Last = &p, e.Seq
}

func promptID(e *Event, request string) string {
	return cmp.Or(nameID("p-", "", request), seqID(e.Seq))
}

// perTurn returns the index of the one item of a kind that a turn has, begun by
// e if there is none yet. Outside a turn every event begins an item.
func (t *Transcript) perTurn(e *Event, kind ItemKind, prefix string) int {
	id := ""
	if e.Turn != "" {
		id = nameID(prefix, "", string(e.Turn))
	}
	if i, ok := t.index[id]; ok {
		t.Items[i].Last = e.Seq
		return i
	}
	i := t.add(e, kind, cmp.Or(id, seqID(e.Seq)))
	if i >= 0 {
		t.Items[i].Headless = id != "" && !t.turn(e.Turn).began
	}
	return i
}

func (t *Transcript) plan(e *Event, b AgentPlan) {
	i := t.perTurn(e, ItemPlan, "plan-")
	if i < 0 {
		return
	}
	p := PlanItem{Tasks: b.Tasks, Comment: b.Comment, Revision: 1}
	if old := t.Items[i].Plan; old != nil {
		p.Revision = old.Revision + 1
	}
	if p.Tasks == nil {
		p.Tasks = []Task{}
	}
	t.Items[i].Plan = &p
}

func (t *Transcript) status(e *Event, b AgentStatus) {
	i := t.perTurn(e, ItemStatus, "status-")
	if i < 0 {
		return
	}
	s := StatusItem{Message: b.Message, Phase: b.Phase, Updates: 1}
	if old := t.Items[i].Status; old != nil {
		s.Updates = old.Updates + 1
	}
	t.Items[i].Status = &s
}

func (t *Transcript) file(e *Event, f FileItem) {
	if i, ok := t.files[f.Path]; ok {
		old := *t.Items[i].File
		old.Removed = true
		t.Items[i].File, t.Items[i].Last = &old, e.Seq
		delete(t.files, f.Path)
	}
	t.put(e, ItemFile, func(it *Item) {
		it.File = &f
		if f.Change == "uploaded" {
			t.files[f.Path] = len(t.Items) - 1
		}
	})
}
