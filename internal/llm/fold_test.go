package llm

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// told returns a short form of a conversation.
func told(ms []Message) string {
	var out []string
	for i := range ms {
		m := &ms[i]
		s := string(m.Role)
		for _, p := range m.Content {
			switch p := p.(type) {
			case *Text:
				if m.Role != Tool {
					s += " " + p.Text
				}
			case *Image:
				s += " image(" + p.Source.URL + p.Source.FileID + p.Source.Data + ")"
			case *Reasoning:
				s += " think(" + p.Text + ")"
			default:
				s += " " + p.Kind()
			}
		}
		for _, c := range m.ToolCalls {
			s += fmt.Sprintf(" %s=%s%s", c.ID, c.Name, c.Arguments)
		}
		for _, r := range m.ToolReturns {
			msg, failed, _ := UnpackResult(r.Text)
			s += fmt.Sprintf(" %s:%s", r.ToolCallID, msg)
			if failed != (r.Status == Failure) {
				s += "?"
			}
			if failed {
				s += "!"
			}
		}
		for _, v := range m.Approvals {
			switch v := v.(type) {
			case *ToolApproval:
				s += fmt.Sprintf(" %s:%v(%s)", v.ToolCallID, v.Approve, v.Reason)
			case *ToolReturn:
				msg, _, _ := UnpackResult(v.Text)
				s += fmt.Sprintf(" %s ran:%s(%s)", v.ToolCallID, v.Status, msg)
			}
		}
		out = append(out, s)
	}
	return strings.Join(out, "\n")
}

func TestFoldRules(t *testing.T) {
	for _, c := range []struct {
		name string
		log  func(s *script)
		want string
	}{
		{"a step is one message", func(s *script) {
			s.user("q")
			s.agent(chat.AgentThinking{Text: "hm", Signature: "s"})
			s.agent(chat.AgentText{Text: "let me see"})
			s.agent(chat.AgentToolCall{CallID: "c1", Tool: "f", Params: raw(`{"a":1}`)})
			s.agent(chat.AgentToolCall{CallID: "c2", Tool: "g"})
			s.agent(chat.AgentToolProgress{CallID: "c1", Done: 1})
			s.agent(chat.AgentToolResult{CallID: "c2", Result: raw(`{"x":2}`)})
			s.agent(chat.AgentToolError{CallID: "c1", Tool: "f", Error: "broken", Code: "timeout"})
			s.agent(chat.AgentText{Text: "done"})
			s.done()
		}, "user q\nassistant think(hm) let me see c1=f{\"a\":1} c2=g{}\ntool c2:{\n    \"x\": 2\n  } c1:\"timeout: broken\"!\nassistant done"},
		{"a message during a turn is placed after it", func(s *script) {
			s.user("one")
			s.agent(chat.AgentToolCall{CallID: "c1", Tool: "f"})
			s.user("two")
			s.agent(chat.AgentToolResult{CallID: "c1", Result: raw(`"r"`)})
			s.agent(chat.AgentText{Text: "first"})
			s.done()
			s.agent(chat.AgentText{Text: "second"})
			s.done()
		}, "user one\nassistant c1=f{}\ntool c1:\"r\"\nassistant first\nuser two\nassistant second"},
		{"a steered message is placed where the turn takes it", func(s *script) {
			p := chat.Steer
			s.add(chat.Draft{Body: chat.SessionUpdated{Policy: &p}}, chat.System, "")
			s.user("one")
			s.agent(chat.AgentText{Text: "a"})
			seq := s.user("two")
			s.agent(chat.AgentText{Text: "b"})
			s.add(chat.Draft{Body: chat.TurnInput{Sequences: []chat.Seq{seq}}}, chat.System, s.turn(""))
			s.agent(chat.AgentText{Text: "c"})
			s.done()
		}, "user one\nassistant a b\nuser two\nassistant c"},
		{"a withdrawn message is omitted", func(s *script) {
			s.user("one")
			seq := s.user("two")
			s.add(chat.Draft{Body: chat.UserMessageWithdrawn{Sequence: seq}}, mira, "")
			s.agent(chat.AgentText{Text: "a"})
			s.done()
		}, "user one\nassistant a"},
		{"an approved call occurs once, with the approved arguments", func(s *script) {
			s.user("q")
			s.agent(chat.AgentText{Text: "may I?"})
			s.agent(chat.AgentApprovalRequest{RequestID: "r", Calls: []chat.ApprovalCall{{CallID: "c1", Tool: "rm", Params: raw(`{"p":"/"}`)}}})
			s.answer(chat.UserApprovalResponse{RequestID: "r", Decisions: []chat.Decision{{CallID: "c1", Approve: true, Params: raw(`{"p":"/tmp"}`)}}})
			s.agent(chat.AgentToolCall{CallID: "c1", Tool: "rm", Params: raw(`{"p":"/tmp"}`)})
			s.agent(chat.AgentToolResult{CallID: "c1", Tool: "rm", Result: raw(`"gone"`)})
			s.done()
		}, "user q\nassistant may I?\napproval c1=rm{\"p\":\"/tmp\"}\napproval c1:true()\ntool c1:\"gone\""},
		{"a call that the client ran has one result, with the client's error", func(s *script) {
			s.user("q")
			s.agent(chat.AgentApprovalRequest{RequestID: "r", Calls: []chat.ApprovalCall{{CallID: "c1", Tool: "paste", Client: true}, {CallID: "c2", Tool: "paste", Client: true}}})
			s.answer(chat.UserApprovalResponse{RequestID: "r", Decisions: []chat.Decision{{CallID: "c1", Approve: true, Result: raw(`"x"`)}, {CallID: "c2", Approve: true, Error: "locked"}}})
			s.agent(chat.AgentToolCall{CallID: "c1", Tool: "paste"})
			s.agent(chat.AgentToolCall{CallID: "c2", Tool: "paste"})
			s.agent(chat.AgentToolResult{CallID: "c1", Tool: "paste", Result: raw(`"x"`)})
			s.agent(chat.AgentToolError{CallID: "c2", Tool: "paste", Error: "locked"})
			s.done()
		}, "user q\napproval c1=paste{} c2=paste{}\napproval c1 ran:success(\"x\") c2 ran:error(\"locked\")\ntool c1:\"x\" c2:\"locked\"!"},
		{"a denied call has one result", func(s *script) {
			s.user("q")
			s.agent(chat.AgentApprovalRequest{RequestID: "r", Calls: []chat.ApprovalCall{{CallID: "c1", Tool: "rm"}}})
			s.answer(chat.UserApprovalResponse{RequestID: "r", Decisions: []chat.Decision{{CallID: "c1", Reason: "too risky"}}})
			s.agent(chat.AgentToolError{CallID: "c1", Tool: "rm", Error: "denied", Code: chat.Denial})
			s.agent(chat.AgentText{Text: "fine"})
			s.done()
		}, "user q\napproval c1=rm{}\napproval c1:false(too risky)\ntool c1:\"Error: request to call tool denied. User reason: too risky\"!\nassistant fine"},
		{"an expired request is a denial", func(s *script) {
			s.user("q")
			s.agent(chat.AgentApprovalRequest{RequestID: "r", Calls: []chat.ApprovalCall{{CallID: "c1", Tool: "rm"}}})
			s.add(chat.Draft{Body: chat.PromptClosed{RequestID: "r", Reason: chat.Expired}}, chat.System, s.turn(""))
			s.done()
		}, "user q\napproval c1=rm{}\napproval c1:false(nobody answered in time)\ntool c1:\"Error: request to call tool denied. User reason: nobody answered in time\"!"},
		{"questions and answers", func(s *script) {
			s.user("q")
			s.agent(chat.AgentInputRequest{RequestID: "i", InputType: chat.InputRadio, Text: "Which?", Options: []chat.Option{{ID: "a", Label: "Apple"}, {ID: "b", Label: "b"}}})
			s.answer(chat.UserInputResponse{RequestID: "i", Values: []string{"a"}})
			s.agent(chat.AgentPermissionRequest{RequestID: "p", Scopes: []string{"mail", "disk"}, Justification: "To send it."})
			s.answer(chat.UserPermissionResponse{RequestID: "p", Granted: []string{"mail"}, Denied: []string{"disk"}})
			s.agent(chat.AgentInputRequest{RequestID: "j", InputType: chat.InputText, Text: "Still there?"})
			s.add(chat.Draft{Body: chat.PromptClosed{RequestID: "j", Reason: chat.Expired}}, chat.System, s.turn(""))
			s.done()
		}, "user q\nassistant Which?\n- a: Apple\n- b\nuser a\nassistant I need permission for: mail, disk. To send it.\nuser Granted: mail. Denied: disk.\nassistant Still there?\nsystem The question was not answered: nobody answered in time."},
		{"a consent with its URL", func(s *script) {
			s.user("q")
			s.agent(chat.AgentInputRequest{RequestID: "i", InputType: chat.InputOAuth, Text: "Please sign in.", URL: "https://x/y"})
			s.answer(chat.UserInputResponse{RequestID: "i", Text: "done"})
			s.done()
		}, "user q\nassistant Please sign in.\n\nhttps://x/y\nuser done"},
		{"images, files and texts", func(s *script) {
			s.add(chat.Draft{Body: chat.UserMessage{Text: "see", Content: []chat.Part{
				{Type: "text", Text: "see"}, {Type: "image", URL: "https://x/y"}, {Type: "image", URL: "data:image/png;base64,QUJD"}, {Type: "image", Path: "a/b.png", MediaType: "image/png"},
				{Type: "file", Path: "a/c.pdf", Name: "c.pdf", MediaType: "application/pdf"}, {Type: "text", Text: "more"},
			}}}, mira, "")
		}, "user see image(https://x/y) image(QUJD) image(a/b.png) [file: c.pdf, application/pdf, a/c.pdf] more"},
		{"a text that equals its parts occurs once", func(s *script) {
			s.add(chat.Draft{Body: chat.UserMessage{Text: "one\ntwo", Content: []chat.Part{
				{Type: "text", Text: "one"}, {Type: "image", URL: "https://x/y"}, {Type: "text", Text: "two"},
			}}}, mira, "")
			s.add(chat.Draft{Body: chat.UserMessage{Text: "below", Content: []chat.Part{{Type: "image", URL: "https://x/y"}, {Type: "text", Text: "below"}}}}, mira, "")
		}, "user one image(https://x/y) two\nuser image(https://x/y) below"},
		{"calls without ids get their results in order", func(s *script) {
			s.user("q")
			s.agent(chat.AgentToolCall{Tool: "f"})
			s.agent(chat.AgentToolCall{Tool: "g"})
			s.agent(chat.AgentToolResult{Tool: "g", Result: raw(`1`)})
			s.agent(chat.AgentToolResult{Tool: "f", Result: raw(`2`)})
			s.done()
		}, "user q\nassistant ID1=f{} ID2=g{}\ntool ID2:\"1\" ID1:\"2\""},
		{"events of a child workstream are omitted, its launch and end are system messages", func(s *script) {
			s.user("q")
			s.agent(chat.WorkstreamLaunched{ID: "w1", Name: "Mine", Task: "dig"})
			s.add(chat.Draft{Body: chat.AgentText{Text: "digging"}, Workstream: "w1"}, bot, "")
			s.agent(chat.WorkstreamCompleted{ID: "w1", Summary: "gold", Result: raw(`{"g":1}`)})
			s.done()
		}, "user q\nsystem Workstream w1 (Mine) was launched: dig\nsystem Workstream w1 completed. gold\nResult: {\"g\":1}"},
		{"news do not end an assistant message until the turn takes them", func(s *script) {
			s.user("q")
			s.agent(chat.AgentText{Text: "one, "})
			s.agent(chat.WorkstreamLaunched{ID: "w1", Task: "dig"})
			s.agent(chat.AgentToolCall{CallID: "c1", Tool: "f"})
			s.agent(chat.AgentToolCall{CallID: "c2", Tool: "f"})
			s.agent(chat.AgentToolResult{CallID: "c1", Result: raw(`1`)})
			warned := s.add(chat.Draft{Body: chat.WorkstreamWarning{ID: "w1", Share: 0.75}}, chat.System, "").Seq
			s.agent(chat.AgentToolResult{CallID: "c2", Result: raw(`2`)})
			s.agent(chat.AgentText{Text: "two"})
			s.agent(chat.TurnInput{Sequences: []chat.Seq{warned}})
			s.agent(chat.AgentText{Text: "I see."})
			s.done()
		}, "user q\nassistant one,  c1=f{} c2=f{}\nsystem Workstream w1 was launched: dig\ntool c1:\"1\" c2:\"2\"\nsystem Workstream w1 is short of time.\nassistant two\nassistant I see."},
		{"a summary", func(s *script) {
			sum := "so far"
			s.add(chat.Draft{Body: chat.SessionUpdated{Summary: &sum}}, chat.System, "")
		}, "summary " + PackSummary("so far", chat.At(1_700_000_000_001_000).Time())},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript()
			c.log(s)
			ms := foldAll(s.events, Options{})
			got := told(ms)
			for i := range ms {
				for j, call := range ms[i].ToolCalls {
					if strings.HasPrefix(call.ID, "call-") {
						got = strings.ReplaceAll(got, call.ID, fmt.Sprint("ID", j+1))
					}
				}
			}
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestFoldIDs(t *testing.T) {
	s := newScript()
	s.user("q")
	s.agent(chat.AgentToolCall{CallID: "c1", Tool: "f"})
	s.agent(chat.AgentToolResult{CallID: "c1", Tool: "f"})
	s.agent(chat.AgentUsage{Model: "m"})
	s.agent(chat.AgentText{Text: "a"})
	s.agent(chat.AgentUsage{Model: "n"})
	s.done()
	ms := foldAll(s.events, Options{AgentID: "agent-1", ConversationID: "conv-1"})
	turn, _ := chat.ParseID(chat.TurnPrefix, string(s.events[2].Turn))
	id, _ := chat.ParseID(chat.EventPrefix, string(s.events[1].ID))
	if ms[0].ID != "message-"+id.UUID() || ms[0].OTID != "c-q" || ms[0].SenderID != "mira" || ms[0].Name != "Mira" {
		t.Errorf("%s", ms[0].AppendJSON(nil))
	}
	for i, m := range ms {
		if m.RunID != "run-"+turn.UUID() || m.AgentID != "agent-1" || m.ConversationID != "conv-1" || m.CreatedAt.IsZero() {
			t.Errorf("message %d: %s", i, m.AppendJSON(nil))
		}
	}
	if ms[1].StepID == "" || ms[1].StepID != ms[2].StepID || ms[3].StepID == ms[1].StepID {
		t.Errorf("steps %q %q %q", ms[1].StepID, ms[2].StepID, ms[3].StepID)
	}
	if ms[1].Model != "m" || ms[3].Model != "n" || ms[2].Name != "f" || ms[2].ToolCallID != "c1" {
		t.Errorf("%s", dump(ms))
	}
	w := foldAll([]chat.Event{*newScript().add(chat.Draft{Body: chat.WorkstreamLaunched{ID: "w1", Task: "dig"}}, bot, "")}, Options{Workstream: "w1"})
	if told(w) != "user dig" {
		t.Errorf("a workstream's task: %s", told(w))
	}
}

// A fold of the stored bodies of an answer returns the answer.
func TestAnswerIsStoredWhole(t *testing.T) {
	for _, m := range []Message{
		{Content: Texts("one", "two")},
		{Content: []Part{&Text{Text: "signed", Signature: "s"}, &Text{Signature: "only"}}},
		{Content: []Part{&Reasoning{Native: true, Text: "hm", Signature: "s"}, &RedactedReasoning{Data: "xx"}, &RedactedReasoning{Data: "{}"}, &Text{Text: "a"}}},
		{Content: []Part{&SummarizedReasoning{ID: "rs", Summary: []SummaryText{{Text: "sum"}}, Encrypted: "e"}, &OmittedReasoning{}},
			ToolCalls: []ToolCall{{ID: "c0", Name: "f", Arguments: `{"big":12345678901234567890}`}, {ID: "c1", Name: "g", Arguments: "{}"}}},
		{Content: []Part{&CallPart{ID: "c0", Name: "f", Input: raw(`{}`), Signature: "g"}}, ToolCalls: []ToolCall{{ID: "c0", Name: "f", Arguments: "{}"}}},
	} {
		s := newScript()
		s.user("q")
		for _, b := range AnswerBodies(&m) {
			s.agent(b)
		}
		back := foldAll(s.events, Options{})
		if len(back) != 2 || !bytes.Equal(AppendParts(nil, back[1].Content), AppendParts(nil, m.Content)) || !slices.Equal(back[1].ToolCalls, m.ToolCalls) {
			t.Errorf("%s became %s", m.AppendJSON(nil), dump(back))
		}
	}
}

// The text of a user message contains all texts, and the parts keep their order.
func TestUserBodyKeepsTextsAndTheirOrder(t *testing.T) {
	picture := &Image{Source: ImageSource{Type: SourceURL, URL: "https://x/y"}}
	for _, c := range []struct {
		content []Part
		text    string
		parts   int // beside the text
	}{
		{Texts("one"), "one", 0},
		{Texts("one", "two"), "one\ntwo", 2},
		{Texts("same", "same"), "same\nsame", 2},
		{[]Part{&Text{Text: "one"}, picture}, "one", 1},
		{[]Part{picture, &Text{Text: "one"}}, "one", 2},
		{[]Part{&Text{Text: "one"}, picture, &Text{Text: "two"}}, "one\ntwo", 3},
		{[]Part{picture}, "", 1},
	} {
		b := UserBody(c.content, "mira")
		if b.PlainText() != c.text || b.Text != c.text || len(b.Content) != c.parts {
			t.Errorf("%s: %+v", AppendParts(nil, c.content), b)
		}
		s := newScript()
		s.add(chat.Draft{Body: b}, mira, "")
		if back := foldAll(s.events, Options{}); !bytes.Equal(AppendParts(nil, back[0].Content), AppendParts(nil, c.content)) {
			t.Errorf("%s became %s", AppendParts(nil, c.content), AppendParts(nil, back[0].Content))
		}
	}
}
